/* method.h: what a method of inference is to the solver.
 *
 *   lay -> begin -> iterate, iterate, ... -> answer (each instance, when it is finished) -> finish (the batch)
 *
 * A method works on a few instances at a time: its slots.  Methods that sweep over the edges (edges.h) have one slot, whose
 * groups of rows may be shared among threads; methods whose fields are products of matrices (fields.h) have many.  Upon an answer the last slot moves into the one that became free.
 */
#ifndef CRBM_METHOD_H
#define CRBM_METHOD_H

#include <math.h>
#include <string.h>

#include "real.h"
#include "solver.h"
#include "sync.h"

/* Scratch of methods that sweep over the edges: one instance. */
typedef struct edges {
    real *msg;                /* (nv, ld), or NULL where beliefs are the state                                   */
    real *cond;               /* (nv, ld) P(v=1 | h=1), may be msg; NULL: Gamma comes from the messages           */
    real *theta_v;            /* (nv,) logit of tau_v, where that is the state; else NULL                         */
    real *part;               /* (groups, part_length)                                                           */
    real *theta_h;            /* (ld,), and the next two                                                         */
    real *tau_h0;
    real *tau_h1;
    real *field_v;            /* (nv,)                                                                           */
    real *scratch;            /* (team, scratch_length)                                                          */
    ptrdiff_t part_length;    /* ld, or more                                                                     */
    ptrdiff_t scratch_length;
    double kappa, relax;      /* see crbm_rows                                                                   */
    double *edge_sums;        /* (groups,)                                                                       */
    double *thread_change;    /* (team,)                                                                         */
    int track;                /* this sweep measures the change of the messages                                  */
    int blind;                /* and learns nothing from the change of tau_v                                     */
    int fill_cond;            /* this sweep leaves P(v=1 | h=1) in cond                                          */
} edges;

/* Scratch of methods with fields: `size` instances. */
typedef struct fields {
    real *b1;                 /* (size, nv)                                                                      */
    real *b2;                 /* (size, ld)                                                                      */
    real *tau_v;              /* (size, nv)                                                                      */
    real *field_v;            /* (size, nv)  sum over h                                                          */
    real *theta_v;            /* (size, nv)  b1 + field_v                                                        */
    real *sent;               /* (size, nv)  what v sends to h: tau_v, or its most likely state                  */
    real *tau_h0;             /* (size, ld)                                                                      */
    real *tau_h1;             /* (size, ld)                                                                      */
    real *theta_h;            /* (size, ld)                                                                      */
    real *linear_h;           /* (size, ld)  b2 + sent W                                                         */
    real *extra_v;            /* (size, nv)  the method's own, like the next two                                 */
    real *extra_h;            /* (size, ld)                                                                      */
    real *fresh_v;            /* (size, nv)                                                                      */
} fields;

/* One worker's scratch. */
typedef struct work {
    ptrdiff_t *instance;      /* (size,) which instance a slot holds                                             */
    double *change;           /* (size,) the largest change in its last iteration                                */
    int team;                 /* threads that share a slot's groups of rows                                      */
    int caller;               /* whether this worker is the calling thread                                       */
    union {
        edges edges;
        fields fields;
    };
} work;

/* Arrays of the whole batch that `answer` fills and `finish` reads, or scratch of `finish`; see each method. */
typedef struct kept {
    real *v[3];               /* (N, nv) each                                                                    */
    real *h[2];               /* (N, nh) each                                                                    */
} kept;

typedef struct method {
    crbm_method about;        /* what callers may know; first, so that a pointer to it is one to the method      */
    int together;             /* whether a worker takes chunks of instances, or one at a time                    */
    /* Place the arrays for `size` instances from `start` on; returns the bytes taken, the same for any start. */
    size_t (*lay)(work *w, void *start, const crbm_run *run, ptrdiff_t size, int team);
    /* Take the instances first ... first + m - 1 into the slots. */
    void (*begin)(crbm_run *run, work *w, ptrdiff_t first, ptrdiff_t m);
    /* The t-th iteration, from 1, of m slots; sets `change`. */
    void (*iterate)(crbm_run *run, work *w, ptrdiff_t m, ptrdiff_t t);
    /* Write the results of slot s, but for the number of iterations and the residual. */
    void (*answer)(crbm_run *run, work *w, const kept *batch, ptrdiff_t s);
    /* Move what an instance carries from iteration to iteration; NULL where there is one slot. */
    void (*move)(const crbm_run *run, work *w, ptrdiff_t to, ptrdiff_t from);
    /* Whether some results are made for the whole batch at once, and how many arrays of `kept`, of v and of h, that
     * takes; NULL: none are. */
    int (*finishes)(const crbm_run *run, int *v, int *h);
    /* Make them. */
    void (*finish)(crbm_run *run, const kept *batch, int team);
} method;

