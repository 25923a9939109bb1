"""Images to learn from, as in the paper's experiments: clean binary V, corrupted X, and the errors of a prediction.

digits.py       load_digits               5,000 digits that come with the package
mnist.py        load_mnist                MNIST, found or downloaded
caltech.py      load_caltech              Caltech101 Silhouettes, found or downloaded
corruption.py   flip, occlude             V -> X: noisy images, images with a missing patch
                error_all, error_changed  the two errors of the paper's tables
splits.py       Splits                    what the load functions return
_sources.py     where the files of a data set are
_files.py       the arrays in these files, and their checksums

A new data set is one file like caltech.py, whose load function is named here.
"""

from crbm_fast.datasets.caltech import load_caltech
from crbm_fast.datasets.corruption import error_all, error_changed, flip, occlude
from crbm_fast.datasets.digits import load_digits
from crbm_fast.datasets.mnist import load_mnist
from crbm_fast.datasets.splits import Splits

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
