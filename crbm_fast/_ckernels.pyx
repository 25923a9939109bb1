"""The C kernel tables and the choice of instruction set.

The best instruction set this CPU can run is chosen at import; the environment variable CRBM_FAST_ISA forces
another.  `table` is what the other modules cimport, `active` what needs no GIL.
"""

import os

import numpy as np

cimport numpy as cnp

cnp.import_array()

cdef const crbm_kernels *_f32 = crbm_select(NULL, 4)
cdef const crbm_kernels *_f64 = crbm_select(NULL, 8)


def available_isas():
    """Names of the instruction sets of this build that this CPU can run, best first."""
    names = []
    cdef const char *name = crbm_isa_name(0)
    while name != NULL:
        names.append(name.decode())
        name = crbm_isa_name(<int> len(names))
    return tuple(names)


def active_isa():
    """Name of the instruction set that engines made from now on use."""
    return _f32.isa.decode()


def use_isa(name):
    """Let engines made from now on use the instruction set `name`."""
    global _f32, _f64
    if name not in available_isas():
        raise ValueError(
            f"instruction set {name!r} (CRBM_FAST_ISA) is not available here; choose from: "
            + ", ".join(available_isas())
        )
    cdef bytes isa = name.encode()
    _f32, _f64 = crbm_select(isa, 4), crbm_select(isa, 8)


cdef const crbm_kernels *active(int itemsize) noexcept nogil:
    return _f32 if itemsize == 4 else _f64 if itemsize == 8 else NULL


cdef const crbm_kernels *table(int itemsize) except NULL:
    cdef const crbm_kernels *k = active(itemsize)
    if k == NULL:
        raise RuntimeError(f"no kernels for items of {itemsize} bytes")
    return k


def first_beyond(a, double limit):
    """Flat index of the first element that is NaN or beyond +-limit, of a C-contiguous float array; -1 if none."""
    cdef cnp.ndarray x = a
    cdef const crbm_kernels *k = table(x.itemsize)
    cdef const void *data = cnp.PyArray_DATA(x)
    cdef Py_ssize_t n = x.size, at
    with nogil:
        at = k.first_beyond(data, limit, n)
    return at


def overlaps(cnp.ndarray a not None, cnp.ndarray b not None):
    """Whether two C-contiguous arrays share memory."""
    cdef size_t a0 = <size_t> cnp.PyArray_DATA(a), b0 = <size_t> cnp.PyArray_DATA(b)
    cdef size_t a_size = cnp.PyArray_NBYTES(a), b_size = cnp.PyArray_NBYTES(b)
    return a_size > 0 and b_size > 0 and a0 < b0 + b_size and b0 < a0 + a_size


def evaluate(name, a):
    """Apply one function of simd.h to an array, for tests: 'exp', 'log', 'logistic' or 'softplus'."""
    cdef cnp.ndarray x = np.ascontiguousarray(a), out = np.zeros_like(x)
    cdef Py_ssize_t n = x.size, item = x.itemsize, ld = crbm_padded(n, item), i
    cdef cnp.ndarray room = np.empty(ld * item + 64, np.uint8)
    cdef const crbm_kernels *k = table(<int> item)
    cdef char *x0 = <char *> cnp.PyArray_DATA(x)
    cdef char *out0 = <char *> cnp.PyArray_DATA(out)
    cdef char *row = <char *> cnp.PyArray_DATA(room)
    row += 64 - <size_t> row % 64
    if name == "exp":
        k.pad(row, x0, 1, n, ld, CRBM_EXP)
        k.unpad(out0, row, 1, n, ld, CRBM_PLAIN)
    elif name == "log":
        k.pad(row, x0, 1, n, ld, CRBM_PLAIN)
        k.unpad(out0, row, 1, n, ld, CRBM_EXP)
    elif name == "logistic":
        k.logistic_step(out0, x0, 1, 0, n)
    elif name == "softplus":
        for i in range(n):
            out.flat[i] = k.softplus_sum(x0 + i * item, 1)
    else:
        raise ValueError(f"no function {name!r}")
    return out


if os.environ.get("CRBM_FAST_ISA"):
    use_isa(os.environ["CRBM_FAST_ISA"])
