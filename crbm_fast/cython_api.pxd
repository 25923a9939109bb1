"""The public cimport surface: belief propagation in another Cython module's inner loop, without the GIL.

    from crbm_fast cimport cython_api as bp

The same functions as in include/crbm_fast.h, which has their contracts; no header and no linking is needed.  None of
them allocates, raises or touches a Python object.
"""

from libc.stdint cimport uint64_t

cdef enum:
    API_VERSION = 1     # of these declarations; functions are checked at import, numbers and `info` are compiled in
    ALIGN = 64

cdef enum:              # real types, as bytes per element
    FLOAT32 = 4
    FLOAT64 = 8

cdef enum:              # methods
    SUM_PRODUCT = 0
    MAX_PRODUCT = 1
    MIXED_PRODUCT = 2
    BETHE = 3

cdef enum:              # flags of run
    WARM_START = 1
    LOG_Z = 2

cdef enum:              # status codes
    OK = 0
    NOT_CONVERGED = 1
    NULL_POINTER = -1
    MISALIGNED = -2
    TOO_SMALL = -3
    BAD_SIZE = -4
    BAD_DTYPE = -5
    NOT_INITIALISED = -6
    BUSY = -7
    BAD_OPTION = -8
    NOT_FINITE = -9
    NOT_BINARY = -10
    WRONG_VERSION = -11

cdef extern from *:
    """
    #ifndef CRBM_FAST_INFO        /* as in crbm_fast.h, which need not be found */
    #define CRBM_FAST_INFO
    typedef struct crbm_fast_info { double n_iter, residual, log_z; } crbm_fast_info;
    #endif
    """
    ctypedef struct info "crbm_fast_info":
        double n_iter
        double residual
        double log_z

cdef const char *error_text(int status) noexcept nogil
cdef Py_ssize_t workspace_size(Py_ssize_t nv, Py_ssize_t nh, int dtype) noexcept nogil
cdef int init(void *workspace, size_t size, const void *W, Py_ssize_t nv, Py_ssize_t nh, int dtype) noexcept nogil
cdef int run(void *workspace, void *tau_v, void *tau_h, void *gamma, info *info, const void *b1, const void *b2,
             int method, int max_iter, double tol, double damping, int flags) noexcept nogil
cdef int sample_h(void *workspace, void *h, const void *v, const void *b2, uint64_t seed, uint64_t chain,
                  uint64_t step) noexcept nogil
cdef int sample_v(void *workspace, void *v, const void *h, const void *b1, uint64_t seed, uint64_t chain,
                  uint64_t step) noexcept nogil
cdef int free_energy(void *workspace, double *F, const void *v, const void *b1, const void *b2) noexcept nogil
