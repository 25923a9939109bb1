"""What is in the files: IDX, .npz and .mat, each also gzipped; uint8 arrays, checked by their contents."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def read(file: Path, names: Mapping[str, str]) -> dict[str, NDArray[np.uint8]]:
    """Arrays {our name: array} for names = {our name: name in the file}; ValueError, with the file, for anything else.

    The format is told by the first bytes.  An IDX file has one array, without a name.
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
        raise ValueError(f"{file} is damaged, or another file than its name says: {error}") from error


def _pick(found: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, NDArray[np.uint8]]:
    missing = [name for name in names.values() if name not in found]
    if missing:
        raise ValueError(f"it has no {', '.join(missing)}")
    return {ours: _bytes(theirs, found[theirs]) for ours, theirs in names.items()}


def _bytes(name: str, array: NDArray[Any]) -> NDArray[np.uint8]:
    """The same numbers in a byte each."""
    with np.errstate(invalid="ignore"):
        small = array.astype(np.uint8, order="C")
    if not np.array_equal(small, array):
        raise ValueError(f"{name} ({array.dtype}) has other numbers than 0 to 255")
    return small


def _mat(contents: bytes) -> Mapping[str, Any]:
    from scipy.io import loadmat  # here, as `import crbm_fast` should not wait for it

    return loadmat(io.BytesIO(contents))  # type: ignore[no-any-return]


def _idx(contents: bytes) -> NDArray[np.uint8]:
    """LeCun's format: 0, 0, the type (8: unsigned bytes), the number of axes, big-endian lengths, the array."""
    kind, axes = contents[2:4]
    if kind != 8:
        raise ValueError(f"an IDX file of type {kind}, not 8")
    shape = np.frombuffer(contents, ">u4", axes, 4)
    return np.frombuffer(contents, np.uint8, offset=4 + 4 * axes).reshape(shape)


def sha256(array: NDArray[np.uint8]) -> str:
    """The checksum of the array's IDX file; for the arrays of MNIST, that of the files everybody knows."""
    checksum = hashlib.sha256(bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes())
    checksum.update(np.ascontiguousarray(array).data)
    return checksum.hexdigest()
