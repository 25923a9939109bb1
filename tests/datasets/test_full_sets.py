"""Facts of MNIST and Caltech101 Silhouettes as they are, where the folder that CRBM_FAST_DATA names has them."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets import check_caltech, write_caltech

from crbm_fast import datasets
from crbm_fast._data import permuted

FOLDER = Path(os.environ.get("CRBM_FAST_DATA") or "CRBM_FAST_DATA is not set")


def needs(name):
    return pytest.mark.skipif(not (FOLDER / name).is_file(), reason=f"no {name} in CRBM_FAST_DATA")


@needs("mnist.npz")
def test_mnist_as_it_is():
    data = datasets.load_mnist(FOLDER)
    assert repr(data) == "<MNIST: 50,000 / 10,000 / 10,000 images of 28x28, background 0>"
    chosen = np.sort(permuted(np.arange(10_000), 60_000, 0))
    assert chosen[:8].tolist() == [3, 5, 10, 14, 27, 31, 33, 39]  # found once, kept
    with np.load(FOLDER / "mnist.npz") as arrays:
        V, labels = arrays["x_train"] > 127, arrays["y_train"]
    np.testing.assert_array_equal(data.validation, V[chosen])
    np.testing.assert_array_equal(data.validation_labels, labels[chosen])
    np.testing.assert_array_equal(data.train, np.delete(V, chosen, axis=0))
    np.testing.assert_array_equal(data.train_labels, np.delete(labels, chosen))
    labels = np.r_[data.train_labels, data.validation_labels]
    assert np.bincount(labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.test.mean() == pytest.approx(0.13423, abs=1e-5)
    known = {row.tobytes() for part in (data.train, data.validation) for row in part}
    test = {row.tobytes() for row in data.test}
    digits = datasets.load_digits()
    mine = {row.tobytes() for part in (digits.train, digits.validation, digits.test) for row in part}
    assert mine <= known
    assert not mine & test


@needs("caltech101_silhouettes.npz")
def test_caltech_as_it_is(tmp_path):
    data = datasets.load_caltech(FOLDER)
    assert repr(data) == "<Caltech101 Silhouettes: 4,100 / 2,264 / 2,307 images of 28x28, background 1>"
    means = [part.mean() for part in (data.train, data.validation, data.test)]
    assert means == pytest.approx([0.551055, 0.535959, 0.539015], abs=1e-6)
    pictures = data.train.reshape(-1, 28, 28)
    assert pictures[:, [0, 0, -1, -1], [0, -1, 0, -1]].all()  # the background is 1,
    assert pictures[:, 12:16, 12:16].mean() == pytest.approx(0.065, abs=1e-3)  # the object 0
    for labels in (data.train_labels, data.validation_labels, data.test_labels):
        assert np.unique(labels).tolist() == list(range(1, 102))
    faces = pictures[data.train_labels == 2] == 0  # upright: taller than wide
    assert faces.any(axis=2).sum() > 1.2 * faces.any(axis=1).sum()
    # what Marlin's file has, made from this one
    arrays = {f.name: getattr(data, f.name) for f in dataclasses.fields(data) if f.name not in ("name", "background")}
    write_caltech(tmp_path, arrays, "mat")
    check_caltech(datasets.load_caltech(tmp_path), arrays)


@needs("mnist.npz")
def test_the_papers_errors_are_possible():
    """Table 2, LR: errors on changed pixels are part of all, so "Changed" cannot mean all pixels of a patch."""
    V = datasets.load_mnist(FOLDER).test
    for size, all_, changed in ((8, 0.01468, 0.61304), (12, 0.03498, 0.53971)):
        X, where = datasets.occlude(V, size, value=0)
        assert changed * (X != V).mean() < all_ < changed * where.mean()
