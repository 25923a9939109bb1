/* solver.h: runs of inference and of Gibbs sampling on a batch of RBMs that share their weights.
 *
 *   crbm_run = problem (weights, biases) + options + results + host (products, threads, signals of the caller)
 *
 * The solver loops over a method (methods/), instance by instance or in chunks of instances, and shares the work among
 * the host's threads.  It knows no BLAS, no threads and no Python: the host brings them along.  It does not allocate:
 * the caller provides a workspace.  solver.c is compiled once per real type; arrays are `void *` here so that one set of
 * structures serves both.
 *
 * The engine (crbm_fast/_engine.pyx) and the embedding interface (embed.c) are its two callers.  They have checked every
 * argument.  A visible unit with the bias +-inf is clamped.
 */
#ifndef CRBM_SOLVER_H
#define CRBM_SOLVER_H

#include "crbm.h"
#include "methods/list.h"

#ifdef __cplusplus
extern "C" {
#endif

enum crbm_method_number {
#define CRBM_NUMBER(method) CRBM_METHOD_##method,
    CRBM_METHODS(CRBM_NUMBER)
#undef CRBM_NUMBER
    CRBM_N_METHODS
};

enum crbm_state {             /* what a method carries from one iteration to the next, per instance             */
    CRBM_STATE_EDGES,         /* a message per edge: (nv, ld) in the problem's `form`; log messages to the user  */
    CRBM_STATE_UNITS          /* a belief per unit: (nv + nh,)                                                   */
};

enum crbm_needs {             /* what a method reads beside W; the caller makes it once for many runs            */
    CRBM_NEEDS_WEIGHT = 1,
    CRBM_NEEDS_ROW_SUM = 2,
    CRBM_NEEDS_SQUARES = 4
};

enum crbm_gamma {
    CRBM_GAMMA_NONE,
    CRBM_GAMMA_EACH,          /* (N, nv, nh)                                                                     */
    CRBM_GAMMA_SUM            /* (nv, nh), added in the order of the instances to the zeros the caller put there   */
};

typedef struct crbm_problem {
    const crbm_kernels *k;
    ptrdiff_t N, nv, nh;
    ptrdiff_t ld;             /* crbm_padded(nh)                                                                 */
    const void *W;            /* (nv, ldw)                                                                       */
    ptrdiff_t ldw;            /* nh, or ld with padding                                                          */
    int form;                 /* enum crbm_form of `weight` and of messages: what the method's `form` says       */
    const void *weight;       /* (nv, ld) exp(W) or W                                                            */
    const void *row_sum;      /* (nv,) sum_j W_ij                                                                */
    const void *squares;      /* (nv, ldw) W^2                                                                   */
    double max_weight;        /* max |W_ij|, and of stored messages that a run resumes from                      */
    const void *b1;           /* (N, nv)                                                                         */
    const void *b2;           /* (N, nh)                                                                         */
} crbm_problem;

typedef struct crbm_options {
    ptrdiff_t max_iter;
    double tol;               /* 0: exactly max_iter iterations                                                  */
    double damping;
    int gamma;                /* enum crbm_gamma                                                                 */
    int defer;                /* no Gamma and log Z of instances that have not converged; they go on by a fallback */
    int gamma_from_messages;  /* sum-product: leave the messages as they are, for the next run                    */
    const void *init;         /* (N, nv, nh) log messages or (N, nv + nh) beliefs to start from, or NULL          */
    int visible_first;        /* without init, mean field and TAP start from b1 alone, not from b2 alone          */
    int resume;               /* start from what results.state holds                                             */
    int summed;               /* and the workspace still has the sums of these messages                          */
} crbm_options;

typedef struct crbm_results {
    void *tau_v;              /* (N, nv)                                                                         */
    void *tau_h;              /* (N, nh)                                                                         */
    int64_t *n_iter;          /* (N,)                                                                            */
    char *converged;          /* (N,)                                                                            */
    double *residual;         /* (N,), or NULL: methods with messages then save the time to measure it            */
    void *gamma;              /* as options.gamma says, or NULL                                                  */
    double *log_z;            /* (N,) or NULL                                                                    */
    void *messages;           /* in the form of options.init, or NULL                                            */
    void *state;              /* (N, nv, ld) or (N, nv + nh): kept for the run that resumes; or NULL              */
} crbm_results;

typedef struct crbm_run crbm_run;

/* What the caller lends to a run. */
typedef struct crbm_host {
    int n_threads;
    /* C (m, n) := op(A) op(B) + beta C, row-major with the row lengths lda, ldb, ldc; op transposes or not.  With beta = 0
     * the padding of C may be left as it is. */
    void (*product)(const crbm_run *run, int transpose_a, int transpose_b, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k,
                    const void *A, ptrdiff_t lda, const void *B, ptrdiff_t ldb, double beta, void *C, ptrdiff_t ldc);
    /* task(argument, i, present) for i = 0 ... count - 1, each by a thread of its own, 0 by the calling one; `present`
     * threads, at most count, are there.  Unused with one thread. */
    void (*in_parallel)(void (*task)(void *argument, int i, int present), void *argument, int count);
    /* Called by the calling thread from time to time; may set run->cancel.  May be NULL. */
    void (*poll)(crbm_run *run);
    void *context;            /* for those functions                                                             */
} crbm_host;

typedef struct crbm_method {
    const char *name;         /* as the user writes it                                                           */
    int state;                /* enum crbm_state                                                                 */
    int needs;                /* enum crbm_needs                                                                 */
    /* The form of the weights and messages that it computes with. */
    int (*form)(const crbm_problem *problem, const crbm_options *options);
} crbm_method;

struct crbm_run {
    const crbm_method *method;
    crbm_problem problem;
    crbm_options options;
    crbm_results results;
    crbm_host host;
    /* shared by the threads of the run; 0 at its beginning */
    long next;                /* the piece of work to be taken next                                              */
    long idle;                /* workers that have found none left                                               */
    long turn;                /* the instance whose Gamma is to be added next                                    */
    int cancel;               /* stop soon                                                                       */
    double next_poll;         /* the host's own                                                                  */
};

/* Gibbs chains; the numbers drawn depend on (seed, instance, step, unit) alone. */
typedef struct crbm_draws {
    void *v;                  /* (N, nv) IN OUT                                                                  */
    void *h;                  /* (N, nh) OUT                                                                     */
    const void *theta_h;      /* (N, nh) b2 + v W where it is known already, or NULL                             */
    uint64_t seed, instance, step;
    ptrdiff_t n_steps;
} crbm_draws;

typedef struct crbm_solver {
    const crbm_method *methods[CRBM_N_METHODS];          /* by number                                            */

    /* Make one of enum crbm_needs from W, which has no padding (ldw = nh): the weights in problem->form, the row sums or
     * the squares; and the bytes that it takes. */
    void (*prepare)(const crbm_problem *problem, int need, void *out);
    size_t (*prepared_bytes)(const crbm_problem *problem, int need);

    /* Bytes of scratch for a run; it must be aligned to CRBM_ALIGN. */
    size_t (*workspace)(const crbm_run *run);
    /* Whether the run calls the host's products. */
    int (*uses_products)(const crbm_run *run);
    /* Run the method on every instance and write the results. */
    void (*solve)(crbm_run *run, void *workspace);

    /* Blocked Gibbs sampling (Eq. 3): n_steps of h ~ p(h | v), v ~ p(v | h); the problem needs W and biases only. */
    size_t (*sampling_workspace)(const crbm_run *run);
    void (*sample)(crbm_run *run, const crbm_draws *draws, void *workspace);
    /* Its two halves for one instance, draws->n_steps unused: h given v, v given h. */
    void (*sample_h)(crbm_run *run, const crbm_draws *draws, void *workspace);
    void (*sample_v)(crbm_run *run, const crbm_draws *draws, void *workspace);
    /* F(v) = -log sum_h exp(-E(v, h)) of one instance, Eq. 4, clamped units without their bias; infinite where v
     * contradicts them. */
    double (*free_energy)(crbm_run *run, const void *v, void *workspace);

    /* Checks of arrays of n elements: all of them 0 or 1; all finite, or infinite, and else at most `limit` in size. */
    int (*all_states)(const void *x, ptrdiff_t n);
    int (*all_biases)(const void *x, double limit, ptrdiff_t n);
} crbm_solver;

/* The solver for elements of 4 or 8 bytes. */
const crbm_solver *crbm_solver_for(int itemsize);

/* `bytes` rounded up to whole cache lines, so that the next array is aligned too. */
static inline size_t crbm_lines(size_t bytes)
{
    return (bytes + CRBM_ALIGN - 1) / CRBM_ALIGN * CRBM_ALIGN;
}

/* Take `bytes` at the cursor.  An integer, because sizes are counted by a walk that starts at NULL. */
static inline void *crbm_place(uintptr_t *at, size_t bytes)
{
    const uintptr_t p = *at;
    *at += crbm_lines(bytes);
    return (void *)p;
}

#ifdef __cplusplus
}
#endif

#endif /* CRBM_SOLVER_H */
