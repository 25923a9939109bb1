/* mean_field.h: naive mean field: marginals, coarsely.
 *
 *   state     tau_v and tau_h
 *   start     tau_h = logistic(b2), or from tau_v = logistic(b1)
 *   iterate   tau_v := logistic(b1 + W tau_h), then tau_h := logistic(b2 + tau_v W), which damping holds back
 *   Gamma     tau_v tau_h'
 *   log Z     the lower bound at tau_v and the tau_h that is best for it
 */
#ifndef CRBM_METHOD_MEAN_FIELD_H
#define CRBM_METHOD_MEAN_FIELD_H

#include "methods/fields.h"

static void mean_field_iterate(crbm_run *run, work *w, ptrdiff_t m, ptrdiff_t t)
{
    const crbm_problem *p = &run->problem;
    fields *f = &w->fields;
    (void)t;
    times_matrix_transposed(run, f->field_v, f->tau_h1, p->W, m);
    update_tau_v(run, w, m);
    copy_reals(f->sent, f->tau_v, m * p->nv);
    fields_h(run, f, m);
    update_tau_h(run, w, m, run->options.damping);
}

static void mean_field_answer(crbm_run *run, work *w, const kept *batch, ptrdiff_t s)
{
    const crbm_problem *p = &run->problem;
    const fields *f = &w->fields;
    (void)batch;
    answer_fields(run, w, s, f->tau_v);
    if (run->results.log_z)
        run->results.log_z[w->instance[s]] = p->k->mean_sum(f->b1 + s * p->nv, f->field_v + s * p->nv, p->nv)
            + p->k->softplus_sum(f->theta_h + s * p->ld, p->nh);
}

static int mean_field_finishes(const crbm_run *run, int *v, int *h)
{
    *v = *h = 0;
    return run->options.gamma != CRBM_GAMMA_NONE;
}

static void mean_field_finish(crbm_run *run, const kept *batch, int team)
{
    (void)batch;
    outer(run, run->results.tau_v, run->results.tau_h, 0, team);
}

static const method mean_field = {
    .about = {"mean-field", CRBM_STATE_UNITS, 0, form_by_range},
    .together = 1,
    .lay = lay_fields,
    .begin = begin_beliefs,
    .iterate = mean_field_iterate,
    .answer = mean_field_answer,
    .move = move_fields,
    .finishes = mean_field_finishes,
    .finish = mean_field_finish,
};

#endif /* CRBM_METHOD_MEAN_FIELD_H */
