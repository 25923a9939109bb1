"""The training, validation and test images of a data set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """Binary images of 28x28 pixels, split into training, validation and test images.

    Attributes
    ----------
    name : str
    train, validation, test : ndarray of uint8, (n, 784)
        Pixels are 0 or 1; `row.reshape(28, 28)` is the upright picture.
    train_labels, validation_labels, test_labels : ndarray of uint8, (n,)
    background : int
        The value of the pixels outside the digit or object, which missing patches get: 0 for MNIST, 1 for Caltech.
    """

    name: str
    train: NDArray[np.uint8]
    validation: NDArray[np.uint8]
    test: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    validation_labels: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]
    background: int

    def __repr__(self) -> str:
        sizes = " / ".join(f"{len(part):,}" for part in (self.train, self.validation, self.test))
        return f"<{self.name}: {sizes} images of 28x28, background {self.background}>"
