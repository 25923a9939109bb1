/* sum_product.h: sum-product BP, Algorithm 1 with Eqs. 13, 14, 16, 17: marginals.
 *
 *   state     a message v -> h per edge, m = m(h=1) / m(h=0), or its logarithm where exp(W) would leave the range
 *   start     m = 1 (M = 0.5)
 *   iterate   one sweep over the edges, kernels/sum_product.h or kernels/log_domain.h
 *   Gamma     pairwise beliefs, Eq. 18: exactly that of the paper after max_iter iterations without damping; from the
 *             newest messages for an instance that stopped earlier, or with damping
 *   log Z     Bethe, stationary at a fixed point: sum_i log Z_i + sum_j log Z_j - sum_ij log Z_ij
 *
 * Tried and lost: mixing the fields.  Anderson's method of depth 1, 2, 3 and 5 on theta_h, with the messages left as they
 * are (the fixed points are BP's) and a plain step wherever the residual grows, needs as many iterations to 1e-6 as the
 * plain iteration on random weights: 4 at 100x50, 6 at 784x256, 7 at 1000x500 and at 10,000x2,000; with N(0, 0.15^2) at
 * 784x256 11.9 to 12.8 for 11.8.  On the messages themselves it gains nothing there either.  A message leaves out the
 * edge that it answers, so the eigenvalues of the Jacobian fill a disc around 0 (784x256: all of the largest have
 * |lambda| = 0.046), on which no polynomial beats z^k.  Over-relaxation needs 1.14 to 2.7 times the iterations, Aitken's
 * method 1.2 to 1.3 times.  Trained models have a few real eigenvalues outside the disc: 0.75 to 0.85 of the iterations
 * (noisy digits 10.3 -> 8.4, 12x12 occluded 24.9 -> 19.3), but 0.95 to 1.02 with 16x16 occluded, where 1 or 2 of 29
 * instances went to another fixed point.
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
    const crbm_kernels *k = run->problem.k;
    const int add = run->options.gamma == CRBM_GAMMA_SUM;
    (r->cond ? k->gamma_cond : run->problem.form == CRBM_PLAIN ? k->log_gamma : k->sum_gamma)(gamma_of_group(run, w, g), r, add);
    return 0;
}

static void sum_product_answer(crbm_run *run, work *w, const kept *batch, ptrdiff_t s)
{
    const crbm_problem *p = &run->problem;
    const crbm_kernels *k = p->k;
    const ptrdiff_t n = w->instance[0];
    const int deferred = run->options.defer && !run->results.converged[n];
    edges *e = &w->edges;
    (void)batch, (void)s;
    if (run->results.log_z && !deferred) {
        all_groups(run, w, sum_product_edge_sums);
        double log_z = k->node_sum((const real *)p->b1 + n * p->nv, e->field_v, p->nv) + k->softplus_sum(e->theta_h, p->nh);
        for (ptrdiff_t g = 0; g < groups_of(p->nv); g++)
            log_z -= e->edge_sums[g];
        run->results.log_z[n] = log_z;
    }
    add_gamma(run, w, sum_product_gamma, deferred);
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
