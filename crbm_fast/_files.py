"""Files: a model or a checkpoint as an .npz archive without pickle, written atomically, read with suspicion.

Format.  A zip archive, members stored (not compressed), each a .npy array of float32, float64, uint8,
int64 or bool:

    meta.npy       uint8: UTF-8 JSON, an object with "format" (what kind of file), "version" of that kind, and the rest
    <name>.npy     the arrays; for a model W_vh (nv, nh), W_vx (nv, nx), W_hx (nh, nx), b_v (nv,), b_h (nh,)

`numpy.load(path)` opens it.  Zip's CRC-32 of each member reveals damage.  A reader refuses other versions.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from crbm_fast._errors import CorruptedFileError, FileVersionError

_DTYPES = {np.dtype(name).str.encode(): np.dtype(name) for name in ("float32", "float64", "uint8", "int64", "bool")}


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path` that takes its place once it is whole and on the disk."""
    check_folder(path)
    path = os.fspath(path)
    folder, name = os.path.split(os.path.abspath(path))
    # not the whole name: a legal one of 255 bytes would leave no room for the rest
    temporary = os.path.join(folder, f".{name[:50]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno and error.filename is None:  # a full disk: which file?
            error.filename = path
        raise
    with contextlib.suppress(OSError):  # the new name, too, must survive a power cut
        directory = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def write(
    path: str | os.PathLike[str],
    kind: str,
    meta: dict[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    version: int = 1,
) -> None:
    """Write the JSON and the arrays to `path`, atomically."""
    text = json.dumps({"format": kind, "version": version, **meta}, allow_nan=False)
    everything = {"meta": np.frombuffer(text.encode(), np.uint8), **arrays}
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for member, array in everything.items():
            # a fixed date: the same contents give the same bytes
            with archive.open(zipfile.ZipInfo(f"{member}.npy"), "w", force_zip64=True) as out:
                np.lib.format.write_array(out, np.ascontiguousarray(array), allow_pickle=False)


@contextlib.contextmanager
def corrupted_file_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever is wrong with the contents into a CorruptedFileError that names the file."""
    try:
        yield
    except (MemoryError, FileVersionError):
        raise
    except Exception as error:  # zipfile and json raise many kinds
        reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
        raise CorruptedFileError(os.fspath(path), reason) from error


def read(
    path: str | os.PathLike[str], kind: str, *, version: int = 1
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The JSON and the arrays of a file that `write` made; ValueError for anything else.  Runs no code of the file."""
    with open(path, "rb") as file, corrupted_file_errors(path), zipfile.ZipFile(file) as archive:
        size = os.fstat(file.fileno()).st_size
        members = archive.infolist()
        # stored members cannot be larger than the file: nothing unpacks to more memory than the disk holds
        if any(m.compress_type != zipfile.ZIP_STORED or m.file_size > size for m in members):
            raise ValueError("it has compressed members")
        if sum(m.file_size for m in members) > size:
            raise ValueError("its members overlap")
        arrays = {m.filename.removesuffix(".npy"): _array(archive.read(m)) for m in members}
        if len(arrays) < len(members):
            raise ValueError("it has two members of one name")
        if "meta" not in arrays:
            raise ValueError("an .npz of other arrays")
        text = arrays.pop("meta").astype(np.uint8).tobytes()
        meta = json.loads(text)
        if not isinstance(meta, dict) or meta.get("format") != kind:
            found = meta.get("format") if isinstance(meta, dict) else None
            raise ValueError(f"expected a {kind!r}, found {found!r}")
        found = meta.get("version")
        if type(found) is not int or found < 1:
            raise ValueError(f"it has the version {found!r}")
        if found != version:
            raise FileVersionError(os.fspath(path), kind, found, version)
    return meta, arrays


# what np.save writes for a C-contiguous array; NumPy's own parser evaluates more than that
_HEADER = re.compile(rb"\{'descr': '([^']*)', 'fortran_order': False, 'shape': \(([0-9, ]{0,100})\), \} *\n")


def _array(contents: bytes) -> NDArray[Any]:
    """An array from the bytes of a .npy; the shape it claims must be what is there."""
    if not contents.startswith(b"\x93NUMPY\x01\x00"):
        raise ValueError("a member is not a .npy of version 1.0")
    start = 10 + int.from_bytes(contents[8:10], "little")
    header = _HEADER.fullmatch(contents[10:start])
    if header is None or header[1] not in _DTYPES:
        raise ValueError(f"an array with the header {contents[10:start][:80]!r}")
    dtype, shape = _DTYPES[header[1]], tuple(int(n) for n in header[2].split(b",") if n.strip())
    count = math.prod(shape)
    if count * dtype.itemsize != len(contents) - start:
        raise ValueError(f"an array of shape {shape} in {len(contents) - start} bytes")
    return np.frombuffer(contents, dtype, count, start).reshape(shape)


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise FileNotFoundError, before any work is done, if there is no folder to write `path` into."""
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{os.fspath(path)!r} cannot be written: there is no folder {folder!r}")
