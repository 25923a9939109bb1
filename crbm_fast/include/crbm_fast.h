/* crbm_fast.h: belief propagation on restricted Boltzmann machines, for other programs' inner loops.
 *
 *   #include <Python.h>
 *   #include <crbm_fast.h>
 *
 *   const crbm_fast_api *bp = crbm_fast_import();             once, with the GIL; NULL: an exception is set
 *   ptrdiff_t size = bp->workspace_size(nv, nh, CRBM_FAST_FLOAT32);
 *   void *w = aligned_alloc(CRBM_FAST_ALIGN, size);           or posix_memalign
 *   bp->init(w, size, W, nv, nh, CRBM_FAST_FLOAT32);
 *   bp->run(w, tau_v, tau_h, NULL, NULL, b1, b2, CRBM_FAST_SUM_PRODUCT, 50, 1e-3, 0, 0);
 *
 * The functions need no GIL, allocate nothing, lock nothing, keep no pointer to a caller's array and have no state but
 * the workspace: use one workspace per thread.  A workspace is memory of the caller, aligned to CRBM_FAST_ALIGN; while no
 * function works in it, it may be copied byte by byte to another such place in the same process; it is released by
 * forgetting it.
 *
 * The model is p(v, h) ~ exp(v' W h + b1' v + b2' h), v and h of 0s and 1s.  W is (nv, nh), row by row.  All arrays have
 * the real type the workspace was made for, lie one element after the other, and are aligned as that type is.  Arrays
 * written to must not overlap the others.  No pointer may be NULL, even to an array of no elements, where it is not said.
 *
 * A function returns CRBM_FAST_OK, or a negative code and then has written nothing to the caller's arrays; run may also
 * return CRBM_FAST_NOT_CONVERGED.  Rules and examples: docs/embedding.md.
 */
#ifndef CRBM_FAST_H
#define CRBM_FAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header.  A library tells in its table which versions it serves; see crbm_fast_check. */
#define CRBM_FAST_API_VERSION 1

#define CRBM_FAST_ALIGN 64

/* real types, as bytes per element */
#define CRBM_FAST_FLOAT32 4
#define CRBM_FAST_FLOAT64 8

/* methods */
#define CRBM_FAST_SUM_PRODUCT 0      /* marginals                          */
#define CRBM_FAST_MAX_PRODUCT 1      /* MAP: max over v and h              */
#define CRBM_FAST_MIXED_PRODUCT 2    /* marginal MAP: max over v, sum over h */
#define CRBM_FAST_BETHE 3            /* marginals: descent on the Bethe free energy */

/* flags of run */
#define CRBM_FAST_WARM_START 1       /* go on from the messages the workspace has, if they are of this method */
#define CRBM_FAST_LOG_Z 2            /* also info->log_z                                                      */

/* status codes; api->error_text has a sentence for each */
#define CRBM_FAST_OK 0
#define CRBM_FAST_NOT_CONVERGED 1    /* results are there, but max_iter came before tol */
#define CRBM_FAST_NULL_POINTER (-1)
#define CRBM_FAST_MISALIGNED (-2)
#define CRBM_FAST_TOO_SMALL (-3)
#define CRBM_FAST_BAD_SIZE (-4)
#define CRBM_FAST_BAD_DTYPE (-5)
#define CRBM_FAST_NOT_INITIALISED (-6)
#define CRBM_FAST_BUSY (-7)
#define CRBM_FAST_BAD_OPTION (-8)
#define CRBM_FAST_NOT_FINITE (-9)
#define CRBM_FAST_NOT_BINARY (-10)
#define CRBM_FAST_WRONG_VERSION (-11)

/* What run tells; three doubles, so that an array of three will do.  It never grows. */
#ifndef CRBM_FAST_INFO        /* cython_api.pxd declares it too */
#define CRBM_FAST_INFO
typedef struct crbm_fast_info {
    double n_iter;            /* iterations done                                                            */
    double residual;          /* largest change of a belief in the last one, as in crbm_fast.infer          */
    double log_z;             /* with CRBM_FAST_LOG_Z, else NaN; clamped units count without their bias     */
} crbm_fast_info;
#endif

