/* edges.h: what methods that sweep over the edges of one RBM share, its rows in groups of CRBM_GROUP; and Algorithm 1,
 * for those with a message per edge.
 *
 * Groups are what threads share out; partial sums are added in the order of groups, so results have the same bits for
 * any number of threads.
 */
#ifndef CRBM_EDGES_H
#define CRBM_EDGES_H

#include "methods/method.h"

static inline ptrdiff_t groups_of(ptrdiff_t nv) { return (nv + CRBM_GROUP - 1) / CRBM_GROUP; }

/* The arrays that every method with sweeps over groups of rows has. */
static void lay_rows(work *w, uintptr_t *at, const crbm_run *run, int team)
{
    const crbm_problem *p = &run->problem;
    edges *e = &w->edges;
    e->theta_h = place_reals(at, p->ld);
    e->tau_h0 = place_reals(at, p->ld);
    e->tau_h1 = place_reals(at, p->ld);
    e->field_v = place_reals(at, p->nv);
    e->edge_sums = crbm_place(at, groups_of(p->nv) * sizeof(double));
    e->thread_change = crbm_place(at, team * sizeof(double));
    w->change = crbm_place(at, sizeof(double));
    w->instance = crbm_place(at, sizeof(ptrdiff_t));
}

/* Arrays of one instance.  `conditional`: Gamma of the last iteration is made from P(v=1 | h=1), which may overwrite
 * the messages if nobody needs them afterwards. */
static size_t lay_edges(work *w, void *start, const crbm_run *run, int team, int conditional)
{
    const crbm_problem *p = &run->problem;
    const crbm_results *out = &run->results;
    const ptrdiff_t matrix = p->nv * p->ld, groups = groups_of(p->nv);
    uintptr_t at = (uintptr_t)start;
    edges *e = &w->edges;
    e->msg = out->state ? NULL : place_reals(&at, matrix);
    e->cond = !conditional                                    ? NULL
            : out->state || out->messages || out->log_z ? place_reals(&at, matrix)
                                                              : e->msg;
    e->part_length = e->scratch_length = p->ld;
    e->theta_v = NULL;
    e->kappa = e->relax = 0;
    e->part = place_reals(&at, groups * e->part_length);
    e->scratch = place_reals(&at, team * e->scratch_length);
    lay_rows(w, &at, run, team);
    return at - (uintptr_t)start;
}

/* What is done to one group of rows; returns the largest change. */
typedef double (*group_task)(crbm_run *run, work *w, crbm_rows *rows, ptrdiff_t group);

/* The i-th share of the groups: contiguous and always the same, so that a thread finds its rows in its own cache again.
 * Inlined with its task: in a model of 16x8 calls through pointers took 4 % of an iteration. */
ALWAYS_INLINE double share_of_groups(crbm_run *run, work *w, group_task task, int i)
{
    edges *e = &w->edges;
    const crbm_problem *p = &run->problem;
    const ptrdiff_t groups = groups_of(p->nv), ld = p->ld, n = w->instance[0];
    double change = 0;
    crbm_rows r = {
        .theta_h = e->theta_h, .tau_h0 = e->tau_h0, .tau_h1 = e->tau_h1, .nh = p->nh, .ld = ld,
        .max_weight = p->max_weight, .damping = run->options.damping, .track = e->track,
        .scratch = e->scratch + i * e->scratch_length, .kappa = e->kappa, .relax = e->relax,
    };
    for (ptrdiff_t g = i * groups / w->team; g < (i + 1) * groups / w->team; g++) {
        const ptrdiff_t first = g * CRBM_GROUP;
        r.rows = smaller(CRBM_GROUP, p->nv - first);
        r.msg = e->msg ? e->msg + first * ld : NULL;
        r.theta_v = e->theta_v ? e->theta_v + first : NULL;
        r.weight = (const real *)p->weight + first * ld;
        r.b1 = (const real *)p->b1 + n * p->nv + first;
        r.field_v = e->field_v + first;
        r.tau_v = (real *)run->results.tau_v + n * p->nv + first;
        r.part = e->part + g * e->part_length;
        r.cond = e->fill_cond ? e->cond + first * ld : NULL;
        change = larger(change, task(run, w, &r, g));
    }
    return change;
}

typedef struct group_share {
    crbm_run *run;
    work *w;
    group_task task;
} group_share;

static void take_share(void *argument, int i, int present)
{
    const group_share *share = argument;
    (void)present;
    share->w->edges.thread_change[i] = share_of_groups(share->run, share->w, share->task, i);
}

/* Do a task for all groups of the instance, by the worker's team; returns the largest change. */
ALWAYS_INLINE double all_groups(crbm_run *run, work *w, group_task task)
{
    group_share share = {run, w, task};
    double change = 0;
    if (w->team == 1)
        return share_of_groups(run, w, task, 0);
    run->host.in_parallel(take_share, &share, w->team);
    for (int i = 0; i < w->team; i++)
        change = larger(change, w->edges.thread_change[i]);
    return change;
}

