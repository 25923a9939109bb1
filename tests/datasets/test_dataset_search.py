"""Where the files of a data set are found: a path, CRBM_FAST_DATA, the cache; and the messages if they are not."""

import sys

import numpy as np
import pooch
import pytest
from helpers.datasets import IDX, check_caltech, check_mnist, write_caltech, write_mnist

from crbm_fast import datasets
from crbm_fast.datasets import _files, _sources, mnist


def test_order_of_places(small_mnist, tmp_path, monkeypatch):
    """A path, CRBM_FAST_DATA, the cache; what the first has not is in the next."""

    def place(data):
        return int(data.test_labels[0])

    monkeypatch.setattr(_files, "verify", lambda *_: None)
    folders = [tmp_path / "home" / "given", tmp_path / "variable", tmp_path / "cache" / "crbm_fast"]
    for number, folder in enumerate(folders):
        write_mnist(folder, {**small_mnist, "y_test": np.full(10, number, np.uint8)}, "raw")
    assert place(datasets.load_mnist()) == 2
    monkeypatch.setenv("CRBM_FAST_DATA", str(folders[1]))
    assert place(datasets.load_mnist()) == 1
    assert place(datasets.load_mnist(folders[0])) == 0
    assert place(datasets.load_mnist("~/given")) == 0
    (folders[1] / IDX["x_train"]).unlink()
    assert place(datasets.load_mnist()) == 2
    monkeypatch.setenv("CRBM_FAST_DATA", "~/given")
    assert place(datasets.load_mnist()) == 0


def test_a_path_may_be_the_file(small_mnist, small_caltech, tmp_path):
    write_mnist(tmp_path, small_mnist, "npz")
    (tmp_path / "mnist.npz").rename(tmp_path / "mine.npz")
    check_mnist(datasets.load_mnist(str(tmp_path / "mine.npz")), small_mnist)
    for form, name in (("npz", "caltech101_silhouettes.npz"), ("mat", "caltech101_silhouettes_28_split1.mat")):
        write_caltech(tmp_path, small_caltech, form)
        check_caltech(datasets.load_caltech(tmp_path / name), small_caltech)


not_on_macos = pytest.mark.skipif(sys.platform == "darwin", reason="macOS may ignore XDG_CACHE_HOME")


@pytest.mark.parametrize("value", [None, "", pytest.param("/somewhere", marks=not_on_macos)])
def test_the_cache_is_where_pooch_has_it(value, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME") if value is None else monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert _sources.cache() == pooch.os_cache("crbm_fast")


def test_the_message_says_what_to_put_where(small_mnist, tmp_path, monkeypatch):
    monkeypatch.setenv("CRBM_FAST_DATA", str(tmp_path / "variable"))
    write_mnist(tmp_path / "variable", small_mnist, "raw")
    (tmp_path / "variable" / IDX["y_train"]).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load_mnist(download=False)
    message = str(caught.value)
    for name in ("mnist.npz", *IDX.values(), *mnist.SOURCE.downloads, mnist.SOURCE.url, "path=", "load_digits()"):
        assert name in message
    assert f"{tmp_path / 'variable'} (CRBM_FAST_DATA): it lacks {IDX['y_train']}\n" in message
    assert f"{tmp_path / 'cache' / 'crbm_fast'} (the cache): no such folder\n" in message
    assert "download=False" in message
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load_caltech(tmp_path / "variable")
    message = str(caught.value)
    assert f"{tmp_path / 'variable'} (path): no such file\nNothing else was tried, as path was given.\n" in message
    assert "caltech101_silhouettes.npz, or caltech101_silhouettes_28_split1.mat" in message
    assert "cache" not in message


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"path": 3}, TypeError, "path=3 must be the name of a folder or file"),
        ({"seed": -1}, ValueError, "seed=-1 is outside"),
        ({"seed": 0.5}, TypeError, r"seed=0\.5 must be an integer"),
        ({"download": "no"}, TypeError, "download='no' must be True or False"),
    ],
)
def test_bad_arguments_of_loading(arguments, error, message):
    with pytest.raises(error, match=message):
        datasets.load_mnist(**arguments)
