/* mixed_ascent.h: coordinate ascent on log sum_h exp(-E(v, h)): marginal MAP, as mixed-product BP, and never without an end.
 *
 *   state     v; tau_h follows from it
 *   start     v = 0, where mixed-product starts, and the clamped units as they are
 *   iterate   kernels/ascent.h: each unit in turn flips where that raises the value by more than tol; then tau_h, a product
 *   end       a sweep without a flip: a fixed point of mixed-product BP, to within tol.  The residual is what the best flip
 *             gains, so it is converged where it is at most tol
 *   results   as mixed-product's
 */
#ifndef CRBM_METHOD_MIXED_ASCENT_H
#define CRBM_METHOD_MIXED_ASCENT_H

#include "methods/mixed_product.h"

/* theta_h, tau_h and 1 - tau_h at the v of m slots. */
static void ascent_beliefs_h(const crbm_run *run, work *w, ptrdiff_t m)
{
    const crbm_problem *p = &run->problem;
    fields *f = &w->fields;
    fields_h(run, f, m);
    for (ptrdiff_t s = 0; s < m; s++) {
        p->k->logistic_step(f->tau_h1 + s * p->ld, f->theta_h + s * p->ld, 1, 0, p->nh);
        p->k->logistic_step(f->tau_h0 + s * p->ld, f->theta_h + s * p->ld, -1, 0, p->nh);
    }
}

static void ascent_begin(crbm_run *run, work *w, ptrdiff_t first, ptrdiff_t m)
{
    fields *f = &w->fields;
    enter_fields(run, w, first, m);
    run->problem.k->decode(f->sent, f->sent, 0.5, m * run->problem.nv);
    for (ptrdiff_t i = 0; i < m * run->problem.nv; i++)
        if (isinf(f->b1[i]))
            f->sent[i] = f->b1[i] > 0;
    ascent_beliefs_h(run, w, m);
}

/* One sweep over the units of m slots, and the beliefs at the v found. */
static void ascent_iterate(const crbm_run *run, work *w, ptrdiff_t m, void (*sweep)(crbm_ascent *))
{
    const crbm_problem *p = &run->problem;
    const ptrdiff_t nv = p->nv, ld = p->ld;
    fields *f = &w->fields;
    for (ptrdiff_t s = 0; s < m; s += 8) {        /* 8 instances: their tau_h stay in the first-level cache */
        crbm_ascent a = {
            .v = f->sent + s * nv, .theta_v = f->theta_v + s * nv, .theta_h = f->theta_h + s * ld,
            .tau_h0 = f->tau_h0 + s * ld, .tau_h1 = f->tau_h1 + s * ld, .change = w->change + s, .b1 = f->b1 + s * nv,
            .weight = p->weight, .row_sum = p->row_sum, .W = p->W, .ldw = p->ldw, .n = smaller(m - s, 8), .nv = nv,
            .nh = p->nh, .ld = ld, .max_weight = p->max_weight, .tol = run->options.tol,
        };
        sweep(&a);
    }
    ascent_beliefs_h(run, w, m);        /* anew: rounding must not add up from flip to flip */
    for (ptrdiff_t s = 0; s < m; s++)
        p->k->logistic_step(f->tau_v + s * nv, f->theta_v + s * nv, 1, 0, nv);
}

static void mixed_ascent_iterate(crbm_run *run, work *w, ptrdiff_t m, ptrdiff_t t)
{
    const crbm_problem *p = &run->problem;
    fields *f = &w->fields;
    (void)t;
    ascent_iterate(run, w, m, p->form == CRBM_EXP ? p->k->mixed_ascend : p->k->mixed_ascend_log);
    if (run->options.gamma != CRBM_GAMMA_NONE) {        /* of a fixed point: messages are what they were */
        copy_reals(f->fresh_v, f->theta_v, m * p->nv);
        copy_reals(f->extra_v, f->sent, m * p->nv);
        copy_reals(f->extra_h, f->theta_h, m * p->ld);
    }
}

static const method mixed_ascent = {
    .about = {"mixed-ascent", CRBM_STATE_UNITS, CRBM_NEEDS_WEIGHT | CRBM_NEEDS_ROW_SUM, form_by_range},
    .together = 1,
    .lay = lay_fields,
    .begin = ascent_begin,
    .iterate = mixed_ascent_iterate,
    .answer = mixed_product_answer,
    .move = move_fields,
    .finishes = mixed_product_finishes,
    .finish = mixed_product_finish,
};

#endif /* CRBM_METHOD_MIXED_ASCENT_H */
