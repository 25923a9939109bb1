"""Downloads: complete files with the right checksum reach the cache, and nothing else does."""

import dataclasses
import gc
import hashlib
import http.server
import os
import sys
import threading
from pathlib import Path

import pooch
import pytest
from helpers.datasets import check_caltech, check_mnist, write_caltech, write_mnist

from crbm_fast import datasets
from crbm_fast.datasets import caltech, mnist

# pooch 1.9 leaves the connection of a failed download to the garbage collector, which warns
unclosed_connection = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder that MNIST and the silhouettes are downloaded from; files whose names a test adds to `cut` break off."""
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
        for module in (mnist, caltech):
            url = f"http://127.0.0.1:{running.server_port}/"
            monkeypatch.setattr(module, "SOURCE", dataclasses.replace(module.SOURCE, url=url))
        yield folder, cut
        running.shutdown()
        thread.join()
    gc.collect()


def offer(folder, monkeypatch, module):
    """Take the files in the folder for those that the module downloads."""
    source = module.SOURCE
    checksums = {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in source.downloads}
    monkeypatch.setattr(module, "SOURCE", dataclasses.replace(source, downloads=checksums))


def cached(tmp_path):
    """The names of the files in the cache."""
    folder = tmp_path / "cache" / "crbm_fast"
    return sorted(os.listdir(folder)) if folder.exists() else []


def test_download(small_mnist, small_caltech, server, tmp_path, monkeypatch):
    folder, _ = server
    write_mnist(folder, small_mnist, "gz")
    write_caltech(folder, small_caltech, "mat")
    offer(folder, monkeypatch, mnist)
    offer(folder, monkeypatch, caltech)
    check_mnist(datasets.load_mnist(), small_mnist)
    check_caltech(datasets.load_caltech(), small_caltech)
    assert cached(tmp_path) == sorted([*mnist.SOURCE.downloads, *caltech.SOURCE.downloads])
    for file in folder.iterdir():
        file.unlink()
    check_mnist(datasets.load_mnist(), small_mnist)  # from the cache
    check_caltech(datasets.load_caltech(), small_caltech)


@unclosed_connection
def test_a_wrong_checksum_leaves_nothing(small_caltech, server, tmp_path):
    write_caltech(server[0], small_caltech, "mat")
    with pytest.raises(FileNotFoundError, match=r"The download failed: .*does not match the known hash"):
        datasets.load_caltech()
    assert cached(tmp_path) == []


@unclosed_connection
def test_a_download_that_breaks_off_leaves_nothing_and_goes_on_later(small_mnist, server, tmp_path, monkeypatch):
    folder, cut = server
    write_mnist(folder, small_mnist, "gz")
    offer(folder, monkeypatch, mnist)
    names = list(mnist.SOURCE.downloads)
    cut.add(names[2])
    with pytest.raises(FileNotFoundError, match="The download failed"):
        datasets.load_mnist()
    assert cached(tmp_path) == sorted(names[:2])  # whole files stay
    cut.clear()
    for name in names[:2]:
        (folder / name).unlink()
    check_mnist(datasets.load_mnist(), small_mnist)


@unclosed_connection
def test_ctrl_c_in_a_download_leaves_nothing(small_caltech, server, tmp_path, monkeypatch):
    write_caltech(server[0], small_caltech, "mat")
    offer(server[0], monkeypatch, caltech)

    def interrupted(self, url, output_file, *args, **kwargs):
        Path(output_file).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        datasets.load_caltech()
    assert cached(tmp_path) == []


@unclosed_connection
def test_no_connection_and_no_such_page(server, monkeypatch):
    with pytest.raises(FileNotFoundError, match="The download failed: 404"):
        datasets.load_caltech()
    monkeypatch.setattr(caltech, "SOURCE", dataclasses.replace(caltech.SOURCE, url="http://127.0.0.1:9/"))
    with pytest.raises(FileNotFoundError, match=r"The download failed: (.|\n)*By hand: put caltech101_sil"):
        datasets.load_caltech()


def test_without_pooch_the_message_has_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match=r'The download needs pooch: pip install "crbm_fast\[data\]"\nBy hand'):
        datasets.load_mnist()


def test_downloads_are_of_the_layout():
    """Each download is a file that is looked for, in the order in which arrays are read."""
    for source in (mnist.SOURCE, caltech.SOURCE):
        assert tuple(name.removesuffix(".gz") for name in source.downloads) == source.layouts[-1]
