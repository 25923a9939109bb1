/* mixed_product.h: mixed-product BP, Algorithm 1 with Eq. 15 in place of Eq. 14: marginal MAP, max over v, sum over h.
 *
 *   state     what v sends: its most likely state; tau_h follows from it
 *   start     v sends nothing (M = 0.5)
 *   iterate   tau_v from tau_h, kernels/mixed_product.h (Eqs. 13, 16); tau_h from what v sends, a product (Eqs. 15, 17)
 *   damping   of the logarithms of the messages h -> v, from the second iteration on.  Their sum is all that is read of
 *             them, so damping acts on one number per unit, field_v: v sends whole states as without, and an iteration
 *             costs the same.  (Damping what v sends makes it send fractions, whose messages take two exponentials and
 *             two logarithms per edge: 13 undamped iterations.)
 *   decoding  v from its beliefs, a tie is 0
 *   Gamma     pairwise beliefs, Eq. 18, from the last messages of both directions
 *   log Z     log sum_h exp(-E(v, h)) = -F(v), Eq. 4, at the v found: a lower bound of the maximum
 */
#ifndef CRBM_METHOD_MIXED_PRODUCT_H
#define CRBM_METHOD_MIXED_PRODUCT_H

#include "methods/fields.h"

/* tau_h and 1 - tau_h of m slots, each from theta_h. */
static void mixed_product_tau_h(const crbm_run *run, work *w, ptrdiff_t m)
{
    const crbm_problem *p = &run->problem;
    fields *f = &w->fields;
    update_tau_h(run, w, m, 0);
    for (ptrdiff_t s = 0; s < m; s++)
        p->k->logistic_step(f->tau_h0 + s * p->ld, f->theta_h + s * p->ld, -1, 0, p->nh);
}

static void mixed_product_begin(crbm_run *run, work *w, ptrdiff_t first, ptrdiff_t m)
{
    fields *f = &w->fields;
    enter_fields(run, w, first, m);
    run->problem.k->decode(f->sent, f->sent, 0.5, m * run->problem.nv);    /* all there is to start from */
    fields_h(run, f, m);
    for (ptrdiff_t s = 0; s < m; s++)
        w->change[s] = 0;
    mixed_product_tau_h(run, w, m);
}

/* extra_v, extra_h: what v sent, and theta_h, before the iteration; fresh_v: theta_v of the messages before damping.
 * The change is that before damping: a saturated belief may rest while its damped field moves on. */
static void mixed_product_iterate(crbm_run *run, work *w, ptrdiff_t m, ptrdiff_t t)
{
    const crbm_problem *p = &run->problem;
    const crbm_kernels *k = p->k;
    const ptrdiff_t nv = p->nv, ld = p->ld;
    const double damping = t > 1 ? run->options.damping : 0;        /* there is no message before the first */
    fields *f = &w->fields;
    if (run->options.gamma != CRBM_GAMMA_NONE) {
        copy_reals(f->extra_v, f->sent, m * nv);
        copy_reals(f->extra_h, f->theta_h, m * ld);
    }
    if (p->form == CRBM_EXP)
        for (ptrdiff_t s = 0; s < m; s += 8)        /* 8 instances: their tau_h stay in the first-level cache */
            k->mixed_field(f->fresh_v + s * nv, p->weight, p->row_sum, f->sent + s * nv, f->tau_h0 + s * ld,
                           f->tau_h1 + s * ld, smaller(m - s, 8), nv, ld, p->max_weight);
    else
        k->mixed_field_log(f->fresh_v, p->weight, f->sent, f->theta_h, m, nv, ld);
    if (damping > 0)
        k->blend(f->field_v, f->fresh_v, 1 - damping, m * nv);
    else
        copy_reals(f->field_v, f->fresh_v, m * nv);
    k->add(f->fresh_v, f->b1, f->fresh_v, m * nv);
    k->decode(f->theta_v, f->fresh_v, 0, m * nv);
    for (ptrdiff_t s = 0; s < m; s++) {
        w->change[s] = k->logistic_step(f->tau_v + s * nv, f->fresh_v + s * nv, 1, 0, nv);
        if (t == 1 && given_units(run))
            w->change[s] = 0;        /* there was no tau_v before */
        /* a state that flips sends another message, however little tau_v has moved */
        w->change[s] = larger(w->change[s], k->max_change(f->theta_v + s * nv, f->sent + s * nv, nv));
    }
    k->add(f->theta_v, f->b1, f->field_v, m * nv);
    if (damping > 0)
        for (ptrdiff_t s = 0; s < m; s++)
            k->logistic_step(f->tau_v + s * nv, f->theta_v + s * nv, 1, 0, nv);
    k->decode(f->sent, f->theta_v, 0, m * nv);
    fields_h(run, f, m);
    mixed_product_tau_h(run, w, m);
}

