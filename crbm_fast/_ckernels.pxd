"""Declarations of csrc/crbm.h; the contracts are there."""

from libc.stdint cimport int32_t, uint32_t, uint64_t


cdef extern from "crbm.h" nogil:
    enum:
        CRBM_GROUP
        CRBM_PLAIN
        CRBM_EXP

    ctypedef struct crbm_rows:
        void *msg
        const void *weight
        void *cond
        const void *theta_h
        const void *tau_h0
        const void *tau_h1
        const void *b1
        void *field_v
        void *tau_v
        void *part
        void *scratch
        Py_ssize_t rows
        Py_ssize_t nh
        Py_ssize_t ld
        double max_weight
        double damping
        int track
        double belief_change
        double message_change

    ctypedef struct crbm_kernels:
        const char *isa
        int itemsize
        double max_weight
        void (*sum_group)(crbm_rows *) noexcept nogil
        void (*log_group)(crbm_rows *) noexcept nogil
        void (*max_group)(crbm_rows *) noexcept nogil
        double (*close_h)(void *, void *, void *, const void *, const void *,
                          Py_ssize_t, Py_ssize_t, Py_ssize_t) noexcept nogil
        void (*sum_messages)(crbm_rows *) noexcept nogil
        void (*log_messages)(crbm_rows *) noexcept nogil
        void (*gamma_cond)(void *, const crbm_rows *, int) noexcept nogil
        void (*sum_gamma)(void *, const crbm_rows *, int) noexcept nogil
        void (*log_gamma)(void *, const crbm_rows *, int) noexcept nogil
        double (*sum_edges)(const crbm_rows *) noexcept nogil
        double (*log_edges)(const crbm_rows *) noexcept nogil
        void (*mixed_field)(void *, const void *, const void *, const void *, const void *, const void *,
                            Py_ssize_t, Py_ssize_t, Py_ssize_t, double) noexcept nogil
        void (*mixed_field_log)(void *, const void *, const void *, const void *,
                                Py_ssize_t, Py_ssize_t, Py_ssize_t) noexcept nogil
        void (*mixed_gamma)(void *, const void *, Py_ssize_t, const void *, const void *, const void *, const void *,
                            const void *, Py_ssize_t, Py_ssize_t, int) noexcept nogil
        void (*pad)(void *, const void *, Py_ssize_t, Py_ssize_t, Py_ssize_t, int) noexcept nogil
        void (*unpad)(void *, const void *, Py_ssize_t, Py_ssize_t, Py_ssize_t, int) noexcept nogil
        void (*fill)(void *, double, Py_ssize_t) noexcept nogil
        void (*add)(void *, const void *, const void *, Py_ssize_t) noexcept nogil
        void (*multiply)(void *, const void *, const void *, Py_ssize_t) noexcept nogil
        double (*max_abs)(const void *, Py_ssize_t) noexcept nogil
        Py_ssize_t (*first_beyond)(const void *, double, Py_ssize_t) noexcept nogil
        void (*squares)(void *, const void *, Py_ssize_t) noexcept nogil
        void (*row_sums)(void *, const void *, Py_ssize_t, Py_ssize_t) noexcept nogil
        double (*logistic_step)(void *, const void *, double, double, Py_ssize_t) noexcept nogil
        void (*variance)(void *, const void *, Py_ssize_t) noexcept nogil
        void (*onsager)(void *, const void *, const void *, Py_ssize_t) noexcept nogil
        void (*blend)(void *, const void *, double, Py_ssize_t) noexcept nogil
        double (*max_change)(const void *, const void *, Py_ssize_t) noexcept nogil
        void (*decode)(void *, const void *, double, Py_ssize_t) noexcept nogil
        double (*softplus_sum)(const void *, Py_ssize_t) noexcept nogil
        double (*node_sum)(const void *, const void *, Py_ssize_t) noexcept nogil
        double (*relu_sum)(const void *, Py_ssize_t) noexcept nogil
        double (*mean_sum)(const void *, const void *, Py_ssize_t) noexcept nogil
        double (*entropy_sum)(const void *, Py_ssize_t) noexcept nogil
        double (*dot_free)(const void *, const void *, Py_ssize_t) noexcept nogil
        double (*sum_squares)(const void *, Py_ssize_t) noexcept nogil
        void (*bernoulli)(void *, const void *, uint64_t, uint64_t, uint32_t, Py_ssize_t) noexcept nogil
        Py_ssize_t (*nonzeros)(const void *, Py_ssize_t) noexcept nogil
        void (*combine_rows)(void *, const void *, Py_ssize_t, const void *, Py_ssize_t, double, void *, int32_t *,
                             Py_ssize_t, Py_ssize_t) noexcept nogil
        void (*dot_rows)(void *, const void *, const void *, Py_ssize_t, Py_ssize_t) noexcept nogil
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
