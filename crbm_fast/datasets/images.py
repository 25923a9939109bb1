"""Binary 28x28 images in three parts: digits that come with the package, MNIST, Caltech101 Silhouettes.

References
----------
.. [1] W. Ping, A. Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017, section 6.
.. [2] Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document recognition",
   Proceedings of the IEEE 86(11), 1998.
.. [3] B. Marlin, K. Swersky, B. Chen, N. de Freitas, "Inductive principles for restricted Boltzmann machine learning",
   AISTATS 2010.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crbm_fast import _validation as check
from crbm_fast._data import permuted
from crbm_fast.datasets._find import Source, find
from crbm_fast.datasets._read import read, sha256

# The checksums of MNIST are those of the original files, raw and gzipped.
MNIST = Source(
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
MNIST_VALIDATION = 10_000  # of the 60,000 training images

# The checksums of the arrays are those of the upright images, (n, 28, 28), of the file that `downloads` has.
CALTECH = Source(
    name="Caltech101 Silhouettes",
    layouts=(("caltech101_silhouettes.npz",), ("caltech101_silhouettes_28_split1.mat",)),
    url="https://people.cs.umass.edu/~marlin/data/",
    downloads={
        "caltech101_silhouettes_28_split1.mat": "eb6735e8d84b1850fabc5590124aab1755e90c9fd28123585324398405e1e42a",
    },
    arrays={
        "train": "4726df30ed85d53b6530d6371760464606e8c297a8bb5302cb097bac2064708e",
        "validation": "79c46f895724e4a515f9fd38352a27fe6f9825b431a93c55fd7a7d02886f59a2",
        "test": "c7acbba938f7f249273457bb7a46df1cc5ac69157b9836bf6a39f8e7648ebf41",
        "train_labels": "5ceab0e66416366baabb89602dc51489e32dc572085ccf1bdab11499348c3f95",
        "validation_labels": "b272c283962136c57b09f5709f7bff6c1367b1ac6bfb4e125f88f1c8a754d91f",
        "test_labels": "dbdce792e5bc219dcc55090447c3cdc859a847a526c94938448f07dacd9dc5f5",
    },
)
CALTECH_MAT = {
    "train": "train_data",
    "validation": "val_data",
    "test": "test_data",
    "train_labels": "train_labels",
    "validation_labels": "val_labels",
    "test_labels": "test_labels",
}

# What tools/make_digits.py prints.
DIGITS = {
    "images": "ea3646cc2c7143433a645d4e08298a720bf02af5ed4c4c1b6d266890c9d41929",
    "labels": "e18e6fe44bbeb980f85a745210a0a269a8bb7b98201e0f223576115fd7d5dc6c",
}
DIGITS_PARTS = [4000, 4500]
DIGITS_FILE = Path(__file__).with_name("data") / "digits.npz"


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """Images in three parts.

    Attributes
    ----------
    name : str
    train, validation, test : ndarray of uint8, (n, 784)
        0 or 1; `row.reshape(28, 28)` is the upright picture.
    train_labels, validation_labels, test_labels : ndarray of uint8, (n,)
    background : int
        The value of pixels outside digit or object, which a missing patch is set to: 0 for MNIST, 1 for Caltech.
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


