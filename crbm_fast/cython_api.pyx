"""The embedding interface: csrc/embed.c for Cython (cython_api.pxd), for C (the capsule `_C_API`, see
include/crbm_fast.h) and, by address, for numba and ctypes (ctypes_api.py).
"""

from cpython.pycapsule cimport PyCapsule_New

from crbm_fast._ckernels cimport active, crbm_kernels


cdef extern from "embed.h" nogil:
    const char *CRBM_FAST_CAPSULE

    ctypedef struct crbm_fast_api:
        int version
        int oldest
        const char *(*error_text)(int) noexcept nogil
        Py_ssize_t (*workspace_size)(Py_ssize_t, Py_ssize_t, int) noexcept nogil
        int (*init)(void *, size_t, const void *, Py_ssize_t, Py_ssize_t, int) noexcept nogil
        int (*run)(void *, void *, void *, void *, info *, const void *, const void *, int, int, double,
                   double, int) noexcept nogil
        int (*sample_h)(void *, void *, const void *, const void *, uint64_t, uint64_t, uint64_t) noexcept nogil
        int (*sample_v)(void *, void *, const void *, const void *, uint64_t, uint64_t, uint64_t) noexcept nogil
        int (*free_energy)(void *, double *, const void *, const void *, const void *) noexcept nogil

    const crbm_fast_api crbm_embed_api
    const crbm_kernels *(*crbm_embed_kernels)(int) noexcept nogil


cdef const char *error_text(int status) noexcept nogil:
    return crbm_embed_api.error_text(status)


cdef Py_ssize_t workspace_size(Py_ssize_t nv, Py_ssize_t nh, int dtype) noexcept nogil:
    return crbm_embed_api.workspace_size(nv, nh, dtype)


cdef int init(void *workspace, size_t size, const void *W, Py_ssize_t nv, Py_ssize_t nh, int dtype) noexcept nogil:
    return crbm_embed_api.init(workspace, size, W, nv, nh, dtype)


cdef int run(void *workspace, void *tau_v, void *tau_h, void *gamma, info *info, const void *b1, const void *b2,
             int method, int max_iter, double tol, double damping, int flags) noexcept nogil:
    return crbm_embed_api.run(workspace, tau_v, tau_h, gamma, info, b1, b2, method, max_iter, tol,
                              damping, flags)


cdef int sample_h(void *workspace, void *h, const void *v, const void *b2, uint64_t seed, uint64_t chain,
                  uint64_t step) noexcept nogil:
    return crbm_embed_api.sample_h(workspace, h, v, b2, seed, chain, step)


cdef int sample_v(void *workspace, void *v, const void *h, const void *b1, uint64_t seed, uint64_t chain,
                  uint64_t step) noexcept nogil:
    return crbm_embed_api.sample_v(workspace, v, h, b1, seed, chain, step)


cdef int free_energy(void *workspace, double *F, const void *v, const void *b1, const void *b2) noexcept nogil:
    return crbm_embed_api.free_energy(workspace, F, v, b1, b2)


crbm_embed_kernels = active
_C_API = PyCapsule_New(<void *> &crbm_embed_api, CRBM_FAST_CAPSULE, NULL)
