/* max_product.h: max-product BP, Algorithm 1 with a maximum in place of both sums: MAP.
 *
 *   state     the logarithm of a message v -> h per edge
 *   start     0
 *   iterate   one sweep over the edges, kernels/log_domain.h
 *   decoding  v from its beliefs, a tie is 0; h the best for that v
 *   Gamma     v h'
 *   log Z     the value found, -E(v, h), a lower bound of the maximum; clamped units without their bias
 */
#ifndef CRBM_METHOD_MAX_PRODUCT_H
#define CRBM_METHOD_MAX_PRODUCT_H

#include "methods/edges.h"

static int max_product_form(const crbm_problem *p, const crbm_options *o)
{
    (void)p, (void)o;
    return CRBM_PLAIN;
}

static size_t max_product_lay(work *w, void *start, const crbm_run *run, ptrdiff_t size, int team)
{
    (void)size;
    return lay_edges(w, start, run, team, 0);
}

static double max_product_sweep(crbm_run *run, work *w, crbm_rows *r, ptrdiff_t g)
{
    (void)g;
    run->problem.k->max_group(r);
    return change_of(run, &w->edges, r);
}

static void max_product_iterate(crbm_run *run, work *w, ptrdiff_t m, ptrdiff_t t)
{
    (void)m;
    iterate_edges(run, w, t, max_product_sweep);
}

static void max_product_answer(crbm_run *run, work *w, const kept *batch, ptrdiff_t s)
{
    (void)batch, (void)s;
    answer_edges(run, w);
}

static int max_product_finishes(const crbm_run *run, int *v, int *h)
{
    *v = *h = 1;        /* the states found */
    return run->results.log_z || run->options.gamma != CRBM_GAMMA_NONE;
}

static void max_product_finish(crbm_run *run, const kept *batch, int team)
{
    const crbm_problem *p = &run->problem;
    const crbm_kernels *k = p->k;
    const ptrdiff_t N = p->N, nv = p->nv, nh = p->nh;
    real *v = batch->v[0], *h = batch->h[0];
    k->decode(v, run->results.tau_v, 0.5, N * nv);
    copy_reals(h, p->b2, N * nh);
    /* h = v W + b2:  (N, nh) = (N, nv) (nv, nh) + (N, nh) */
    run->host.product(run, 0, 0, N, nh, nv, v, nv, p->W, p->ldw, 1, h, nh);
    if (run->results.log_z)
        for (ptrdiff_t n = 0; n < N; n++)
            run->results.log_z[n] = k->dot_free((const real *)p->b1 + n * nv, v + n * nv, nv) + k->relu_sum(h + n * nh, nh);
    if (run->options.gamma != CRBM_GAMMA_NONE) {
        k->decode(h, h, 0, N * nh);
        for (ptrdiff_t n = 0; n < N; n++)
            if (run->options.defer && !run->results.converged[n])
                k->fill(h + n * nh, 0, nh);
        outer(run, v, h, run->options.gamma == CRBM_GAMMA_SUM, team);
    }
}

static const method max_product = {
    .about = {"max-product", CRBM_STATE_EDGES, CRBM_NEEDS_WEIGHT, max_product_form},
    .lay = max_product_lay,
    .begin = begin_edges,
    .iterate = max_product_iterate,
    .answer = max_product_answer,
    .finishes = max_product_finishes,
    .finish = max_product_finish,
};

#endif /* CRBM_METHOD_MAX_PRODUCT_H */
