/* solver.h: the iterations: BP on one RBM, the field methods and Gibbs sampling on a chunk of instances.
 *
 *   crbm_solve         sum-product, max-product: a message per edge, Algorithm 1 with a stopping rule
 *   crbm_solve_chunk   mixed-product, mean field, TAP: no state per edge; fields of many instances at once
 *   crbm_sample_chunk  blocked Gibbs sampling
 *
 * The engine (crbm_fast/_engine.pyx) and the embedding interface (embed.c) run these.  They know no threads, no BLAS and
 * no Python: products with W, the sharing of groups among threads and the look for signals are functions that a job
 * brings along.  They do not allocate: scratch is laid out by crbm_lay_slot and crbm_lay_chunk in memory of the caller.
 *
 * Arguments have been checked.  A visible unit with the bias +-inf is clamped.
 */
#ifndef CRBM_SOLVER_H
#define CRBM_SOLVER_H

#include "crbm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum crbm_method {            /* in this order: those with messages, then those with padded weights, then the rest */
    CRBM_SUM_PRODUCT,
    CRBM_MAX_PRODUCT,
    CRBM_MIXED_PRODUCT,
    CRBM_MEAN_FIELD,
    CRBM_TAP
};

enum crbm_gamma {
    CRBM_GAMMA_NONE,
    CRBM_GAMMA_EACH,          /* (N, nv, nh) */
    CRBM_GAMMA_SUM            /* (nv, nh), added in the order of the instances */
};

enum crbm_task {              /* what to do with a group of rows */
    CRBM_SWEEP,
    CRBM_RESUME,
    CRBM_EDGES,
    CRBM_GAMMA_FROM_COND,
    CRBM_GAMMA_FROM_MESSAGES
};

typedef struct crbm_job crbm_job;
typedef struct crbm_slot crbm_slot;

/* What one run is about; the same for all its threads. */
struct crbm_job {
    const crbm_kernels *k;
    int method;
    ptrdiff_t nv, nh, ld, item;
    const void *W;            /* (nv, ldw)                                                                  */
    ptrdiff_t ldw;            /* nh or ld                                                                   */
    const char *weight;       /* (nv, ld) exp(W) or W, as `form` says                                       */
    const void *squares;      /* (nv, ldw) W^2, for TAP                                                     */
    const void *row_sum;      /* (nv,) sum_j W, for mixed-product                                           */
    int form;
    double max_weight;
    const char *b1;           /* (N, nv)                                                                    */
    const char *b2;           /* (N, nh)                                                                    */
    ptrdiff_t max_iter;
    double tol;               /* 0: exactly max_iter iterations                                             */
    double damping;
    int gamma_mode;
    /* results, (N, ...); gamma, messages and log_z may be NULL, and residual in crbm_solve with tol = 0 */
    char *tau_v;
    char *tau_h;
    int64_t *n_iter;
    char *converged;
    double *residual;
    char *gamma;
    char *messages;           /* (N, nv, nh) log messages, or (N, nv + nh) beliefs                          */
    double *log_z;
    const char *init;         /* in the form of `messages`, to start from; or NULL                          */
    int visible_first;        /* without init, mean field and TAP start from b1 alone, not from b2 alone    */
    char *state;              /* (N, nv, ld) messages in `form`, or (N, nv + nh): kept for the next start   */
    int resume;               /* start from the messages that `state`, or else the slot, holds              */
    int summed;               /* and the slot's `part` has their sums, from the run that made them          */
    long turn;                /* instance whose Gamma is to be added next; shared by the threads            */
    int cancel;               /* stop soon; likewise                                                        */
    /* lent by the caller */
    /* out (m, ld) := v (m, nv) M + beta out;   M (nv, ldw); with beta = 0 padding may be left as it is     */
    void (*to_h)(const crbm_job *job, void *out, const void *v, const void *M, double beta, ptrdiff_t m);
    /* out (m, nv) := h (m, ld) M'                                                                          */
    void (*to_v)(const crbm_job *job, void *out, const void *h, const void *M, ptrdiff_t m);
    /* crbm_work_groups by each of `team` threads; the largest of their results.  Unused when team is 1      */
    double (*share)(crbm_job *job, crbm_slot *s, ptrdiff_t n, int team, int task);
    void (*poll)(crbm_job *job);      /* may set `cancel`; only called by the calling thread                */
    void *lender;             /* for those functions                                                        */
    /* the caller's own */
    ptrdiff_t N;              /* instances in all                                                           */
    long next, idle;          /* piece of work to be taken next; workers that have found no more            */
    double next_poll;
};

