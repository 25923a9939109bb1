"""What is to be predicted: the clean images of a data set, from images that are corrupted in one way.

References
----------
.. [1] W. Ping, A. Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crbm_fast import datasets
from crbm_fast.datasets import Splits

Images = NDArray[np.uint8]

# Each part has its own seed, or the i-th images of two parts would share their noise.
CORRUPTION_SEEDS = {"train": 1, "validation": 2, "test": 3}
PARTS = tuple(CORRUPTION_SEEDS)


@dataclass(frozen=True)
class Scale:
    """How many images and hidden units an experiment has.

    Attributes
    ----------
    name : str
    nh : int
        The number of hidden units.
    digits : bool
        Whether the digits that come with the package stand in for MNIST and, inverted, for Caltech.
    train, validation, test : int, optional
        How many images of each part are used, the first ones; None for all.  With test=0, as in a search, nothing is
        tested.
    keywords : mapping
        Keywords of `train` that replace the recipe's.
    """

    name: str
    nh: int = 256
    digits: bool = False
    train: int | None = None
    validation: int | None = None
    test: int | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)


SCALES = {
    scale.name: scale
    for scale in (
        Scale("full"),
        # Every method on every task in a few minutes, without a download.  LR has as many steps as the others, and the
        # average is over as few steps as there are.
        Scale(
            "small",
            nh=64,
            digits=True,
            train=600,
            validation=200,
            test=200,
            keywords={"epochs": 6, "batch_size": 10, "learning_rate": 0.01, "averaging": 0.98},
        ),
    )
}


@dataclass(frozen=True)
class Task:
    """Clean images are to be predicted from corrupted ones.

    Attributes
    ----------
    data : {"mnist", "caltech"}
    kind : {"noisy", "occluded"}
    level : int
        Percent of the pixels that are flipped, or the side of the missing square in pixels.
    """

    data: Literal["mnist", "caltech"]
    kind: Literal["noisy", "occluded"]
    level: int

    @property
    def name(self) -> str:
        """The name in files: mnist-noisy-10."""
        return f"{self.data}-{self.kind}-{self.level}"

    @property
    def title(self) -> str:
        """The title of a table's column: Noisy (10 %), Occluded (8x8)."""
        return f"{self.kind.capitalize()} ({self.amount})"

    @property
    def amount(self) -> str:
        """How much is corrupted: 10 %, or 8x8."""
        return f"{self.level} %" if self.kind == "noisy" else f"{self.level}x{self.level}"

    def corrupt(self, V: Images, background: int, part: str) -> Images:
        """The corrupted images X (N, 784) of clean images V (N, 784), which are the first ones of a part."""
        seed = CORRUPTION_SEEDS[part]
        if self.kind == "noisy":
            return datasets.flip(V, self.level / 100, seed=seed)
        return datasets.occlude(V, self.level, value=background, seed=seed)[0]

    def patches(self, V: Images, part: str) -> NDArray[np.bool_]:
        """Which pixels (N, 784) an occluded task has set to the background."""
        return datasets.occlude(V, self.level, value=0, seed=CORRUPTION_SEEDS[part])[1]

    def load(self, scale: Scale) -> dict[str, tuple[Images, Images]]:
        """The corrupted and the clean images by part, {part: (X, V)}; FileNotFoundError if the data set is not here."""
        splits = load(self.data, scale.digits)
        parts = {}
        for part in PARTS:
            V = getattr(splits, part)[: getattr(scale, part)]
            parts[part] = (self.corrupt(V, splits.background, part), V)
        return parts

    def facts(self, scale: Scale) -> dict[str, Any]:
        """What the images depend on, for JSON."""
        return {**asdict(self), "digits": scale.digits, "corruption_seeds": CORRUPTION_SEEDS}


@cache
def load(data: str, digits: bool) -> Splits:
    """The data set, which is read once; with `digits`, the package's digits with the polarity of that data set."""
    if not digits:
        return datasets.load_mnist() if data == "mnist" else datasets.load_caltech()
    splits = datasets.load_digits()
    if data == "mnist":
        return splits
    inverted = {part: 1 - getattr(splits, part) for part in PARTS}
    return replace(splits, name="digits, inverted", background=1, **inverted)


NOISY_10, NOISY_20 = Task("mnist", "noisy", 10), Task("mnist", "noisy", 20)
# The paper's figure of occlusion levels, from Table 2's patches to no features at all.
OCCLUDED = {side: Task("mnist", "occluded", side) for side in (8, 12, 16, 20, 24, 28)}
TABLES = {
    "table1": (NOISY_10, NOISY_20),
    "table2": (OCCLUDED[8], OCCLUDED[12]),
    "table3": (Task("caltech", "noisy", 20), Task("caltech", "occluded", 12)),
}
IN_TABLES = tuple(task for pair in TABLES.values() for task in pair)
TASKS = {task.name: task for task in (*IN_TABLES, *OCCLUDED.values())}
