/* bethe.h: descent on the Bethe free energy: marginals, by a method that cannot oscillate.
 *
 *   state     a belief per unit, tau_v and tau_h
 *   start     tau_v = logistic(b1), tau_h = logistic(b2)
 *   iterate   one alternation in one sweep over the edges, kernels/descent.h: a step of all visible units given tau_h, then
 *             of all hidden units given tau_v; the Bethe free energy falls in both.  The residual is how far
 *             the odds of a unit are from those that its neighbours call for; it is 0 at the fixed points of BP, and only
 *             there
 *   accuracy  a few ulp per factor and message: beliefs within 2e-6 of double precision's in float at |W| ~ 0.1, 1e-5 at
 *             |W| ~ 0.5, with hundreds of neighbours each
 *   Gamma     the pairwise beliefs that tau_v and tau_h imply, Eq. 18 at a fixed point
 *   log Z     minus the Bethe free energy of these beliefs, whether or not they are at a fixed point
 */
#ifndef CRBM_METHOD_BETHE_H
#define CRBM_METHOD_BETHE_H

#include "methods/edges.h"
#include "methods/fields.h"

static int bethe_form(const crbm_problem *p, const crbm_options *o)
{
    return form_by_range(p, o) == CRBM_PLAIN ? CRBM_PLAIN : CRBM_ODDS;
}

static size_t bethe_lay(work *w, void *start, const crbm_run *run, ptrdiff_t size, int team)
{
    const ptrdiff_t nv = run->problem.nv, ld = run->problem.ld, groups = groups_of(nv);
    uintptr_t at = (uintptr_t)start;
    edges *e = &w->edges;
    (void)size;
    e->msg = e->cond = NULL;
    e->part_length = e->scratch_length = 2 * ld;
    e->theta_v = place_reals(&at, nv);
    e->part = place_reals(&at, groups * e->part_length);
    e->scratch = place_reals(&at, team * e->scratch_length);
    lay_rows(w, &at, run, team);
    return at - (uintptr_t)start;
}

static void bethe_begin(crbm_run *run, work *w, ptrdiff_t first, ptrdiff_t m)
{
    const crbm_problem *p = &run->problem;
    const crbm_kernels *k = p->k;
    const ptrdiff_t nv = p->nv, nh = p->nh;
    const real *units = given_units(run), *b1 = (const real *)p->b1 + first * nv;
    /* max t + 1; without it where it is so large that the bound is of no use, or not a number */
    const double c = cosh(p->max_weight / 4);
    edges *e = &w->edges;
    (void)m;
    w->instance[0] = first;
    e->track = e->blind = e->fill_cond = 0;
    e->relax = 0;
    e->kappa = p->max_weight < 40 ? c * c : 0;
    if (units) {
        units += first * (nv + nh);
        k->logit(e->theta_v, units, nv);
        k->logit(e->theta_h, units + nv, nh);
        for (ptrdiff_t i = 0; i < nv; i++)
            if (isinf(b1[i]))
                e->theta_v[i] = b1[i];
    } else {
        copy_reals(e->theta_v, b1, nv);
        copy_reals(e->theta_h, (const real *)p->b2 + first * nh, nh);
    }
    k->fill(e->theta_h + nh, 0, p->ld - nh);
    k->descend_close(e->theta_h, e->tau_h0, e->tau_h1, (const real *)p->b2 + first * nh, e->part, 0, nh, p->ld, 0, 0);
}

static double bethe_sweep(crbm_run *run, work *w, crbm_rows *r, ptrdiff_t g)
{
    const crbm_kernels *k = run->problem.k;
    (void)w, (void)g;
    (run->problem.form == CRBM_PLAIN ? k->descend_log_group : k->descend_group)(r);
    return r->belief_change;
}

static void bethe_iterate(crbm_run *run, work *w, ptrdiff_t m, ptrdiff_t t)
{
    const crbm_problem *p = &run->problem;
    edges *e = &w->edges;
    (void)m;
    e->relax = t < 161 ? (double)(t - 1) / (double)(t + 39) : 0.8;
    const double change = all_groups(run, w, bethe_sweep);
    w->change[0] = larger(change, p->k->descend_close(e->theta_h, e->tau_h0, e->tau_h1,
                                                      (const real *)p->b2 + w->instance[0] * p->nh, e->part,
                                                      groups_of(p->nv), p->nh, p->ld, e->kappa, e->relax));
}

static double bethe_energy(crbm_run *run, work *w, crbm_rows *r, ptrdiff_t g)
{
    const crbm_kernels *k = run->problem.k;
    w->edges.edge_sums[g] = (run->problem.form == CRBM_PLAIN ? k->descend_log_energy : k->descend_energy)(r);
    return 0;
}

static double bethe_gamma(crbm_run *run, work *w, crbm_rows *r, ptrdiff_t g)
{
    const crbm_kernels *k = run->problem.k;
    (run->problem.form == CRBM_PLAIN ? k->descend_log_gamma : k->descend_gamma)(
        gamma_of_group(run, w, g), r, run->options.gamma == CRBM_GAMMA_SUM);
    return 0;
}

static void bethe_answer(crbm_run *run, work *w, const kept *batch, ptrdiff_t s)
{
    const crbm_problem *p = &run->problem;
    const crbm_kernels *k = p->k;
    const ptrdiff_t n = w->instance[0], nv = p->nv, nh = p->nh;
    edges *e = &w->edges;
    real *tau_v = (real *)run->results.tau_v + n * nv, *tau_h = (real *)run->results.tau_h + n * nh;
    real *const units[2] = {run->results.messages, run->results.state};
    (void)batch, (void)s;
    k->logistic_step(tau_v, e->theta_v, 1, 0, nv);
    k->logistic_step(tau_h, e->theta_h, 1, 0, nh);
    for (int i = 0; i < 2; i++)
        if (units[i]) {
            copy_reals(units[i] + n * (nv + nh), tau_v, nv);
            copy_reals(units[i] + n * (nv + nh) + nv, tau_h, nh);
        }
    if (run->results.log_z) {
        all_groups(run, w, bethe_energy);
        double log_z = k->entropy_sum(tau_v, nv) + k->entropy_sum(tau_h, nh)
            + k->dot_free((const real *)p->b1 + n * nv, tau_v, nv) + k->dot_free((const real *)p->b2 + n * nh, tau_h, nh);
        for (ptrdiff_t g = 0; g < groups_of(nv); g++)
            log_z -= e->edge_sums[g];
        run->results.log_z[n] = log_z;
    }
    add_gamma(run, w, bethe_gamma, 0);
}

static const method bethe = {
    .about = {"bethe", CRBM_STATE_UNITS, CRBM_NEEDS_WEIGHT, bethe_form},
    .lay = bethe_lay,
    .begin = bethe_begin,
    .iterate = bethe_iterate,
    .answer = bethe_answer,
};

#endif /* CRBM_METHOD_BETHE_H */
