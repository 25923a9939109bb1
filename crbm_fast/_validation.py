"""Every check of user input.  Messages name the argument, the value and what was expected."""

from __future__ import annotations

import math
import numbers
import operator
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from crbm_fast._ckernels import first_beyond, overlaps
from crbm_fast._errors import ArgumentError, ArgumentTypeError, EntryError
from crbm_fast._threads import max_threads

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))

# The largest weight or bias: sums over 10^8 of them are still finite, so no NaN can arise.
LIMITS = {np.dtype(np.float32): 1e30, np.dtype(np.float64): 1e300}


class EfficiencyWarning(UserWarning):
    """A large argument had to be copied; said once per place in the code."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn, pointing at the first caller outside this package."""
    frame, level = sys._getframe(1), 2
    package = os.path.dirname(__file__) + os.sep
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_dtype(dtype: DTypeLike | None, W: NDArray[Any] | None = None) -> np.dtype[Any]:
    """float32 or float64: as asked for, else W's own, else (float16 -> float32, integers, bool -> float64)."""
    if dtype is not None:
        try:
            wanted = np.dtype(dtype)
        except (TypeError, ValueError, SyntaxError) as error:
            raise ArgumentTypeError("dtype", "is not a dtype", "use 'float32' or 'float64'", dtype) from error
        if wanted not in FLOATS:
            raise ArgumentTypeError("dtype", "is not supported", "use 'float32' or 'float64'", wanted)
        return wanted
    native = np.dtype(np.float64) if W is None else W.dtype.newbyteorder("=")
    if native in FLOATS:
        return native
    return np.dtype(np.float32 if native == np.float16 else np.float64)


def as_numeric(name: str, value: ArrayLike) -> NDArray[Any]:
    """`value` as an array of real numbers, its dtype as it came."""
    if hasattr(value, "toarray"):
        raise ArgumentTypeError(name, "is a sparse matrix", f"pass {name}.toarray()")
    if value is None:
        raise ArgumentTypeError(name, "is None", f"pass an array (zeros for no {name})")
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(name, "is a masked array", f"pass {name}.filled(...)")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentError(name, f"is not an array: {error}") from error
    if array.dtype.kind not in "fiub":
        raise ArgumentTypeError(name, f"has dtype {array.dtype}", "expected real numbers")
    return array


def as_float(name: str, value: ArrayLike, dtype: np.dtype[Any], *, once: bool = False) -> NDArray[Any]:
    """`value` as a C-contiguous array of `dtype`: itself where it is one already; finite.

    A large copy is worth a warning, unless it is made `once`.
    """
    array = as_numeric(name, value)
    if array.dtype != dtype:
        with np.errstate(all="ignore"):  # said below, with the place
            array = array.astype(dtype, order="C")
    elif not (array.flags.c_contiguous and array.flags.aligned):
        if array.size > 4096 and not once:
            warn(
                f"{name} is not C-contiguous and is copied at each call; pass np.ascontiguousarray({name})",
                EfficiencyWarning,
            )
        array = np.require(array, dtype, ["C", "A"])
    check_finite(name, array, value)
    return array


def beyond(array: NDArray[Any]) -> int:
    """Flat index of the first element that is not finite or beyond LIMITS; -1 if there is none."""
    return first_beyond(array, LIMITS[array.dtype])


def check_finite(name: str, array: NDArray[Any], given: ArrayLike) -> None:
    """Raise EntryError, with the entry as it was given, if an element is not finite or beyond LIMITS."""
    limit, at = LIMITS[array.dtype], beyond(array)
    if at >= 0:
        where = tuple(int(i) for i in np.unravel_index(at, array.shape))
        value = np.asarray(given)[where]
        expected = f"at most {limit:g} in {array.dtype}" if np.isfinite(value) else "finite"
        raise EntryError(name, where, value, expected)


def check_weights(W: ArrayLike, dtype: DTypeLike | None, name: str = "W") -> NDArray[Any]:
    """W (nv, nh) as a C-contiguous array of float32 or float64."""
    array = as_numeric(name, W)
    if array.ndim != 2:
        raise ArgumentError(name, f"has shape {array.shape}", "expected (nv, nh)")
    return as_float(name, W, check_dtype(dtype, array))


def check_biases(
    b_v: ArrayLike, b_h: ArrayLike, shape: tuple[int, int], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[Any], bool]:
    """b_v (N, nv), b_h (N, nh) and whether one RBM was asked for (both were vectors).

    A vector beside a matrix is shared by all instances.
    """
    arrays = []
    for name, value, n, letter in (("b_v", b_v, shape[0], "nv"), ("b_h", b_h, shape[1], "nh")):
        array = as_float(name, value, dtype)
        if np.ndim(value) not in (1, 2) or array.shape[-1] != n:
            hint = "; is W transposed?" if array.ndim and array.shape[-1] == sum(shape) - n else ""
            raise ArgumentError(
                name, f"has shape {np.shape(value)}", f"expected ({n},) or (N, {n}), as W has {letter}={n}{hint}"
            )
        arrays.append(array)
    v, h = arrays
    single = v.ndim == h.ndim == 1
    counts = {a.shape[0] for a in arrays if a.ndim == 2}
    if len(counts) > 1:
        raise ArgumentError("b_v", f"has {v.shape[0]} instances and b_h has {h.shape[0]}", "expected the same number")
    N = counts.pop() if counts else 1
    if v.ndim == 1:
        v = v[np.newaxis] if N == 1 else np.tile(v, (N, 1))
    if h.ndim == 1:
        h = h[np.newaxis] if N == 1 else np.tile(h, (N, 1))
    return v, h, single


