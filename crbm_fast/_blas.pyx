"""The only door to BLAS: row-major GEMM through scipy.linalg.cython_blas, for float and double.

Integers are converted to BLAS's own type here and nowhere else.  `blas_int` is scipy's where it has one
(ILP64 builds) and int otherwise; setup.py writes _blas_int.pxi after looking.
"""

import ctypes
import os
import threading

import scipy.linalg.cython_blas as _cython_blas
from scipy.linalg.cython_blas cimport dgemm, sgemm

include "_blas_int.pxi"


def check_size(*sizes):
    """Raise OverflowError if a dimension does not fit BLAS's integer."""
    for n in sizes:
        if <Py_ssize_t> <blas_int> <Py_ssize_t> n != n:
            raise OverflowError(
                f"dimension {n} is too large for this build of BLAS, which counts in {8 * sizeof(blas_int)} bits; "
                "split the batch or use a scipy built with ILP64 BLAS"
            )


# C = op(A) op(B) + beta C, all row-major.
# (m, n) = (m, k) (k, n); lda, ldb, ldc are the row lengths in memory; sizes have passed check_size.
cdef void gemm(int itemsize, bint trans_a, bint trans_b, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k,
               const void *A, Py_ssize_t lda, const void *B, Py_ssize_t ldb,
               double beta, void *C, Py_ssize_t ldc) noexcept nogil:
    cdef:
        # Row-major C = A B is column-major C' = B' A'.
        char ta = b"T" if trans_b else b"N"
        char tb = b"T" if trans_a else b"N"
        blas_int m_ = <blas_int> n, n_ = <blas_int> m, k_ = <blas_int> k
        blas_int lda_ = <blas_int> max(ldb, 1), ldb_ = <blas_int> max(lda, 1), ldc_ = <blas_int> max(ldc, 1)
        float one_s = 1, beta_s = <float> beta
        double one_d = 1, beta_d = beta
    if m == 0 or n == 0:
        return
    if itemsize == 4:
        sgemm(&ta, &tb, &m_, &n_, &k_, &one_s, <float *> B, &lda_, <float *> A, &ldb_,
              &beta_s, <float *> C, &ldc_)
    else:
        dgemm(&ta, &tb, &m_, &n_, &k_, &one_d, <double *> B, &lda_, <double *> A, &ldb_,
              &beta_d, <double *> C, &ldc_)


# --- one BLAS thread per engine thread -------------------------------------------------------------------
#
# The engine runs its own threads and calls BLAS from each: BLAS must not start more, and its results must not
# depend on how many it has.  scipy's OpenBLAS is told so for the time of a run, MKL likewise; a BLAS without
# such a switch (Accelerate, reference) is left alone.  Runs may overlap: the first one in saves the number, the
# last one out restores it.

_SWITCHES = (
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)


def _find_switch():
    library = ctypes.PyDLL(_cython_blas.__file__)    # its dependencies are searched too
    for get, set_ in _SWITCHES:
        if hasattr(library, get) and hasattr(library, set_):
            return get, getattr(library, get), getattr(library, set_)
    return None, None, None


_switch_name, _get_threads, _set_threads = _find_switch()
_lock = threading.Lock()
cdef int _runs = 0
cdef int _saved = 1


def switch_name():
    """Name of the function that tells the number of BLAS threads, or None."""
    return _switch_name


class single_thread:
    """Context in which BLAS uses one thread per caller."""

    def __enter__(self):
        global _runs, _saved
        if _set_threads is None:
            return
        with _lock:
            if _runs == 0:
                _saved = _get_threads()
                if _saved != 1:
                    _set_threads(1)
            _runs += 1

    def __exit__(self, *exc):
        global _runs
        if _set_threads is None:
            return
        with _lock:
            _runs -= 1
            if _runs == 0 and _saved != 1:
                _set_threads(_saved)


def _after_fork():
    """A child forked in the middle of a run has neither that run nor the thread that holds the lock."""
    global _lock, _runs
    _lock = threading.Lock()
    if _runs:
        _runs = 0
        _set_threads(_saved)


os.register_at_fork(after_in_child=_after_fork)
