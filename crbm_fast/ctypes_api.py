"""The embedding interface by address, for ctypes and numba.

Each function below is a ctypes function with its types declared.  Python calls it directly, without the GIL while it
works; inside `@numba.njit(nogil=True)` it is called like any other function, with addresses (`array.ctypes.data`) where
C has pointers and 0 for NULL.  Contracts: include/crbm_fast.h; a guide: docs/embedding.md.

Examples
--------
>>> import numpy as np
>>> from crbm_fast import ctypes_api as bp
>>> W, b1, b2 = np.array([[2.0], [-1.0]]), np.zeros(2), np.array([0.5])
>>> workspace = bp.workspace(W)
>>> tau_v, tau_h = np.empty(2), np.empty(1)
>>> bp.check(bp.run(workspace.ctypes.data, tau_v.ctypes.data, tau_h.ctypes.data, None, None, b1.ctypes.data,
...                 b2.ctypes.data, bp.SUM_PRODUCT, 50, 1e-9, 0, 0))
>>> tau_h.round(4)
array([0.8255])
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_double, c_int, c_size_t, c_ssize_t, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from crbm_fast import _validation, cython_api

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

API_VERSION = 1
ALIGN = 64
FLOAT32, FLOAT64 = 4, 8
SUM_PRODUCT, MAX_PRODUCT, MIXED_PRODUCT, BETHE = 0, 1, 2, 3
WARM_START, LOG_Z = 1, 2
OK, NOT_CONVERGED = 0, 1
(
    NULL_POINTER,
    MISALIGNED,
    TOO_SMALL,
    BAD_SIZE,
    BAD_DTYPE,
    NOT_INITIALISED,
    BUSY,
    BAD_OPTION,
    NOT_FINITE,
    NOT_BINARY,
    WRONG_VERSION,
) = range(-1, -12, -1)

_get_name = ctypes.PYFUNCTYPE(c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def _function(name: str, result: Any, *arguments: Any) -> Any:
    capsule = cython_api.__pyx_capi__[name]
    return ctypes.CFUNCTYPE(result, *arguments)(_get_pointer(capsule, _get_name(capsule)))


error_text = _function("error_text", c_char_p, c_int)
workspace_size = _function("workspace_size", c_ssize_t, c_ssize_t, c_ssize_t, c_int)
init = _function("init", c_int, c_void_p, c_size_t, c_void_p, c_ssize_t, c_ssize_t, c_int)
run = _function("run", c_int, *7 * [c_void_p], c_int, c_int, c_double, c_double, c_int)
sample_h = _function("sample_h", c_int, *4 * [c_void_p], *3 * [c_uint64])
sample_v = _function("sample_v", c_int, *4 * [c_void_p], *3 * [c_uint64])
free_energy = _function("free_energy", c_int, *5 * [c_void_p])


def workspace(W: ArrayLike, dtype: DTypeLike | None = None) -> NDArray[np.uint8]:
    """A workspace for the weights W (nv, nh): bytes, aligned and initialised.

    Keep a reference to the array for as long as its address is used.  `dtype` is float32 or float64, by default W's.
    """
    weights = _validation.check_weights(W, dtype)
    nv, nh = weights.shape
    size = workspace_size(nv, nh, weights.itemsize)
    check(size)
    made = _aligned(size)
    check(init(made.ctypes.data, size, weights.ctypes.data, nv, nh, weights.itemsize))
    return made


def copy(workspace: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A second workspace with the weights and messages of `workspace`, in which no call may be at work."""
    made = _aligned(workspace.size)
    made[:] = workspace
    return made


def _aligned(size: int) -> NDArray[np.uint8]:
    room = np.empty(size + ALIGN, np.uint8)
    start = -room.ctypes.data % ALIGN
    return room[start : start + size]


def check(status: int) -> None:
    """Raise ValueError with the library's text if `status` is an error; NOT_CONVERGED is none."""
    if status < 0:
        raise ValueError(f"crbm_fast status {status}: {error_text(status).decode()}")