/* Where the Gamma of a group of rows goes. */
static void *gamma_of_group(const crbm_run *run, const work *w, ptrdiff_t g)
{
    const crbm_problem *p = &run->problem;
    const ptrdiff_t instance = run->options.gamma == CRBM_GAMMA_SUM ? 0 : w->instance[0];
    return (real *)run->results.gamma + (instance * p->nv + g * CRBM_GROUP) * p->nh;
}

/* Make or add Gamma of the instance by the task, unless it is deferred.  Added in the order of the instances, which are taken in order: who has
 * the lowest number never waits. */
ALWAYS_INLINE void add_gamma(crbm_run *run, work *w, group_task task, int deferred)
{
    if (run->options.gamma == CRBM_GAMMA_SUM)
        while (crbm_look(&run->turn) != w->instance[0] && !crbm_flag(&run->cancel)) {
            if (w->caller && run->host.poll)
                run->host.poll(run);
            crbm_pause();
        }
    if (run->options.gamma != CRBM_GAMMA_NONE && !crbm_flag(&run->cancel)) {
        if (!deferred)
            all_groups(run, w, task);
        crbm_take(&run->turn);
    }
}

/* part := sums of the messages that a run starts from. */
static double sum_given(crbm_run *run, work *w, crbm_rows *r, ptrdiff_t g)
{
    const crbm_kernels *k = run->problem.k;
    (void)w, (void)g;
    (run->problem.form == CRBM_PLAIN ? k->log_messages : k->sum_messages)(r);
    return 0;
}

/* The change that a sweep of these rows has made.  Given messages come without an earlier tau_v to compare with.  In a
 * first iteration, and with damping, saturated beliefs may rest while messages move: there the messages must not move
 * either. */
static double change_of(const crbm_run *run, const edges *e, const crbm_rows *r)
{
    double change = e->blind ? 0 : r->belief_change / (1 - run->options.damping);
    if (e->track || run->options.damping > 0)
        change = larger(change, r->message_change);
    return change;
}

static void begin_edges(crbm_run *run, work *w, ptrdiff_t first, ptrdiff_t m)
{
    const crbm_problem *p = &run->problem;
    const crbm_options *o = &run->options;
    const crbm_kernels *k = p->k;
    const ptrdiff_t nv = p->nv, nh = p->nh, ld = p->ld, n = first;
    const int warm = o->resume || o->init;
    edges *e = &w->edges;
    (void)m;
    w->instance[0] = n;
    e->track = e->blind = e->fill_cond = 0;
    if (run->results.state)
        e->msg = (real *)run->results.state + n * nv * ld;
    if (o->init)
        k->pad(e->msg, (const real *)o->init + n * nv * nh, nv, nh, ld, p->form);
    else if (!o->resume)
        k->fill(e->msg, p->form == CRBM_EXP ? 1 : 0, nv * ld);        /* M = 0.5 */
    k->logistic_step((real *)run->results.tau_v + n * nv, (const real *)p->b1 + n * nv, 1, 0, nv);
    k->fill(e->tau_h1, 0.5, ld);
    if (warm && !o->summed)
        all_groups(run, w, sum_given);
    k->close_h(e->theta_h, e->tau_h0, e->tau_h1, (const real *)p->b2 + n * nh, e->part, warm ? groups_of(nv) : 0, nh, ld);
}

/* One iteration: all h -> v and v -> h messages, group by group, then the new tau_h. */
ALWAYS_INLINE void iterate_edges(crbm_run *run, work *w, ptrdiff_t t, group_task sweep)
{
    const crbm_problem *p = &run->problem;
    const crbm_options *o = &run->options;
    const int warm = o->resume || o->init;
    edges *e = &w->edges;
    e->track = t == 1 && run->results.residual && (warm || o->tol > 0 || o->max_iter == 1);
    e->blind = t == 1 && warm;
    e->fill_cond = t == o->max_iter && e->cond;
    const double change = all_groups(run, w, sweep);
    const double change_h = p->k->close_h(e->theta_h, e->tau_h0, e->tau_h1, (const real *)p->b2 + w->instance[0] * p->nh,
                                          e->part, groups_of(p->nv), p->nh, p->ld);
    w->change[0] = larger(change, change_h / (1 - o->damping));
}

/* The results that every method with messages has. */
static void answer_edges(crbm_run *run, work *w)
{
    const crbm_problem *p = &run->problem;
    const ptrdiff_t n = w->instance[0], nh = p->nh;
    copy_reals((real *)run->results.tau_h + n * nh, w->edges.tau_h1, nh);
    if (run->results.messages)
        p->k->unpad((real *)run->results.messages + n * p->nv * nh, w->edges.msg, p->nv, nh, p->ld, p->form);
}

#endif /* CRBM_EDGES_H */
