"""Declarations of csrc/solver.h; the contracts are there."""

from libc.stdint cimport int64_t, uint64_t

from crbm_fast._ckernels cimport crbm_kernels


cdef extern from "solver.h" nogil:
    enum:
        CRBM_N_METHODS

    enum:
        CRBM_STATE_EDGES

    enum:
        CRBM_NEEDS_WEIGHT
        CRBM_NEEDS_ROW_SUM
        CRBM_NEEDS_SQUARES

    enum:
        CRBM_GAMMA_NONE
        CRBM_GAMMA_EACH
        CRBM_GAMMA_SUM

    ctypedef struct crbm_problem:
        const crbm_kernels *k
        Py_ssize_t N
        Py_ssize_t nv
        Py_ssize_t nh
        Py_ssize_t ld
        const void *W
        Py_ssize_t ldw
        int form
        const void *weight
        const void *row_sum
        const void *squares
        double max_weight
        const void *b1
        const void *b2

    ctypedef struct crbm_options:
        Py_ssize_t max_iter
        double tol
        double damping
        int gamma
        int defer
        const void *init
        int visible_first
        int resume

    ctypedef struct crbm_results:
        void *tau_v
        void *tau_h
        int64_t *n_iter
        char *converged
        double *residual
        void *gamma
        double *log_z
        void *messages
        void *state

    ctypedef struct crbm_run

    ctypedef struct crbm_host:
        int n_threads
        void (*product)(const crbm_run *, int, int, Py_ssize_t, Py_ssize_t, Py_ssize_t, const void *, Py_ssize_t,
                        const void *, Py_ssize_t, double, void *, Py_ssize_t) noexcept nogil
        void (*in_parallel)(void (*)(void *, int, int) noexcept nogil, void *, int) noexcept nogil
        void (*poll)(crbm_run *) noexcept nogil
        void *context

    ctypedef struct crbm_method:
        const char *name
        int state
        int needs
        int (*form)(const crbm_problem *, const crbm_options *) noexcept nogil

    ctypedef struct crbm_run:
        const crbm_method *method
        crbm_problem problem
        crbm_options options
        crbm_results results
        crbm_host host
        int cancel
        double next_poll

    ctypedef struct crbm_draws:
        void *v
        void *h
        const void *theta_h
        uint64_t seed
        uint64_t instance
        uint64_t step
        Py_ssize_t n_steps

    ctypedef struct crbm_solver:
        const crbm_method *methods[CRBM_N_METHODS]
        void (*prepare)(const crbm_problem *, int, void *) noexcept nogil
        size_t (*prepared_bytes)(const crbm_problem *, int) noexcept nogil
        size_t (*workspace)(const crbm_run *) noexcept nogil
        int (*uses_products)(const crbm_run *) noexcept nogil
        void (*solve)(crbm_run *, void *) noexcept nogil
        size_t (*sampling_workspace)(const crbm_run *) noexcept nogil
        void (*sample)(crbm_run *, const crbm_draws *, void *) noexcept nogil

    const crbm_solver *crbm_solver_for(int itemsize)
