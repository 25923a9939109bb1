"""Images to learn from, as in the paper's experiments: clean binary V, corrupted X, and the errors of a prediction.

images.py       load_digits               5,000 digits that come with the package
                load_mnist, load_caltech  the paper's sets, found or downloaded
corruption.py   flip, occlude             V -> X: noisy images, images with a patch missing
                error_all, error_changed  the two errors of the paper's tables
_find.py        where the files are       _read.py   what is in them
"""

from crbm_fast.datasets.corruption import error_all, error_changed, flip, occlude
from crbm_fast.datasets.images import Splits, load_caltech, load_digits, load_mnist

__all__ = [
    "Splits",
    "error_all",
    "error_changed",
    "flip",
    "load_caltech",
    "load_digits",
    "load_mnist",
    "occlude",
]
