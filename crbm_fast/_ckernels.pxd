"""Declarations of csrc/crbm.h, as far as Cython uses it; the contracts are there."""

from libc.stdint cimport int32_t


cdef extern from "crbm.h" nogil:
    enum:
        CRBM_PLAIN
        CRBM_EXP

    ctypedef struct crbm_kernels:
        const char *isa
        int itemsize
        double max_weight
        void (*pad)(void *, const void *, Py_ssize_t, Py_ssize_t, Py_ssize_t, int) noexcept nogil
        void (*unpad)(void *, const void *, Py_ssize_t, Py_ssize_t, Py_ssize_t, int) noexcept nogil
        double (*max_abs)(const void *, Py_ssize_t) noexcept nogil
        Py_ssize_t (*first_beyond)(const void *, double, Py_ssize_t) noexcept nogil
        double (*logistic_step)(void *, const void *, double, double, Py_ssize_t) noexcept nogil
        double (*softplus_sum)(const void *, Py_ssize_t) noexcept nogil
        double (*sum_squares)(const void *, Py_ssize_t) noexcept nogil
        Py_ssize_t (*nonzeros)(const void *, Py_ssize_t) noexcept nogil
        void (*combine_rows)(void *, const void *, Py_ssize_t, const void *, Py_ssize_t, double, void *, int32_t *,
                             Py_ssize_t, Py_ssize_t) noexcept nogil
        double (*momentum_step)(void *, void *, const void *, double, double, double, double *,
                                Py_ssize_t) noexcept nogil
        double (*adam_step)(void *, void *, void *, const void *, double, double, double, double, double, double *,
                            Py_ssize_t) noexcept nogil

    const crbm_kernels *crbm_select(const char *isa, int itemsize)
    const char *crbm_isa_name(int i)
    Py_ssize_t crbm_padded(Py_ssize_t nh, Py_ssize_t itemsize)


# The table in force, for items of 4 or 8 bytes; else NULL, or an exception.
cdef const crbm_kernels *active(int itemsize) noexcept nogil
cdef const crbm_kernels *table(int itemsize) except NULL