/* Scratch of one RBM at a time. */
struct crbm_slot {
    char *msg;                /* (nv, ld)                                                                   */
    char *cond;               /* (nv, ld), may be msg; NULL: Gamma comes from the messages                  */
    char *part;               /* (groups, ld)                                                               */
    char *theta_h;            /* (ld,), and the next two                                                    */
    char *tau_h0;
    char *tau_h1;
    char *field_v;            /* (nv,)                                                                      */
    char *scratch;            /* (team, ld)                                                                 */
    double *edges;            /* (groups,)                                                                  */
    double *change;           /* (team,)                                                                    */
    int track;                /* this sweep measures the change of the messages                             */
    int blind;                /* and tells nothing by the change of tau_v                                   */
    int last;                 /* this sweep leaves P(v=1 | h=1) in cond                                     */
};

/* A chunk of instances is worked off together, so that its fields are products of matrices.  Rows are slots; a slot is
 * freed as soon as its instance has converged, and the last one moves into it. */
typedef struct crbm_chunk {
    char *b1;                 /* (size, nv)                                                                 */
    char *b2;                 /* (size, ld)                                                                 */
    char *tau_v;              /* (size, nv)                                                                 */
    char *field_v;            /* (size, nv)  sum over h                                                     */
    char *theta_v;            /* (size, nv)  b1 + field_v                                                   */
    char *sent;               /* (size, nv)  what v sends to h: tau_v, or its most likely state, damped     */
    char *tau_h0;             /* (size, ld)                                                                 */
    char *tau_h1;             /* (size, ld)                                                                 */
    char *theta_h;            /* (size, ld)                                                                 */
    char *extra_v;            /* (size, nv)  TAP: variances, reactions                                      */
    char *extra_h;            /* (size, ld)  likewise                                                       */
    char *linear_h;           /* (size, ld)  b2 + sent W: theta_h before TAP's reaction                     */
    double *change;           /* (size,)                                                                    */
    ptrdiff_t *instance;      /* (size,)                                                                    */
} crbm_chunk;

/* Gibbs chains; the numbers drawn depend on (seed, instance, step, unit) alone. */
typedef struct crbm_draws {
    char *v;                  /* (N, nv) IN OUT                                                             */
    char *h;                  /* (N, nh) OUT                                                                */
    const char *theta_h;      /* (N, nh) b2 + v W where it is known already, or NULL                        */
    uint64_t seed, instance, step;
    ptrdiff_t n_steps;
} crbm_draws;

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

/* The form of the weights, and of the messages, that a job runs on: logs for max-product, where exp(W) would leave the
 * range, and for damped mixed-product, where v sends fractions. */
static inline int crbm_form_for(const crbm_job *job)
{
    return job->method == CRBM_MAX_PRODUCT || job->max_weight > job->k->max_weight
            || (job->method == CRBM_MIXED_PRODUCT && job->damping > 0) ? CRBM_PLAIN : CRBM_EXP;
}

static inline ptrdiff_t crbm_groups(ptrdiff_t nv)
{
    return (nv + CRBM_GROUP - 1) / CRBM_GROUP;
}

/* Place the arrays of a slot from `start` (aligned) on; own_msg and own_cond: with a matrix for them, else msg is left
 * NULL and cond is msg.  Returns the bytes taken, the same for any `start`, NULL included. */
size_t crbm_lay_slot(crbm_slot *s, void *start, const crbm_job *job, int team, int own_msg, int own_cond);
size_t crbm_lay_chunk(crbm_chunk *c, void *start, const crbm_job *job, ptrdiff_t size);

/* BP on instance n.  `caller`: this is the calling thread, which looks for signals. */
void crbm_solve(crbm_job *job, crbm_slot *s, ptrdiff_t n, int team, int caller);
/* Do worker's share of the groups of instance n; returns the largest change seen. */
double crbm_work_groups(crbm_job *job, crbm_slot *s, ptrdiff_t n, int worker, int team, int task);
/* Fixed-point iterations on instances first ... first + m - 1, v then h as in Algorithm 1. */
void crbm_solve_chunk(crbm_job *job, crbm_chunk *c, ptrdiff_t first, ptrdiff_t m, int caller);
/* n_steps of h ~ p(h | v), v ~ p(v | h) (Eq. 3) on the like. */
void crbm_sample_chunk(crbm_job *job, crbm_draws *d, crbm_chunk *c, ptrdiff_t first, ptrdiff_t m, int caller);

#ifdef __cplusplus
}
#endif

#endif /* CRBM_SOLVER_H */
