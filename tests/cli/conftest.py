"""Files for the commands."""

import numpy as np
import pytest
from helpers.cli import run


@pytest.fixture
def data(tmp_path, rng):
    """A file with X (60, 5) and V (60, 6)."""
    V = rng.integers(2, size=(60, 6)).astype(np.uint8)
    X = V[:, :5] + rng.normal(0, 0.5, (60, 5))
    np.savez(tmp_path / "data.npz", X=X, V=V)
    return tmp_path / "data.npz"


@pytest.fixture
def model(data, capsys):
    """A file with a model trained on it."""
    assert run("train", data, "--out", data.with_name("model.npz"), "--hidden", 3, "--epochs", 2) == 0
    capsys.readouterr()
    return data.with_name("model.npz")
