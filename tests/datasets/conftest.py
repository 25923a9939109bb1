"""Small data sets, and an environment without any other."""

import dataclasses

import numpy as np
import pytest
from helpers.datasets import checksums

from crbm_fast.datasets import caltech, mnist


@pytest.fixture(autouse=True)
def no_data(tmp_path, monkeypatch):
    """No data in the environment or the cache, and no connection to any server."""
    monkeypatch.delenv("CRBM_FAST_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")
    for module in (mnist, caltech):
        url = "http://127.0.0.1:9/"  # nobody listens there
        monkeypatch.setattr(module, "SOURCE", dataclasses.replace(module.SOURCE, url=url))


@pytest.fixture
def small_mnist(rng, monkeypatch):
    """Arrays of 60 + 10 grey images, taken for MNIST with 10 for validation."""
    arrays = {
        "x_train": rng.integers(0, 256, (60, 28, 28), np.uint8),
        "y_train": rng.integers(0, 10, 60, np.uint8),
        "x_test": rng.integers(0, 256, (10, 28, 28), np.uint8),
        "y_test": rng.integers(0, 10, 10, np.uint8),
    }
    monkeypatch.setattr(mnist, "SOURCE", dataclasses.replace(mnist.SOURCE, arrays=checksums(arrays)))
    monkeypatch.setattr(mnist, "VALIDATION_SIZE", 10)
    return arrays


@pytest.fixture
def small_caltech(rng, monkeypatch):
    """Arrays of 8 + 4 + 5 images, taken for the silhouettes."""
    arrays = {}
    for name, n in (("train", 8), ("validation", 4), ("test", 5)):
        arrays[name] = rng.integers(0, 2, (n, 28, 28), np.uint8)
        arrays[f"{name}_labels"] = rng.integers(1, 102, n, np.uint8)
    monkeypatch.setattr(caltech, "SOURCE", dataclasses.replace(caltech.SOURCE, arrays=checksums(arrays)))
    return arrays
