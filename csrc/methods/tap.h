/* tap.h: second-order TAP (Gabrie, Tramel & Krzakala, NIPS 2015): mean field with Onsager's reaction.
 *
 *   state     tau_v and tau_h
 *   start     as mean field
 *   iterate   tau_v := logistic(b1 + W tau_h + (1/2 - tau_v) o W^2 var_h), then tau_h likewise, which damping holds back
 *   Gamma     tau_v tau_h' + W o var_v var_h', the derivative of its log Z
 *   log Z     entropies + b1 tau_v + (b2 + tau_v W) tau_h + 1/2 sum_ij W_ij^2 var_i var_j
 */
#ifndef CRBM_METHOD_TAP_H
#define CRBM_METHOD_TAP_H

#include "methods/fields.h"

/* extra_v, extra_h: variances, then reactions, of v and h. */
static void tap_iterate(crbm_run *run, work *w, ptrdiff_t m, ptrdiff_t t)
{
    const crbm_problem *p = &run->problem;
    const crbm_kernels *k = p->k;
    fields *f = &w->fields;
    (void)t;
    times_matrix_transposed(run, f->field_v, f->tau_h1, p->W, m);
    /* reaction_v = var_h (W^2)' */
    k->variance(f->extra_h, f->tau_h1, m * p->ld);
    times_matrix_transposed(run, f->extra_v, f->extra_h, p->squares, m);
    k->onsager(f->field_v, f->extra_v, f->tau_v, m * p->nv);
    update_tau_v(run, w, m);
    copy_reals(f->sent, f->tau_v, m * p->nv);
    fields_h(run, f, m);
    copy_reals(f->linear_h, f->theta_h, m * p->ld);
    /* reaction_h = var_v W^2 */
    k->variance(f->extra_v, f->tau_v, m * p->nv);
    k->fill(f->extra_h, 0, m * p->ld);
    times_matrix(run, f->extra_h, f->extra_v, p->squares, 0, m);
    k->onsager(f->theta_h, f->extra_h, f->tau_h1, m * p->ld);
    update_tau_h(run, w, m, run->options.damping);
}

static void tap_answer(crbm_run *run, work *w, const kept *batch, ptrdiff_t s)
{
    const crbm_problem *p = &run->problem;
    const crbm_kernels *k = p->k;
    const fields *f = &w->fields;
    const real *tau_v = f->tau_v + s * p->nv, *tau_h = f->tau_h1 + s * p->ld;
    (void)batch;
    answer_fields(run, w, s, f->tau_v);
    if (!run->results.log_z)
        return;
    k->variance(f->theta_h + s * p->ld, tau_h, p->nh);        /* theta_h is not needed any more */
    run->results.log_z[w->instance[s]] = k->entropy_sum(tau_v, p->nv) + k->entropy_sum(tau_h, p->nh)
        + k->dot_free(f->b1 + s * p->nv, tau_v, p->nv) + k->dot_free(f->linear_h + s * p->ld, tau_h, p->nh)
        + 0.5 * k->dot_free(f->extra_h + s * p->ld, f->theta_h + s * p->ld, p->nh);
}

static int tap_finishes(const crbm_run *run, int *v, int *h)
{
    *v = *h = 1;        /* variances */
    return run->options.gamma != CRBM_GAMMA_NONE;
}

static void tap_finish(crbm_run *run, const kept *batch, int team)
{
    const crbm_problem *p = &run->problem;
    const crbm_kernels *k = p->k;
    const ptrdiff_t edges = p->nv * p->nh, count = run->options.gamma == CRBM_GAMMA_SUM ? 1 : p->N;
    k->variance(batch->v[0], run->results.tau_v, p->N * p->nv);
    k->variance(batch->h[0], run->results.tau_h, p->N * p->nh);
    outer(run, batch->v[0], batch->h[0], 0, team);
    for (ptrdiff_t n = 0; n < count; n++) {
        real *gamma = (real *)run->results.gamma + n * edges;
        k->multiply(gamma, gamma, p->W, edges);
    }
    outer(run, run->results.tau_v, run->results.tau_h, 1, team);
}

static const method tap = {
    .about = {"tap", CRBM_STATE_UNITS, CRBM_NEEDS_SQUARES, form_by_range},
    .together = 1,
    .lay = lay_fields,
    .begin = begin_beliefs,
    .iterate = tap_iterate,
    .answer = tap_answer,
    .move = move_fields,
    .finishes = tap_finishes,
    .finish = tap_finish,
};

#endif /* CRBM_METHOD_TAP_H */
