"""The handwritten digits that come with the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crbm_fast.datasets._files import read_arrays, verify
from crbm_fast.datasets.splits import Splits

FILE = Path(__file__).with_name("data") / "digits.npz"
# tools/make_digits.py prints these checksums.
CHECKSUMS = {
    "images": "ea3646cc2c7143433a645d4e08298a720bf02af5ed4c4c1b6d266890c9d41929",
    "labels": "e18e6fe44bbeb980f85a745210a0a269a8bb7b98201e0f223576115fd7d5dc6c",
}
FIRST_VALIDATION, FIRST_TEST = 4000, 4500


def load_digits() -> Splits:
    """4,000 / 500 / 500 handwritten digits that come with the package.

    They are images of MNIST's training set, whose pixels above 127 are 1 and whose others are 0.  In each part the
    digits take turns, 0 to 9.  None of them is in the test set of `load_mnist`.  MNIST's licence is CC BY-SA 3.0.

    Returns
    -------
    Splits

    Examples
    --------
    >>> from crbm_fast import datasets
    >>> data = datasets.load_digits()
    >>> data
    <digits: 4,000 / 500 / 500 images of 28x28, background 0>
    >>> X = datasets.flip(data.train, 0.1)
    >>> X.shape
    (4000, 784)
    """
    packed = read_arrays(FILE, {"images": "images", "labels": "labels"})
    images, labels = np.unpackbits(packed["images"], axis=1).reshape(-1, 28, 28), packed["labels"]
    verify(FILE, "the digits of crbm_fast", {"images": images, "labels": labels}, CHECKSUMS)
    V, y = (np.split(array, [FIRST_VALIDATION, FIRST_TEST]) for array in (images.reshape(-1, 784), labels))
    return Splits("digits", V[0], V[1], V[2], y[0], y[1], y[2], background=0)
