"""Declarations of csrc/solver.h; the contracts are there."""

from libc.stdint cimport int64_t, uint64_t

from crbm_fast._ckernels cimport crbm_kernels


cdef extern from "solver.h" nogil:
    enum:
        CRBM_SUM_PRODUCT
        CRBM_MAX_PRODUCT
        CRBM_MIXED_PRODUCT
        CRBM_MEAN_FIELD
        CRBM_TAP

    enum:
        CRBM_GAMMA_NONE
        CRBM_GAMMA_EACH
        CRBM_GAMMA_SUM

    ctypedef struct crbm_slot:
        double *change

    ctypedef struct crbm_chunk:
        pass

    ctypedef struct crbm_job:
        const crbm_kernels *k
        int method
        Py_ssize_t N
        Py_ssize_t nv
        Py_ssize_t nh
        Py_ssize_t ld
        Py_ssize_t item
        const void *W
        Py_ssize_t ldw
        const char *weight
        const void *squares
        const void *row_sum
        int form
        double max_weight
        const char *b1
        const char *b2
        Py_ssize_t max_iter
        double tol
        double damping
        int gamma_mode
        char *tau_v
        char *tau_h
        int64_t *n_iter
        char *converged
        double *residual
        char *gamma
        char *messages
        double *log_z
        const char *init
        int visible_first
        char *state
        int resume
        long next
        long idle
        int cancel
        void (*to_h)(const crbm_job *, void *, const void *, const void *, double, Py_ssize_t) noexcept nogil
        void (*to_v)(const crbm_job *, void *, const void *, const void *, Py_ssize_t) noexcept nogil
        double (*share)(crbm_job *, crbm_slot *, Py_ssize_t, int, int) noexcept nogil
        void (*poll)(crbm_job *) noexcept nogil
        void *lender
        double next_poll

    ctypedef struct crbm_draws:
        char *v
        char *h
        const char *theta_h
        uint64_t seed
        uint64_t instance
        uint64_t step
        Py_ssize_t n_steps

    size_t crbm_lines(size_t bytes)
    int crbm_form_for(const crbm_job *job)
    Py_ssize_t crbm_groups(Py_ssize_t nv)
    size_t crbm_lay_slot(crbm_slot *s, void *start, const crbm_job *job, int team, int own_msg, int own_cond)
    size_t crbm_lay_chunk(crbm_chunk *c, void *start, const crbm_job *job, Py_ssize_t size)
    void crbm_solve(crbm_job *job, crbm_slot *s, Py_ssize_t n, int team, int caller)
    double crbm_work_groups(crbm_job *job, crbm_slot *s, Py_ssize_t n, int worker, int team, int task)
    void crbm_solve_chunk(crbm_job *job, crbm_chunk *c, Py_ssize_t first, Py_ssize_t m, int caller)
    void crbm_sample_chunk(crbm_job *job, crbm_draws *d, crbm_chunk *c, Py_ssize_t first, Py_ssize_t m, int caller)
