"""Small files in the formats of MNIST and of Caltech101 Silhouettes, and what must be loaded from them."""

import gzip
import hashlib

import numpy as np
import scipy.io

from crbm_fast.datasets import mnist

IDX = dict(zip(("x_train", "y_train", "x_test", "y_test"), mnist.SOURCE.layouts[1], strict=True))


def idx(array):
    """The contents of an array's IDX file."""
    return bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def checksums(arrays):
    return {name: hashlib.sha256(idx(array)).hexdigest() for name, array in arrays.items()}


def flat(arrays):
    """The same arrays with a row for each image."""
    return {name: a.reshape(len(a), -1).squeeze() for name, a in arrays.items()}


def write_mnist(folder, arrays, form):
    """The files of MNIST in one of the forms people have them in."""
    folder.mkdir(parents=True, exist_ok=True)
    if form == "npz":
        np.savez(folder / "mnist.npz", **arrays)
    elif form == "flat npz":
        np.savez_compressed(folder / "mnist.npz", **flat(arrays))
    else:
        for i, (name, file) in enumerate(IDX.items()):
            if form == "gz" or (form == "mixed" and i % 2):
                (folder / f"{file}.gz").write_bytes(gzip.compress(idx(arrays[name])))
            else:
                (folder / file).write_bytes(idx(arrays[name]))


def check_mnist(data, arrays):
    """The split's images are the arrays', above 127, in their order."""
    every = (arrays["x_train"].reshape(-1, 784) > 127).astype(np.uint8)
    place = {row.tobytes(): i for i, row in enumerate(every)}
    train, validation = ([place[row.tobytes()] for row in part] for part in (data.train, data.validation))
    assert train == sorted(train)
    assert validation == sorted(validation)
    assert sorted(train + validation) == list(range(len(every)))
    np.testing.assert_array_equal(data.train_labels, arrays["y_train"][train])
    np.testing.assert_array_equal(data.validation_labels, arrays["y_train"][validation])
    np.testing.assert_array_equal(data.test, arrays["x_test"].reshape(-1, 784) > 127)
    np.testing.assert_array_equal(data.test_labels, arrays["y_test"])
    assert data.background == 0
    return validation


def write_caltech(folder, arrays, form):
    """The file of the silhouettes, as .npz or as Marlin's .mat."""
    folder.mkdir(parents=True, exist_ok=True)
    if form == "npz":
        columns = {name: np.asfortranarray(a) for name, a in flat(arrays).items()}
        np.savez(folder / "caltech101_silhouettes.npz", **columns, class_names=np.array(["crab"] * 101))
        return
    # Marlin's file has pictures column by column and labels as columns.
    contents = {"classnames": np.array(["crab"] * 101, object)}
    for ours, theirs in (("train", "train"), ("validation", "val"), ("test", "test")):
        a = arrays[ours].reshape(-1, 28, 28)
        contents[f"{theirs}_data"] = a.transpose(0, 2, 1).reshape(len(a), 784)
        contents[f"{theirs}_labels"] = arrays[f"{ours}_labels"][:, np.newaxis]
    scipy.io.savemat(folder / "caltech101_silhouettes_28_split1.mat", contents, do_compression=True)


def check_caltech(data, arrays):
    """The split's images and labels are the arrays."""
    for name, array in flat(arrays).items():
        np.testing.assert_array_equal(getattr(data, name), array)
    assert data.background == 1