/* The function table.  The first two fields stay where they are in every version; later versions append. */
typedef struct crbm_fast_api {
    int version;              /* CRBM_FAST_API_VERSION of the library                                       */
    int oldest;               /* the oldest version whose programs it serves                                */

    /* A sentence for a status code; never NULL. */
    const char *(*error_text)(int status);

    /* Bytes of a workspace, a multiple of CRBM_FAST_ALIGN (as aligned_alloc wants it), or a negative status. */
    ptrdiff_t (*workspace_size)(ptrdiff_t nv, ptrdiff_t nh, int dtype);

    /* Make a workspace of `size` bytes ready for W (nv, nh), finite; W is not needed afterwards.  For other weights
     * call it again.  Messages are forgotten. */
    int (*init)(void *workspace, size_t size, const void *W, ptrdiff_t nv, ptrdiff_t nh, int dtype);

    /* Belief propagation (Algorithm 1 of the paper), or descent on the Bethe free energy, which
     * cannot oscillate.
     *   tau_v   OUT (nv,)     P(v_i = 1), or the max-marginal; the state above 1/2 is the prediction
     *   tau_h   OUT (nh,)     P(h_j = 1), likewise
     *   gamma   OUT (nv, nh)  P(v_i = 1, h_j = 1) or NULL.  Sum-product: from the newest messages; mixed-product: Eq. 18 of
     *                         the paper; bethe: those that tau_v and tau_h imply; max-product: v h' at the predicted v and its best h
     *   info    OUT           or NULL, which with tol = 0 saves the time to measure the residual
     *   b1      (nv,)         biases of v, at most 1e30 in float, 1e300 in double; +-inf clamps a unit to 1 or 0
     *   b2      (nh,)         biases of h, likewise, finite
     *   max_iter >= 1;  tol >= 0, 0 does exactly max_iter iterations;  0 <= damping < 1, bethe: 0;  flags CRBM_FAST_... or 0
     * Returns CRBM_FAST_NOT_CONVERGED when tol > 0 was not reached. */
    int (*run)(void *workspace, void *tau_v, void *tau_h, void *gamma, crbm_fast_info *info, const void *b1,
               const void *b2, int method, int max_iter, double tol, double damping, int flags);

    /* The two halves of a step of blocked Gibbs sampling: h ~ p(h | v) and v ~ p(v | h).
     *   h (nh,), v (nv,)   0 and 1
     * The draws depend on (seed, chain, step, unit) alone and are those of crbm_fast.gibbs.  step < 2^31. */
    int (*sample_h)(void *workspace, void *h, const void *v, const void *b2, uint64_t seed, uint64_t chain,
                    uint64_t step);
    int (*sample_v)(void *workspace, void *v, const void *h, const void *b1, uint64_t seed, uint64_t chain,
                    uint64_t step);

    /* *F := -log sum_h exp(v' W h + b1' v + b2' h), so that p(v) ~ exp(-F).  Clamped units count without their bias;
     * F is infinite for a v that contradicts them. */
    int (*free_energy)(void *workspace, double *F, const void *v, const void *b1, const void *b2);
} crbm_fast_api;

/* CRBM_FAST_OK if a program compiled with this header may use `api`, else CRBM_FAST_NULL_POINTER or _WRONG_VERSION. */
static inline int crbm_fast_check(const crbm_fast_api *api)
{
    if (!api)
        return CRBM_FAST_NULL_POINTER;
    return CRBM_FAST_API_VERSION < api->oldest || CRBM_FAST_API_VERSION > api->version ? CRBM_FAST_WRONG_VERSION
                                                                                       : CRBM_FAST_OK;
}

#ifdef __cplusplus
}
#endif

#endif /* CRBM_FAST_H */

#if defined(PY_VERSION_HEX) && !defined(CRBM_FAST_CAPSULE)        /* needs Python.h, included before */
#define CRBM_FAST_CAPSULE "crbm_fast.cython_api._C_API"

#ifdef __cplusplus
extern "C" {
#endif

/* The table of the installed crbm_fast; NULL with an ImportError set when there is none or it is of another version.
 * Needs the GIL.  The table stays valid until the process ends. */
static inline const crbm_fast_api *crbm_fast_import(void)
{
    PyObject *module = PyImport_ImportModule("crbm_fast.cython_api");    /* PyCapsule_Import hides why it failed */
    const crbm_fast_api *api;
    if (!module)
        return NULL;
    Py_DECREF(module);
    api = (const crbm_fast_api *)PyCapsule_Import(CRBM_FAST_CAPSULE, 0);
    if (api && crbm_fast_check(api) != CRBM_FAST_OK) {
        PyErr_Format(PyExc_ImportError,
                     "this program was compiled for version %d of crbm_fast's C interface; the crbm_fast installed serves "
                     "versions %d to %d: %s",
                     CRBM_FAST_API_VERSION, api->oldest, api->version,
                     CRBM_FAST_API_VERSION < api->oldest ? "compile the program again" : "install a newer crbm_fast");
        return NULL;
    }
    return api;
}

#ifdef __cplusplus
}
#endif
#endif