def check_evidence(evidence: Any, shape: tuple[int, ...]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """(mask, values), each broadcast to `shape`; values matter, and must be 0 or 1, only under the mask."""
    try:
        mask, values = evidence
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            "evidence", "must be a pair (mask, values): which visible units, and their states"
        ) from error
    mask = as_numeric("evidence mask", mask)
    if mask.dtype != np.bool_:
        raise ArgumentTypeError(
            "evidence mask", f"has dtype {mask.dtype}", "expected bool, one per visible unit (not indices)"
        )
    values = as_numeric("evidence values", values)
    for name, array in (("mask", mask), ("values", values)):
        try:
            np.broadcast_to(array, shape)
        except ValueError as error:
            raise ArgumentError(f"evidence {name}", f"has shape {array.shape}", f"expected {shape}") from error
    mask, values = np.broadcast_to(mask, shape), np.broadcast_to(values, shape)
    wrong = mask & (values != 0) & (values != 1)
    if wrong.any():
        raise ArgumentError("evidence values", "must be 0 or 1 where the mask is set", f"found {values[wrong][0]}")
    return mask, values


def as_states(name: str, value: ArrayLike) -> NDArray[np.uint8]:
    """(N, nv) of 0 and 1, as uint8: itself where it is that already."""
    array = as_numeric(name, value)
    if array.ndim != 2 or array.shape[1] == 0:
        hint = f"; for one instance pass {name}[np.newaxis]" if array.ndim == 1 else ""
        raise ArgumentError(name, f"has shape {array.shape}", f"expected (N, nv){hint}")
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise EntryError(name, at, array[at], "0 or 1 (threshold grey values or probabilities)")
    return array.astype(np.uint8, order="C", copy=False)


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """The value, which must be one of the choices."""
    for choice in choices:
        if value is choice or (isinstance(value, str) and value == choice):
            return value
    raise ArgumentError(name, "is not one of: " + ", ".join(map(repr, choices)), value=value)


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if value is not True and value is not False and not isinstance(value, np.bool_):
        raise ArgumentTypeError(name, "must be True or False", value=value)
    return bool(value)


def check_int(name: str, value: Any, low: int, high: int = 2**31 - 1) -> int:
    """An integer with low <= value <= high."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)
    except TypeError as error:
        raise ArgumentTypeError(name, "must be an integer", value=value) from error
    if not low <= number <= high:
        raise ArgumentError(name, f"is outside [{low}, {high}]", value=number)
    return number


def check_real(name: str, value: Any, low: float, below: float, *, closed: bool = False) -> float:
    """A real number with low <= value < below; closed: or value == below."""
    if type(value) is not float and (isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real)):
        raise ArgumentTypeError(name, "must be a real number", value=value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (low <= number < below or (closed and number == below)):
        raise ArgumentError(name, f"is outside [{low:g}, {below:g}{']' if closed else ')'}", value=number)
    return number


def check_threads(n_threads: Any) -> int:
    """The number given, else the cores this process may use and OpenMP's limit allows."""
    if n_threads is not None:
        return check_int("n_threads", n_threads, 1, 1024)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, max_threads())


def check_out(name: str, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array of the caller's that results can be written into."""
    if not isinstance(array, np.ndarray):
        expected = f"expected an array of shape {shape}, dtype {dtype}"
        raise ArgumentTypeError(f"out.{name}", f"is {type(array).__name__}", expected)
    if array.shape != shape:
        raise ArgumentError(f"out.{name}", f"has shape {array.shape}", f"expected {shape}")
    if array.dtype != dtype:
        raise ArgumentTypeError(f"out.{name}", f"has dtype {array.dtype}", f"expected {dtype}")
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise ArgumentError(f"out.{name}", "is not C-contiguous")
    if not array.flags.writeable:
        raise ArgumentError(f"out.{name}", "is read-only")
    return array


def check_overlap(outputs: dict[str, Any], inputs: dict[str, Any]) -> None:
    """No output may share memory with an input or with another output."""
    seen = dict(inputs)
    for name, array in outputs.items():
        for other, taken in seen.items():
            if overlaps(array, taken):
                raise ArgumentError(f"out.{name}", f"shares memory with {other}", "results would overwrite it")
        seen[f"out.{name}"] = array


def check_positive(name: str, value: Any) -> float:
    """A real number above 0."""
    number = check_real(name, value, 0, math.inf)
    if number == 0:
        raise ArgumentError(name, "must be above 0", value=number)
    return number


def set_fields(frozen: Any, **values: Any) -> None:
    """Store what the checks made of the fields of a frozen dataclass: plain numbers, which JSON can hold."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)