#define ALWAYS_INLINE static inline __attribute__((always_inline))

static inline double larger(double a, double b) { return a > b ? a : b; }
static inline ptrdiff_t smaller(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

static inline real *place_reals(uintptr_t *at, ptrdiff_t count)
{
    return crbm_place(at, (size_t)count * sizeof(real));
}

static inline void copy_reals(real *to, const real *from, ptrdiff_t count)
{
    memcpy(to, from, (size_t)count * sizeof(real));
}

/* Logs where exp(W) would leave the range of the real type. */
static int form_by_range(const crbm_problem *p, const crbm_options *o)
{
    (void)o;
    return p->max_weight > p->k->max_weight ? CRBM_PLAIN : CRBM_EXP;
}

/* out (m, ld) := beta out + v (m, nv) M,  M (nv, ldw). */
static void times_matrix(const crbm_run *run, real *out, const real *v, const void *M, double beta, ptrdiff_t m)
{
    const crbm_problem *p = &run->problem;
    run->host.product(run, 0, 0, m, p->nh, p->nv, v, p->nv, M, p->ldw, beta, out, p->ld);
}

/* out (m, nv) := h (m, ld) M'. */
static void times_matrix_transposed(const crbm_run *run, real *out, const real *h, const void *M, ptrdiff_t m)
{
    const crbm_problem *p = &run->problem;
    run->host.product(run, 0, 1, m, p->nv, p->nh, h, p->ld, M, p->ldw, 0, out, p->nv);
}

/* --- Gamma of the whole batch, where it is a product of matrices ----------------------------------------------- */

enum { BLOCK = 64 };          /* rows of Gamma per product: what threads share                                     */

typedef struct row_blocks {
    crbm_run *run;
    const void *argument;
    /* rows first ... first + rows - 1 of Gamma */
    void (*task)(crbm_run *run, const void *argument, ptrdiff_t first, ptrdiff_t rows);
    int team;
} row_blocks;

static void some_blocks(void *argument, int i, int present)
{
    const row_blocks *b = argument;
    const ptrdiff_t nv = b->run->problem.nv, blocks = (nv + BLOCK - 1) / BLOCK;
    (void)present;
    for (ptrdiff_t block = i * blocks / b->team; block < (i + 1) * blocks / b->team; block++)
        b->task(b->run, b->argument, block * BLOCK, smaller(BLOCK, nv - block * BLOCK));
}

/* Do a task for all blocks of rows of Gamma, by `team` threads. */
static void each_block(crbm_run *run, void (*task)(crbm_run *, const void *, ptrdiff_t, ptrdiff_t), const void *argument,
                       int team)
{
    row_blocks b = {run, argument, task, team};
    if (team == 1)
        some_blocks(&b, 0, 1);
    else
        run->host.in_parallel(some_blocks, &b, team);
}

typedef struct outer_terms {
    const real *a;            /* (N, nv)                                                                         */
    const real *b;            /* (N, nh)                                                                         */
    double beta;
} outer_terms;

static void outer_rows(crbm_run *run, const void *argument, ptrdiff_t first, ptrdiff_t rows)
{
    const outer_terms *x = argument;
    const crbm_problem *p = &run->problem;
    const ptrdiff_t nv = p->nv, nh = p->nh;
    real *gamma = (real *)run->results.gamma + first * nh;
    if (run->options.gamma == CRBM_GAMMA_SUM) {
        /* (rows, nh) = (rows, N) (N, nh) */
        run->host.product(run, 1, 0, rows, nh, p->N, x->a + first, nv, x->b, nh, x->beta, gamma, nh);
        return;
    }
    for (ptrdiff_t n = 0; n < p->N; n++)
        run->host.product(run, 0, 0, rows, nh, 1, x->a + n * nv + first, 1, x->b + n * nh, nh, x->beta,
                          gamma + n * nv * nh, nh);
}

/* Gamma := a' b + beta Gamma, summed over the instances or instance by instance. */
static void outer(crbm_run *run, const real *a, const real *b, double beta, int team)
{
    const outer_terms x = {a, b, beta};
    each_block(run, outer_rows, &x, team);
}

#endif /* CRBM_METHOD_H */