static int mixed_product_finishes(const crbm_run *run, int *v, int *h)
{
    *v = 3;        /* theta_v before damping, what v sent last, and before */
    *h = 2;        /* theta_h after the last iteration, and before */
    return run->options.gamma != CRBM_GAMMA_NONE;
}

static void mixed_product_answer(crbm_run *run, work *w, const kept *batch, ptrdiff_t s)
{
    const crbm_problem *p = &run->problem;
    const ptrdiff_t n = w->instance[s], nv = p->nv, nh = p->nh, v = s * nv, h = s * p->ld;
    fields *f = &w->fields;
    answer_fields(run, w, s, f->sent);
    if (run->results.log_z && !(run->options.defer && !run->results.converged[n])) {
        copy_reals(f->linear_h + h, f->b2 + h, p->ld);
        times_matrix(run, f->linear_h + h, f->sent + v, p->W, 1, 1);
        run->results.log_z[n] = p->k->dot_free(f->b1 + v, f->sent + v, nv) + p->k->softplus_sum(f->linear_h + h, nh);
    }
    if (run->options.gamma != CRBM_GAMMA_NONE) {
        copy_reals(batch->v[0] + n * nv, f->fresh_v + v, nv);
        copy_reals(batch->v[1] + n * nv, f->sent + v, nv);
        copy_reals(batch->v[2] + n * nv, f->extra_v + v, nv);
        copy_reals(batch->h[0] + n * nh, f->theta_h + h, nh);
        copy_reals(batch->h[1] + n * nh, f->extra_h + h, nh);
    }
}

static void mixed_product_gamma_rows(crbm_run *run, const void *argument, ptrdiff_t first, ptrdiff_t rows)
{
    const crbm_problem *p = &run->problem;
    const kept *batch = argument;
    const ptrdiff_t nv = p->nv, nh = p->nh;
    const int add = run->options.gamma == CRBM_GAMMA_SUM;
    for (ptrdiff_t n = 0; n < p->N; n++) {
        if (run->options.defer && !run->results.converged[n])
            continue;
        const ptrdiff_t v = n * nv + first, h = n * nh;
        p->k->mixed_gamma((real *)run->results.gamma + (add ? first : v) * nh, (const real *)p->W + first * p->ldw, p->ldw,
                          batch->v[0] + v, batch->v[1] + v, batch->v[2] + v, batch->h[0] + h, batch->h[1] + h, rows, nh,
                          add);
    }
}

static void mixed_product_finish(crbm_run *run, const kept *batch, int team)
{
    each_block(run, mixed_product_gamma_rows, batch, team);
}

static const method mixed_product = {
    .about = {"mixed-product", CRBM_STATE_UNITS, CRBM_NEEDS_WEIGHT | CRBM_NEEDS_ROW_SUM, form_by_range},
    .together = 1,
    .lay = lay_fields,
    .begin = mixed_product_begin,
    .iterate = mixed_product_iterate,
    .answer = mixed_product_answer,
    .move = move_fields,
    .finishes = mixed_product_finishes,
    .finish = mixed_product_finish,
};

#endif /* CRBM_METHOD_MIXED_PRODUCT_H */
