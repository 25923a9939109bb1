/* gibbs.h: blocked Gibbs sampling on a chunk of instances: h ~ p(h | v), then v ~ p(v | h) (Eq. 3).  The numbers drawn
 * depend on (seed, instance, step, unit) alone. */
#ifndef CRBM_GIBBS_H
#define CRBM_GIBBS_H

#include "methods/fields.h"

/* Take biases and states of the instances first ... into m slots; v is in `sent`, h in `tau_h1`. */
static void enter_chains(const crbm_run *run, work *w, const crbm_draws *d, ptrdiff_t first, ptrdiff_t m)
{
    const crbm_problem *p = &run->problem;
    fields *f = &w->fields;
    p->k->fill(f->b2, 0, m * p->ld);
    p->k->fill(f->tau_h1, 0, m * p->ld);
    for (ptrdiff_t s = 0; s < m; s++) {
        w->instance[s] = first + s;
        if (p->b2)
            copy_reals(f->b2 + s * p->ld, (const real *)p->b2 + (first + s) * p->nh, p->nh);
    }
    if (p->b1)
        copy_reals(f->b1, (const real *)p->b1 + first * p->nv, m * p->nv);
    copy_reals(f->sent, (const real *)d->v + first * p->nv, m * p->nv);
}

/* h ~ p(h | v) of m slots from their theta_h. */
static void draw_h(const crbm_run *run, work *w, const crbm_draws *d, uint64_t step, ptrdiff_t m)
{
    const crbm_problem *p = &run->problem;
    fields *f = &w->fields;
    for (ptrdiff_t s = 0; s < m; s++)
        p->k->bernoulli(f->tau_h1 + s * p->ld, f->theta_h + s * p->ld, d->seed, d->instance + (uint64_t)w->instance[s],
                        (uint32_t)(2 * step), p->nh);
}

/* v ~ p(v | h) of m slots. */
static void draw_v(const crbm_run *run, work *w, const crbm_draws *d, uint64_t step, ptrdiff_t m)
{
    const crbm_problem *p = &run->problem;
    fields *f = &w->fields;
    times_matrix_transposed(run, f->field_v, f->tau_h1, p->W, m);
    p->k->add(f->theta_v, f->b1, f->field_v, m * p->nv);
    for (ptrdiff_t s = 0; s < m; s++)
        p->k->bernoulli(f->sent + s * p->nv, f->theta_v + s * p->nv, d->seed, d->instance + (uint64_t)w->instance[s],
                        (uint32_t)(2 * step + 1), p->nv);
}

static void copy_h(const crbm_run *run, const work *w, const crbm_draws *d, ptrdiff_t first, ptrdiff_t m)
{
    const ptrdiff_t nh = run->problem.nh;
    for (ptrdiff_t s = 0; s < m; s++)
        copy_reals((real *)d->h + (first + s) * nh, w->fields.tau_h1 + s * run->problem.ld, nh);
}

static void sample_instances(crbm_run *run, work *w, const crbm_draws *d, ptrdiff_t first, ptrdiff_t m)
{
    const crbm_problem *p = &run->problem;
    fields *f = &w->fields;
    enter_chains(run, w, d, first, m);
    for (ptrdiff_t t = 0; t < d->n_steps; t++) {
        const uint64_t step = d->step + (uint64_t)t;
        if (t == 0 && d->theta_h)
            for (ptrdiff_t s = 0; s < m; s++)
                copy_reals(f->theta_h + s * p->ld, (const real *)d->theta_h + (first + s) * p->nh, p->nh);
        else
            fields_h(run, f, m);
        draw_h(run, w, d, step, m);
        draw_v(run, w, d, step, m);
        if (w->caller && run->host.poll)
            run->host.poll(run);
        if (crbm_flag(&run->cancel))
            return;
    }
    copy_reals((real *)d->v + first * p->nv, f->sent, m * p->nv);
    copy_h(run, w, d, first, m);
}

/* --- one instance: the halves of a step, and the free energy ------------------------------------------------------ */

static void sample_h(crbm_run *run, const crbm_draws *d, void *workspace)
{
    work w;
    lay_fields(&w, workspace, run, 1, 1);
    enter_chains(run, &w, d, 0, 1);
    fields_h(run, &w.fields, 1);
    draw_h(run, &w, d, d->step, 1);
    copy_h(run, &w, d, 0, 1);
}

static void sample_v(crbm_run *run, const crbm_draws *d, void *workspace)
{
    const crbm_problem *p = &run->problem;
    work w;
    lay_fields(&w, workspace, run, 1, 1);
    w.instance[0] = 0;
    copy_reals(w.fields.b1, p->b1, p->nv);
    p->k->pad(w.fields.tau_h1, d->h, 1, p->nh, p->ld, CRBM_PLAIN);
    draw_v(run, &w, d, d->step, 1);
    copy_reals(d->v, w.fields.sent, p->nv);
}

static double free_energy(crbm_run *run, const void *v, void *workspace)
{
    const crbm_problem *p = &run->problem;
    const real *b1 = p->b1, *states = v;
    work w;
    fields *f = &w.fields;
    for (ptrdiff_t i = 0; i < p->nv; i++)
        if (b1[i] == (states[i] == 1 ? -INFINITY : INFINITY))
            return INFINITY;        /* clamped to the other state */
    lay_fields(&w, workspace, run, 1, 1);
    p->k->pad(f->b2, p->b2, 1, p->nh, p->ld, CRBM_PLAIN);
    copy_reals(f->sent, states, p->nv);
    fields_h(run, f, 1);
    return -p->k->dot_free(b1, states, p->nv) - p->k->softplus_sum(f->theta_h, p->nh);
}

#endif /* CRBM_GIBBS_H */
