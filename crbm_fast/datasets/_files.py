"""The arrays in the files of a data set (IDX, .npz or .mat, each also gzipped) as uint8, and their checksums."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crbm_fast.datasets._sources import Source


def read_images(
    file: Path, names: Mapping[str, str], source: Source, *, transposed: bool = False
) -> dict[str, NDArray[np.uint8]]:
    """Upright images (n, 28, 28) and labels (n,) of a file, which have the checksums of the source.

    `names` is as for `read_arrays`; `transposed` says that the images of the file go column by column, as in MATLAB.
    """
    arrays = {}
    for name, array in read_arrays(file, names).items():
        n = len(np.atleast_1d(array))
        if array.size == 784 * n:
            images = array.reshape(n, 28, 28)
            arrays[name] = np.ascontiguousarray(images.transpose(0, 2, 1)) if transposed else images
        else:
            arrays[name] = array.ravel()
    verify(file, source.name, arrays, source.arrays)
    return arrays


def verify(file: Path, what: str, arrays: Mapping[str, NDArray[np.uint8]], checksums: Mapping[str, str]) -> None:
    """Raise ValueError unless the arrays have these checksums."""
    for name, array in arrays.items():
        found = sha256(array)
        if found != checksums[name]:
            raise ValueError(
                f"{file} does not have {what}, or is corrupted: {name} of shape {array.shape} has the checksum "
                f"{found}, expected {checksums[name]}. Remove it, and get it again"
            )


def sha256(array: NDArray[np.uint8]) -> str:
    """The checksum of the array's IDX file; for the arrays of MNIST, that of the original files."""
    checksum = hashlib.sha256(bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes())
    checksum.update(np.ascontiguousarray(array).data)
    return checksum.hexdigest()


def read_arrays(file: Path, names: Mapping[str, str]) -> dict[str, NDArray[np.uint8]]:
    """The arrays {our name: array} of a file, for names = {our name: name in the file}.

    The first bytes of the file tell its format.  An IDX file has one array, which has no name.  A file of another
    format, or without these arrays, raises ValueError.
    """
    contents = file.read_bytes()
    try:
        if contents.startswith(b"\x1f\x8b"):
            contents = gzip.decompress(contents)
        if contents.startswith(b"\0\0"):
            if len(names) > 1:
                raise ValueError("it is one of several IDX files; pass the folder that has all of them")
            return dict.fromkeys(names, _idx(contents))
        if contents.startswith(b"MATLAB"):
            return _pick(_mat(contents), names)
        with np.load(io.BytesIO(contents), allow_pickle=False) as archive:
            return _pick(archive, names)
    except MemoryError:
        raise
    except Exception as error:  # gzip, zipfile, numpy and scipy raise many kinds
        raise ValueError(f"{file} is corrupted, or another file than its name says: {error}") from error


def _pick(found: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, NDArray[np.uint8]]:
    """The arrays of these names, under our names, as bytes."""
    missing = [name for name in names.values() if name not in found]
    if missing:
        raise ValueError(f"it has no {', '.join(missing)}")
    return {ours: _bytes(theirs, found[theirs]) for ours, theirs in names.items()}


def _bytes(name: str, array: NDArray[Any]) -> NDArray[np.uint8]:
    """The same numbers as uint8, if each of them is one."""
    with np.errstate(invalid="ignore"):
        small = array.astype(np.uint8, order="C")
    if not np.array_equal(small, array):
        raise ValueError(f"{name} ({array.dtype}) has other numbers than 0 to 255")
    return small


def _mat(contents: bytes) -> Mapping[str, Any]:
    """The arrays of a MATLAB file."""
    from scipy.io import loadmat  # imported here, so that `import crbm_fast` does not wait for it

    return loadmat(io.BytesIO(contents))  # type: ignore[no-any-return]


def _idx(contents: bytes) -> NDArray[np.uint8]:
    """The array of a file in LeCun's format.

    The file has 0, 0, the type (8 for unsigned bytes), the number of axes, their lengths (big-endian) and the array.
    """
    kind, axes = contents[2:4]
    if kind != 8:
        raise ValueError(f"an IDX file of type {kind}, not 8")
    shape = np.frombuffer(contents, ">u4", axes, 4)
    return np.frombuffer(contents, np.uint8, offset=4 + 4 * axes).reshape(shape)