def load_digits() -> Splits:
    """4,000 / 500 / 500 handwritten digits that come with the package.

    Images of MNIST's training set, pixels above 127 being 1, others 0; in each part the digits take turns, 0 to 9.
    None is in the test set of `load_mnist`.  MNIST's licence is CC BY-SA 3.0.

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
    packed = read(DIGITS_FILE, {"images": "images", "labels": "labels"})
    images, labels = np.unpackbits(packed["images"], axis=1).reshape(-1, 28, 28), packed["labels"]
    _verify(DIGITS_FILE, "the digits of crbm_fast", {"images": images, "labels": labels}, DIGITS)
    V, y = np.split(images.reshape(-1, 784), DIGITS_PARTS), np.split(labels, DIGITS_PARTS)
    return Splits("digits", V[0], V[1], V[2], y[0], y[1], y[2], background=0)


def load_mnist(path: str | os.PathLike[str] | None = None, *, seed: int = 0, download: bool = True) -> Splits:
    """MNIST [2]_ as in the paper [1]_: 50,000 / 10,000 / 10,000 digits, pixels above 127 being 1.

    Parameters
    ----------
    path : str or path, optional
        The folder of `mnist.npz` or of the four IDX files (`train-images-idx3-ubyte` and so on, each also as .gz), or
        the .npz file itself.  Without it, the folder that the environment variable CRBM_FAST_DATA names is looked into,
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
        If there are no files; it says which to put where.
    ValueError
        If what is there has another checksum than MNIST.
    """
    seed = check.check_int("seed", seed, 0, 2**63 - 1)
    files = find(MNIST, path, check.check_flag("download", download))
    names = tuple(MNIST.arrays)
    # one file with all arrays, or one for each
    parts = [names] if len(files) == 1 else [(name,) for name in names]
    arrays: dict[str, NDArray[np.uint8]] = {}
    for file, part in zip(files, parts, strict=True):
        arrays |= _arrays(MNIST, file, {name: name for name in part})
    V, test = ((arrays[name] > 127).view(np.uint8).reshape(-1, 784) for name in ("x_train", "x_test"))
    labels = arrays["y_train"]
    chosen = np.zeros(len(V), bool)
    chosen[permuted(np.arange(MNIST_VALIDATION), len(V), seed)] = True
    return Splits(
        MNIST.name, V[~chosen], V[chosen], test, labels[~chosen], labels[chosen], arrays["y_test"].copy(), background=0
    )


def load_caltech(path: str | os.PathLike[str] | None = None, *, download: bool = True) -> Splits:
    """Caltech101 Silhouettes [3]_ as in the paper [1]_: 4,100 / 2,264 / 2,307 outlines of objects, filled.

    The object is 0 and the background 1, the other way round than in MNIST.  Labels are 1 to 101.  A few images occur
    twice, also in two parts (9 of validation and 11 of test are in train): the parts are as published.

    Parameters
    ----------
    path : str or path, optional
        The folder of `caltech101_silhouettes_28_split1.mat` (or of `caltech101_silhouettes.npz`, with the arrays that
        `Splits` has), or the file itself.  Without it, as for `load_mnist`.
    download : bool
        Whether to download what is not found (0.9 MB, into the cache; needs pooch).

    Returns
    -------
    Splits

    Raises
    ------
    FileNotFoundError
        If there is no file; it says which to put where.
    ValueError
        If what is there has another checksum than the silhouettes.
    """
    (file,) = find(CALTECH, path, check.check_flag("download", download))
    matlab = ".mat" in file.suffixes
    arrays = _arrays(CALTECH, file, CALTECH_MAT if matlab else {name: name for name in CALTECH.arrays}, matlab)
    fields = {name: array.reshape(len(array), 784) if array.ndim == 3 else array for name, array in arrays.items()}
    return Splits(CALTECH.name, **fields, background=1)


def _arrays(
    source: Source, file: Path, names: Mapping[str, str], transposed: bool = False
) -> dict[str, NDArray[np.uint8]]:
    """Arrays of a file: upright images (n, 28, 28) and labels (n,), with the source's checksums."""
    arrays = {}
    for name, array in read(file, names).items():
        n = len(np.atleast_1d(array))
        if array.size == 784 * n:
            images = array.reshape(n, 28, 28)
            # MATLAB's matrices go column by column
            arrays[name] = np.ascontiguousarray(images.transpose(0, 2, 1)) if transposed else images
        else:
            arrays[name] = array.ravel()
    _verify(file, source.name, arrays, source.arrays)
    return arrays


def _verify(file: Path, what: str, arrays: Mapping[str, NDArray[np.uint8]], checksums: Mapping[str, str]) -> None:
    for name, array in arrays.items():
        found = sha256(array)
        if found != checksums[name]:
            raise ValueError(
                f"{file} does not have {what}, or is damaged: {name} of shape {array.shape} has the checksum "
                f"{found}, expected {checksums[name]}. Remove it, and get it again"
            )
