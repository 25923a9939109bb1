/* sum_product.h: sum-product BP, Algorithm 1 with Eqs. 13, 14, 16, 17: marginals.
 *
 *   state     a message v -> h per edge, m = m(h=1) / m(h=0), or its logarithm where exp(W) would leave the range
 *   start     m = 1 (M = 0.5)
 *   iterate   one sweep over the edges, kernels/sum_product.h or kernels/log_domain.h
 *   Gamma     pairwise beliefs, Eq. 18: exactly that of the paper after max_iter iterations without damping; from the
 *             newest messages for an instance that stopped earlier, or with damping
 *   log Z     Bethe, stationary at a fixed point: sum_i log Z_i + sum_j log Z_j - sum_ij log Z_ij
 */
#ifndef CRBM_METHOD_SUM_PRODUCT_H
#define CRBM_METHOD_SUM_PRODUCT_H

#include "methods/edges.h"

static size_t sum_product_lay(work *w, void *start, const crbm_run *run, ptrdiff_t size, int team)
{
    const crbm_options *o = &run->options;
    (void)size;
    return lay_edges(w, start, run, team, o->gamma != CRBM_GAMMA_NONE && o->damping == 0 && !o->gamma_from_messages);
}

static double sum_product_sweep(crbm_run *run, work *w, crbm_rows *r, ptrdiff_t g)
{
    const crbm_kernels *k = run->problem.k;
    (void)g;
    (run->problem.form == CRBM_PLAIN ? k->log_group : k->sum_group)(r);
    return change_of(run, &w->edges, r);
}

static void sum_product_iterate(crbm_run *run, work *w, ptrdiff_t m, ptrdiff_t t)
{
    (void)m;
    iterate_edges(run, w, t, sum_product_sweep);
}

static double sum_product_edge_sums(crbm_run *run, work *w, crbm_rows *r, ptrdiff_t g)
{
    const crbm_kernels *k = run->problem.k;
    w->edges.edge_sums[g] = (run->problem.form == CRBM_PLAIN ? k->log_edges : k->sum_edges)(r);
    return 0;
}

static double sum_product_gamma(crbm_run *run, work *w, crbm_rows *r, ptrdiff_t g)
{
    const crbm_problem *p = &run->problem;
    const crbm_kernels *k = p->k;
    const int add = run->options.gamma == CRBM_GAMMA_SUM;
    const ptrdiff_t instance = add ? 0 : w->instance[0];
    real *gamma = (real *)run->results.gamma + (instance * p->nv + g * CRBM_GROUP) * p->nh;
    (r->cond ? k->gamma_cond : p->form == CRBM_PLAIN ? k->log_gamma : k->sum_gamma)(gamma, r, add);
    return 0;
}

static void sum_product_answer(crbm_run *run, work *w, const kept *batch, ptrdiff_t s)
{
    const crbm_problem *p = &run->problem;
    const crbm_kernels *k = p->k;
    const ptrdiff_t n = w->instance[0];
    edges *e = &w->edges;
    (void)batch, (void)s;
    if (run->results.log_z) {
        all_groups(run, w, sum_product_edge_sums);
        double log_z = k->node_sum((const real *)p->b1 + n * p->nv, e->field_v, p->nv) + k->softplus_sum(e->theta_h, p->nh);
        for (ptrdiff_t g = 0; g < groups_of(p->nv); g++)
            log_z -= e->edge_sums[g];
        run->results.log_z[n] = log_z;
    }
    if (run->options.gamma == CRBM_GAMMA_SUM)
        /* Added in the order of the instances, which are taken in order: who has the lowest number never waits. */
        while (crbm_look(&run->turn) != n && !crbm_flag(&run->cancel)) {
            if (w->caller && run->host.poll)
                run->host.poll(run);
            crbm_pause();
        }
    if (run->options.gamma != CRBM_GAMMA_NONE && !crbm_flag(&run->cancel)) {
        all_groups(run, w, sum_product_gamma);
        crbm_take(&run->turn);
    }
    answer_edges(run, w);
}

static const method sum_product = {
    .about = {"sum-product", CRBM_STATE_EDGES, CRBM_NEEDS_WEIGHT, form_by_range},
    .lay = sum_product_lay,
    .begin = begin_edges,
    .iterate = sum_product_iterate,
    .answer = sum_product_answer,
};

#endif /* CRBM_METHOD_SUM_PRODUCT_H */
