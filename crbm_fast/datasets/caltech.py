"""Caltech101 Silhouettes [2]_, split as published and as in the paper [1]_.

References
----------
.. [1] W. Ping, A. Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017, section 6.
.. [2] B. Marlin, K. Swersky, B. Chen, N. de Freitas, "Inductive principles for restricted Boltzmann machine learning",
   AISTATS 2010.
"""

from __future__ import annotations

import os

from crbm_fast import _validation as check
from crbm_fast.datasets._files import read_images
from crbm_fast.datasets._sources import Source, find
from crbm_fast.datasets.splits import Splits

# The checksums of the arrays are those of the upright images, (n, 28, 28), of the file that `downloads` has.
SOURCE = Source(
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
NAMES_IN_NPZ = {name: name for name in SOURCE.arrays}
NAMES_IN_MAT = {
    "train": "train_data",
    "validation": "val_data",
    "test": "test_data",
    "train_labels": "train_labels",
    "validation_labels": "val_labels",
    "test_labels": "test_labels",
}


def load_caltech(path: str | os.PathLike[str] | None = None, *, download: bool = True) -> Splits:
    """Caltech101 Silhouettes as in the paper: 4,100 / 2,264 / 2,307 filled outlines of objects.

    The object is 0 and the background 1, the other way round than in MNIST.  Labels are 1 to 101.  A few images occur
    twice, also in two parts (9 of validation and 11 of test are in train): the parts are as published.

    Parameters
    ----------
    path : str or path, optional
        The folder of `caltech101_silhouettes_28_split1.mat` (or of `caltech101_silhouettes.npz`, with the arrays that
        `Splits` has), or the file itself.  Without it, the same folders are searched as by `load_mnist`.
    download : bool
        Whether to download what is not found (0.9 MB, into the cache; needs pooch).

    Returns
    -------
    Splits

    Raises
    ------
    FileNotFoundError
        If there is no file; the message says which to put where.
    ValueError
        If the file has other checksums than the silhouettes.
    """
    (file,) = find(SOURCE, path, check.check_flag("download", download))
    matlab = ".mat" in file.suffixes
    arrays = read_images(file, NAMES_IN_MAT if matlab else NAMES_IN_NPZ, SOURCE, transposed=matlab)
    fields = {name: array.reshape(len(array), 784) if array.ndim == 3 else array for name, array in arrays.items()}
    return Splits(SOURCE.name, **fields, background=1)
