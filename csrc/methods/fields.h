/* fields.h: what methods with a belief per unit share.  A chunk of instances is worked on together, so that its fields are
 * products of matrices.
 */
#ifndef CRBM_FIELDS_H
#define CRBM_FIELDS_H

#include "methods/method.h"

static size_t lay_fields(work *w, void *start, const crbm_run *run, ptrdiff_t size, int team)
{
    const ptrdiff_t v = size * run->problem.nv, h = size * run->problem.ld;
    uintptr_t at = (uintptr_t)start;
    fields *f = &w->fields;
    (void)team;
    f->b1 = place_reals(&at, v);
    f->tau_v = place_reals(&at, v);
    f->field_v = place_reals(&at, v);
    f->theta_v = place_reals(&at, v);
    f->sent = place_reals(&at, v);
    f->extra_v = place_reals(&at, v);
    f->fresh_v = place_reals(&at, v);
    f->b2 = place_reals(&at, h);
    f->tau_h0 = place_reals(&at, h);
    f->tau_h1 = place_reals(&at, h);
    f->theta_h = place_reals(&at, h);
    f->extra_h = place_reals(&at, h);
    f->linear_h = place_reals(&at, h);
    w->change = crbm_place(&at, size * sizeof(double));
    w->instance = crbm_place(&at, size * sizeof(ptrdiff_t));
    return at - (uintptr_t)start;
}

/* theta_h := b2 + sent W for m slots. */
static void fields_h(const crbm_run *run, fields *f, ptrdiff_t m)
{
    copy_reals(f->theta_h, f->b2, m * run->problem.ld);
    times_matrix(run, f->theta_h, f->sent, run->problem.W, 1, m);
}

/* The state that a run starts from, (N, nv + nh), or NULL. */
static const real *given_units(const crbm_run *run)
{
    return run->options.init ? run->options.init : run->options.resume ? run->results.state : NULL;
}

/* Take the instances first ... into the slots: biases, and beliefs from the given state or from the biases alone. */
static void enter_fields(const crbm_run *run, work *w, ptrdiff_t first, ptrdiff_t m)
{
    const crbm_problem *p = &run->problem;
    const crbm_kernels *k = p->k;
    const ptrdiff_t nv = p->nv, nh = p->nh, ld = p->ld;
    const real *given = given_units(run);
    fields *f = &w->fields;
    k->fill(f->b2, 0, m * ld);
    k->fill(f->tau_h0, 0.5, m * ld);
    k->fill(f->tau_h1, 0.5, m * ld);
    copy_reals(f->b1, (const real *)p->b1 + first * nv, m * nv);
    for (ptrdiff_t s = 0; s < m; s++) {
        w->instance[s] = first + s;
        copy_reals(f->b2 + s * ld, (const real *)p->b2 + (first + s) * nh, nh);
        if (!given) {
            k->logistic_step(f->tau_v + s * nv, f->b1 + s * nv, 1, 0, nv);
            k->logistic_step(f->tau_h1 + s * ld, f->b2 + s * ld, 1, 0, nh);
            k->fill(f->sent + s * nv, 0, nv);                             /* M = 0.5 */
        } else {
            const real *units = given + (first + s) * (nv + nh);
            copy_reals(f->tau_v + s * nv, units, nv);
            copy_reals(f->sent + s * nv, units, nv);
            copy_reals(f->tau_h1 + s * ld, units + nv, nh);
        }
    }
}

/* Mean field and TAP: from a given state, from tau_h = logistic(b2), or with visible_first from tau_v = logistic(b1) and
 * tau_h = logistic(b2 + tau_v W). */
static void begin_beliefs(crbm_run *run, work *w, ptrdiff_t first, ptrdiff_t m)
{
    const crbm_problem *p = &run->problem;
    fields *f = &w->fields;
    enter_fields(run, w, first, m);
    if (!run->options.visible_first || given_units(run))
        return;
    copy_reals(f->sent, f->tau_v, m * p->nv);
    fields_h(run, f, m);
    for (ptrdiff_t s = 0; s < m; s++)
        p->k->logistic_step(f->tau_h1 + s * p->ld, f->theta_h + s * p->ld, 1, 0, p->nh);
}

/* theta_v := b1 + field_v, and the new tau_v of m slots. */
static void update_tau_v(const crbm_run *run, work *w, ptrdiff_t m)
{
    const crbm_kernels *k = run->problem.k;
    const ptrdiff_t nv = run->problem.nv;
    fields *f = &w->fields;
    k->add(f->theta_v, f->b1, f->field_v, m * nv);
    for (ptrdiff_t s = 0; s < m; s++)
        w->change[s] = k->logistic_step(f->tau_v + s * nv, f->theta_v + s * nv, 1, 0, nv) / (1 - run->options.damping);
}

/* The new tau_h of m slots from theta_h, damped. */
static void update_tau_h(const crbm_run *run, work *w, ptrdiff_t m, double damping)
{
    const crbm_problem *p = &run->problem;
    fields *f = &w->fields;
    for (ptrdiff_t s = 0; s < m; s++) {
        const double change = p->k->logistic_step(f->tau_h1 + s * p->ld, f->theta_h + s * p->ld, 1, damping, p->nh);
        w->change[s] = larger(w->change[s], change / (1 - damping));
    }
}

/* The results that every method with fields has; `visible` (size, nv) is what v starts from in the next run. */
static void answer_fields(const crbm_run *run, work *w, ptrdiff_t s, const real *visible)
{
    const crbm_problem *p = &run->problem;
    const crbm_results *out = &run->results;
    const ptrdiff_t n = w->instance[s], nv = p->nv, nh = p->nh;
    const real *tau_h = w->fields.tau_h1 + s * p->ld;
    real *const units[2] = {out->messages, out->state};
    copy_reals((real *)out->tau_v + n * nv, w->fields.tau_v + s * nv, nv);
    copy_reals((real *)out->tau_h + n * nh, tau_h, nh);
    for (int i = 0; i < 2; i++)
        if (units[i]) {
            copy_reals(units[i] + n * (nv + nh), visible + s * nv, nv);
            copy_reals(units[i] + n * (nv + nh) + nv, tau_h, nh);
        }
}

/* Move what an instance carries from one iteration to the next. */
static void move_fields(const crbm_run *run, work *w, ptrdiff_t to, ptrdiff_t from)
{
    const ptrdiff_t nv = run->problem.nv, ld = run->problem.ld;
    fields *f = &w->fields;
    real *const v[] = {f->b1, f->tau_v, f->sent, f->field_v};
    real *const h[] = {f->b2, f->tau_h0, f->tau_h1, f->theta_h};
    for (int i = 0; i < 4; i++)
        copy_reals(v[i] + to * nv, v[i] + from * nv, nv);
    for (int i = 0; i < 4; i++)
        copy_reals(h[i] + to * ld, h[i] + from * ld, ld);
    w->instance[to] = w->instance[from];
}

#endif /* CRBM_FIELDS_H */
