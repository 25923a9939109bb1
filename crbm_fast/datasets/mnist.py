"""MNIST [2]_, split as in the paper [1]_.

References
----------
.. [1] W. Ping, A. Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017, section 6.
.. [2] Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document recognition",
   Proceedings of the IEEE 86(11), 1998.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _validation as check
from crbm_fast._data import permuted
from crbm_fast.datasets._files import read_images
from crbm_fast.datasets._sources import Source, find
from crbm_fast.datasets.splits import Splits

# The checksums are those of the original files, gzipped (downloads) and not (arrays).
SOURCE = Source(
    name="MNIST",
    layouts=(
        ("mnist.npz",),
        (
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte",
        ),
    ),
    url="https://ossci-datasets.s3.amazonaws.com/mnist/",
    downloads={
        "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
    arrays={
        "x_train": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "y_train": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "x_test": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "y_test": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)
VALIDATION_SIZE = 10_000  # of the 60,000 training images


def load_mnist(path: str | os.PathLike[str] | None = None, *, seed: int = 0, download: bool = True) -> Splits:
    """MNIST as in the paper: 50,000 / 10,000 / 10,000 digits, whose pixels above 127 are 1.

    Parameters
    ----------
    path : str or path, optional
        The folder of `mnist.npz` or of the four IDX files (`train-images-idx3-ubyte` and so on, each also as .gz), or
        the .npz file itself.  Without it, the folder that the environment variable CRBM_FAST_DATA names is searched,
        then the user's cache (`~/.cache/crbm_fast`; on macOS `~/Library/Caches/crbm_fast`).
    seed : int
        The validation set is a random choice of 10,000 of the 60,000 training images, which depends on the seed alone.
        Both parts keep MNIST's order.
    download : bool
        Whether to download what is not found (11 MB, into the cache; needs pooch).

    Returns
    -------
    Splits

    Raises
    ------
    FileNotFoundError
        If there are no files; the message says which to put where.
    ValueError
        If the files have other checksums than MNIST's.
    """
    seed = check.check_int("seed", seed, 0, 2**63 - 1)
    files = find(SOURCE, path, check.check_flag("download", download))
    names = tuple(SOURCE.arrays)
    # one file with all arrays, or one for each
    parts = [names] if len(files) == 1 else [(name,) for name in names]
    arrays: dict[str, NDArray[np.uint8]] = {}
    for file, part in zip(files, parts, strict=True):
        arrays |= read_images(file, {name: name for name in part}, SOURCE)
    V, test = ((arrays[name] > 127).view(np.uint8).reshape(-1, 784) for name in ("x_train", "x_test"))
    labels = arrays["y_train"]
    chosen = np.zeros(len(V), bool)
    chosen[permuted(np.arange(VALIDATION_SIZE), len(V), seed)] = True
    return Splits(
        SOURCE.name, V[~chosen], V[chosen], test, labels[~chosen], labels[chosen], arrays["y_test"].copy(), background=0
    )
