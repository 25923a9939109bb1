/* solver.c: see solver.h. */
#define _POSIX_C_SOURCE 200809L        /* sync.h: the clock, beside -std=c11 */
#include <string.h>

#include "solver.h"
#include "sync.h"

static inline double larger(double a, double b) { return a > b ? a : b; }
static inline ptrdiff_t smaller(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

/* --- sum-product and max-product: messages -------------------------------------------------------------- */

size_t crbm_lay_slot(crbm_slot *s, void *start, const crbm_job *job, int team, int own_msg, int own_cond)
{
    const size_t row = job->ld * job->item, matrix = job->nv * row, groups = crbm_groups(job->nv);
    uintptr_t at = (uintptr_t)start;
    s->msg = own_msg ? crbm_place(&at, matrix) : NULL;
    s->cond = own_cond ? crbm_place(&at, matrix) : s->msg;
    s->part = crbm_place(&at, groups * row);
    s->theta_h = crbm_place(&at, row);
    s->tau_h0 = crbm_place(&at, row);
    s->tau_h1 = crbm_place(&at, row);
    s->field_v = crbm_place(&at, job->nv * job->item);
    s->scratch = crbm_place(&at, team * row);
    s->edges = crbm_place(&at, groups * sizeof(double));
    s->change = crbm_place(&at, team * sizeof(double));
    return at - (uintptr_t)start;
}

/* The shares are contiguous and always the same, so that a thread finds its rows in its own cache again. */
double crbm_work_groups(crbm_job *job, crbm_slot *s, ptrdiff_t n, int worker, int team, int task)
{
    const crbm_kernels *k = job->k;
    const int log_form = job->form == CRBM_PLAIN, add = job->gamma_mode == CRBM_GAMMA_SUM;
    const ptrdiff_t groups = crbm_groups(job->nv), item = job->item, ld = job->ld;
    double change = 0;
    crbm_rows r = {
        .theta_h = s->theta_h, .tau_h0 = s->tau_h0, .tau_h1 = s->tau_h1, .nh = job->nh, .ld = ld,
        .max_weight = job->max_weight, .damping = job->damping, .track = s->track,
        .scratch = s->scratch + worker * ld * item,
    };
    for (ptrdiff_t g = worker * groups / team; g < (worker + 1) * groups / team; g++) {
        const ptrdiff_t first = g * CRBM_GROUP;
        r.rows = smaller(CRBM_GROUP, job->nv - first);
        r.msg = s->msg + first * ld * item;
        r.weight = job->weight + first * ld * item;
        r.b1 = job->b1 + (n * job->nv + first) * item;
        r.field_v = s->field_v + first * item;
        r.tau_v = job->tau_v + (n * job->nv + first) * item;
        r.part = s->part + g * ld * item;
        r.cond = s->last && (task == CRBM_SWEEP || task == CRBM_GAMMA_FROM_COND) ? s->cond + first * ld * item : NULL;
        if (task == CRBM_SWEEP) {
            (job->method == CRBM_MAX_PRODUCT ? k->max_group : log_form ? k->log_group : k->sum_group)(&r);
            /* Given messages come without an earlier tau_v to compare with.  In a first iteration, and with damping,
             * saturated beliefs may rest while messages move: there the messages must not move either. */
            if (!s->blind)
                change = larger(change, r.belief_change / (1 - job->damping));
            if (s->track || job->damping > 0)
                change = larger(change, r.message_change);
        } else if (task == CRBM_RESUME) {
            (log_form ? k->log_messages : k->sum_messages)(&r);
        } else if (task == CRBM_EDGES) {
            s->edges[g] = (log_form ? k->log_edges : k->sum_edges)(&r);
        } else {
            const ptrdiff_t instance = add ? 0 : n;
            char *gamma = job->gamma + (instance * job->nv + first) * job->nh * item;
            if (task == CRBM_GAMMA_FROM_COND)
                k->gamma_cond(gamma, &r, add);
            else
                (log_form ? k->log_gamma : k->sum_gamma)(gamma, &r, add);
        }
    }
    return change;
}

static double all_groups(crbm_job *job, crbm_slot *s, ptrdiff_t n, int team, int task)
{
    return team == 1 ? crbm_work_groups(job, s, n, 0, 1, task) : job->share(job, s, n, team, task);
}

void crbm_solve(crbm_job *job, crbm_slot *s, ptrdiff_t n, int team, int caller)
{
    const crbm_kernels *k = job->k;
    const ptrdiff_t nv = job->nv, nh = job->nh, ld = job->ld, item = job->item, groups = crbm_groups(nv);
    const char *b2 = job->b2 + n * nh * item, *b1 = job->b1 + n * nv * item;
    const int warm = job->resume || job->init;
    ptrdiff_t t = 0;
    double change = 0;

    if (job->state)
        s->msg = job->state + n * nv * ld * item;
    if (job->init)
        k->pad(s->msg, job->init + n * nv * nh * item, nv, nh, ld, job->form);
    else if (!job->resume)
        k->fill(s->msg, job->form == CRBM_EXP ? 1 : 0, nv * ld);      /* M = 0.5 */
    k->logistic_step(job->tau_v + n * nv * item, b1, 1, 0, nv);
    k->fill(s->tau_h1, 0.5, ld);
    if (warm && !job->summed)
        all_groups(job, s, n, team, CRBM_RESUME);
    k->close_h(s->theta_h, s->tau_h0, s->tau_h1, b2, s->part, warm ? groups : 0, nh, ld);

    while (t < job->max_iter) {
        t++;
        s->track = t == 1 && job->residual && (warm || job->tol > 0 || job->max_iter == 1);
        s->blind = t == 1 && warm;
        s->last = t == job->max_iter && job->damping == 0 && job->gamma_mode != CRBM_GAMMA_NONE
            && job->method == CRBM_SUM_PRODUCT && s->cond;
        change = all_groups(job, s, n, team, CRBM_SWEEP);
        change = larger(change, k->close_h(s->theta_h, s->tau_h0, s->tau_h1, b2, s->part, groups, nh, ld)
                                / (1 - job->damping));
        if (caller)
            job->poll(job);
        if (crbm_flag(&job->cancel) || (job->tol > 0 && change <= job->tol))
            break;
    }
    job->n_iter[n] = t;
    job->converged[n] = change <= job->tol;
    if (job->residual)
        job->residual[n] = change;
    memcpy(job->tau_h + n * nh * item, s->tau_h1, nh * item);
    if (job->method == CRBM_SUM_PRODUCT) {
        if (job->log_z) {
            /* Bethe: sum_i log Z_i + sum_j log Z_j - sum_ij log Z_ij, all from the newest messages */
            all_groups(job, s, n, team, CRBM_EDGES);
            double log_z = k->node_sum(b1, s->field_v, nv) + k->softplus_sum(s->theta_h, nh);
            for (ptrdiff_t g = 0; g < groups; g++)
                log_z -= s->edges[g];
            job->log_z[n] = log_z;
        }
        if (job->gamma_mode == CRBM_GAMMA_SUM)
            /* Added in the order of the instances, which are taken in order: who has the lowest number never waits. */
            while (crbm_look(&job->turn) != n && !crbm_flag(&job->cancel)) {
                if (caller)
                    job->poll(job);
                crbm_pause();
            }
        if (job->gamma_mode != CRBM_GAMMA_NONE && !crbm_flag(&job->cancel)) {
            all_groups(job, s, n, team, s->last ? CRBM_GAMMA_FROM_COND : CRBM_GAMMA_FROM_MESSAGES);
            crbm_take(&job->turn);
        }
    }
    if (job->messages)
        k->unpad(job->messages + n * nv * nh * item, s->msg, nv, nh, ld, job->form);
}

/* --- mixed-product, mean field, TAP: fields ---------------------------------------------------------------- */

size_t crbm_lay_chunk(crbm_chunk *c, void *start, const crbm_job *job, ptrdiff_t size)
{
    const size_t v = size * job->nv * job->item, h = size * job->ld * job->item;
    uintptr_t at = (uintptr_t)start;
    c->b1 = crbm_place(&at, v);
    c->tau_v = crbm_place(&at, v);
    c->field_v = crbm_place(&at, v);
    c->theta_v = crbm_place(&at, v);
    c->sent = crbm_place(&at, v);
    c->extra_v = crbm_place(&at, v);
    c->b2 = crbm_place(&at, h);
    c->tau_h0 = crbm_place(&at, h);
    c->tau_h1 = crbm_place(&at, h);
    c->theta_h = crbm_place(&at, h);
    c->extra_h = crbm_place(&at, h);
    c->linear_h = crbm_place(&at, h);
    c->change = crbm_place(&at, size * sizeof(double));
    c->instance = crbm_place(&at, size * sizeof(ptrdiff_t));
    return at - (uintptr_t)start;
}

/* theta_h := b2 + sent W for m slots. */
static void fields_h(const crbm_job *job, crbm_chunk *c, ptrdiff_t m)
{
    memcpy(c->theta_h, c->b2, m * job->ld * job->item);
    job->to_h(job, c->theta_h, c->sent, job->W, 1, m);
}

/* Move what an instance carries from one iteration to the next. */
static void copy_slot(const crbm_job *job, crbm_chunk *c, ptrdiff_t to, ptrdiff_t from)
{
    const size_t v = job->nv * job->item, h = job->ld * job->item;
    memcpy(c->b1 + to * v, c->b1 + from * v, v);
    memcpy(c->tau_v + to * v, c->tau_v + from * v, v);
    memcpy(c->sent + to * v, c->sent + from * v, v);
    memcpy(c->b2 + to * h, c->b2 + from * h, h);
    memcpy(c->tau_h0 + to * h, c->tau_h0 + from * h, h);
    memcpy(c->tau_h1 + to * h, c->tau_h1 + from * h, h);
    memcpy(c->theta_h + to * h, c->theta_h + from * h, h);
    c->instance[to] = c->instance[from];
}

static double slot_log_z(const crbm_job *job, crbm_chunk *c, ptrdiff_t s)
{
    const crbm_kernels *k = job->k;
    const ptrdiff_t nv = job->nv, nh = job->nh, v = s * nv * job->item, h = s * job->ld * job->item;
    if (job->method == CRBM_MIXED_PRODUCT) {
        /* log sum_h exp(-E(v, h)) at the v found, which theta_v holds by now: -F(v), Eq. 4 */
        memcpy(c->linear_h + h, c->b2 + h, job->ld * job->item);
        job->to_h(job, c->linear_h + h, c->theta_v + v, job->W, 1, 1);
        return k->dot_free(c->b1 + v, c->theta_v + v, nv) + k->softplus_sum(c->linear_h + h, nh);
    }
    if (job->method == CRBM_MEAN_FIELD)
        /* the bound at tau_v and the tau_h that is best for it */
        return k->mean_sum(c->b1 + v, c->field_v + v, nv) + k->softplus_sum(c->linear_h + h, nh);
    /* TAP: entropies + b1 tau_v + (b2 + tau_v W) tau_h + 1/2 sum_ij W_ij^2 var_i var_j */
    k->variance(c->theta_h + h, c->tau_h1 + h, nh);
    return k->entropy_sum(c->tau_v + v, nv) + k->entropy_sum(c->tau_h1 + h, nh)
        + k->dot_free(c->b1 + v, c->tau_v + v, nv) + k->dot_free(c->linear_h + h, c->tau_h1 + h, nh)
        + 0.5 * k->dot_free(c->extra_h + h, c->theta_h + h, nh);
}

/* Write what slot s needs to go on: tau_v (for mixed-product what v sends) and tau_h. */
static void keep(const crbm_job *job, crbm_chunk *c, ptrdiff_t s, char *to)
{
    const size_t v = job->nv * job->item, h = job->nh * job->item;
    const char *visible = job->method == CRBM_MIXED_PRODUCT ? c->sent : c->tau_v;
    to += c->instance[s] * (v + h);
    memcpy(to, visible + s * v, v);
    memcpy(to + v, c->tau_h1 + s * job->ld * job->item, h);
}

/* Write the results of slot s, which has done t iterations. */
static void retire(const crbm_job *job, crbm_chunk *c, ptrdiff_t s, ptrdiff_t t)
{
    const ptrdiff_t n = c->instance[s], v = job->nv * job->item, h = job->nh * job->item;
    memcpy(job->tau_v + n * v, c->tau_v + s * v, v);
    memcpy(job->tau_h + n * h, c->tau_h1 + s * job->ld * job->item, h);
    job->n_iter[n] = t;
    job->residual[n] = c->change[s];
    job->converged[n] = c->change[s] <= job->tol;
    if (job->messages)
        keep(job, c, s, job->messages);
    if (job->state)
        keep(job, c, s, job->state);
    if (job->log_z)
        job->log_z[n] = slot_log_z(job, c, s);
}

/* Take instances first ... into the slots, from `init` or from the biases alone: tau_h = logistic(b2), or
 * tau_v = logistic(b1) and tau_h = logistic(b2 + tau_v W). */
static void enter(const crbm_job *job, crbm_chunk *c, ptrdiff_t first, ptrdiff_t m)
{
    const crbm_kernels *k = job->k;
    const ptrdiff_t nv = job->nv, nh = job->nh, ld = job->ld, item = job->item;
    k->fill(c->b2, 0, m * ld);
    k->fill(c->tau_h0, 0.5, m * ld);
    k->fill(c->tau_h1, 0.5, m * ld);
    for (ptrdiff_t s = 0; s < m; s++) {
        const ptrdiff_t v = s * nv * item, h = s * ld * item;
        c->instance[s] = first + s;
        memcpy(c->b1 + v, job->b1 + (first + s) * nv * item, nv * item);
        memcpy(c->b2 + h, job->b2 + (first + s) * nh * item, nh * item);
        if (!job->init) {
            k->logistic_step(c->tau_v + v, c->b1 + v, 1, 0, nv);
            k->logistic_step(c->tau_h1 + h, c->b2 + h, 1, 0, nh);
            k->fill(c->sent + v, 0, nv);                                  /* M = 0.5 */
        } else {
            const char *init = job->init + (first + s) * (nv + nh) * item;
            memcpy(c->tau_v + v, init, nv * item);
            memcpy(c->sent + v, init, nv * item);
            memcpy(c->tau_h1 + h, init + nv * item, nh * item);
        }
    }
    if (job->method == CRBM_MIXED_PRODUCT) {
        /* what v sends is all there is to start from; fractions, of a damped run, are for a damped one */
        if (job->damping == 0)
            k->decode(c->sent, c->sent, 0.5, m * nv);
        fields_h(job, c, m);
        for (ptrdiff_t s = 0; s < m; s++) {
            const ptrdiff_t h = s * ld * item;
            k->logistic_step(c->tau_h1 + h, c->theta_h + h, 1, 0, nh);
            k->logistic_step(c->tau_h0 + h, c->theta_h + h, -1, 0, nh);
        }
    } else if (job->visible_first && !job->init) {
        memcpy(c->sent, c->tau_v, m * nv * item);
        fields_h(job, c, m);
        for (ptrdiff_t s = 0; s < m; s++)
            k->logistic_step(c->tau_h1 + s * ld * item, c->theta_h + s * ld * item, 1, 0, nh);
    }
}

/* hidden -> visible, Eq. 16 or the mean field's: theta_v := b1 + field_v, the new tau_v and what v sends. */
static void to_visible(const crbm_job *job, crbm_chunk *c, ptrdiff_t m, int first_iteration)
{
    const crbm_kernels *k = job->k;
    const ptrdiff_t nv = job->nv, ld = job->ld, item = job->item;
    if (job->method != CRBM_MIXED_PRODUCT)
        job->to_v(job, c->field_v, c->tau_h1, job->W, m);
    else if (job->form == CRBM_EXP)
        for (ptrdiff_t s = 0; s < m; s += 8)        /* 8 instances: their tau_h stay in the first-level cache */
            k->mixed_field(c->field_v + s * nv * item, job->weight, job->row_sum, c->sent + s * nv * item,
                           c->tau_h0 + s * ld * item, c->tau_h1 + s * ld * item, smaller(m - s, 8), nv, ld,
                           job->max_weight);
    else
        k->mixed_field_log(c->field_v, job->weight, c->sent, c->theta_h, m, nv, ld);
    if (job->method == CRBM_TAP) {
        /* reaction_v = var_h (W^2)' */
        k->variance(c->extra_h, c->tau_h1, m * ld);
        job->to_v(job, c->extra_v, c->extra_h, job->squares, m);
        k->onsager(c->field_v, c->extra_v, c->tau_v, m * nv);
    }
    k->add(c->theta_v, c->b1, c->field_v, m * nv);
    for (ptrdiff_t s = 0; s < m; s++)
        c->change[s] = k->logistic_step(c->tau_v + s * nv * item, c->theta_v + s * nv * item, 1, 0, nv);
    if (job->method != CRBM_MIXED_PRODUCT) {
        for (ptrdiff_t s = 0; s < m; s++)
            c->change[s] /= 1 - job->damping;
        memcpy(c->sent, c->tau_v, m * nv * item);
        return;
    }
    /* a state that flips sends another message, however little tau_v has moved */
    k->decode(c->theta_v, c->theta_v, 0, m * nv);
    for (ptrdiff_t s = 0; s < m; s++) {
        const ptrdiff_t v = s * nv * item;
        if (first_iteration && job->init)
            c->change[s] = 0;        /* there was no tau_v before */
        c->change[s] = larger(c->change[s] / (1 - job->damping), k->max_change(c->theta_v + v, c->sent + v, nv));
    }
    k->blend(c->sent, c->theta_v, 1 - job->damping, m * nv);
}

/* visible -> hidden, Eq. 17: theta_h and the new tau_h. */
static void to_hidden(const crbm_job *job, crbm_chunk *c, ptrdiff_t m)
{
    const crbm_kernels *k = job->k;
    const ptrdiff_t nv = job->nv, nh = job->nh, ld = job->ld, item = job->item;
    const int mixed = job->method == CRBM_MIXED_PRODUCT;
    fields_h(job, c, m);
    memcpy(c->linear_h, c->theta_h, m * ld * item);
    if (job->method == CRBM_TAP) {
        /* reaction_h = var_v W^2 */
        k->variance(c->extra_v, c->tau_v, m * nv);
        k->fill(c->extra_h, 0, m * ld);
        job->to_h(job, c->extra_h, c->extra_v, job->squares, 0, m);
        k->onsager(c->theta_h, c->extra_h, c->tau_h1, m * ld);
    }
    for (ptrdiff_t s = 0; s < m; s++) {
        const ptrdiff_t h = s * ld * item;
        const double change = k->logistic_step(c->tau_h1 + h, c->theta_h + h, 1, mixed ? 0 : job->damping, nh);
        if (mixed)
            k->logistic_step(c->tau_h0 + h, c->theta_h + h, -1, 0, nh);
        c->change[s] = larger(c->change[s], change / (1 - job->damping));
    }
}

void crbm_solve_chunk(crbm_job *job, crbm_chunk *c, ptrdiff_t first, ptrdiff_t m, int caller)
{
    enter(job, c, first, m);
    for (ptrdiff_t t = 1; t <= job->max_iter && m > 0; t++) {
        to_visible(job, c, m, t == 1);
        to_hidden(job, c, m);
        if (caller)
            job->poll(job);
        if (crbm_flag(&job->cancel))
            return;
        if (t == job->max_iter) {
            for (ptrdiff_t s = 0; s < m; s++)
                retire(job, c, s, t);
        } else if (job->tol > 0) {
            for (ptrdiff_t s = m - 1; s >= 0; s--)      /* downwards: the slot that moves has been looked at */
                if (c->change[s] <= job->tol) {
                    retire(job, c, s, t);
                    if (s < --m)
                        copy_slot(job, c, s, m);
                }
        }
    }
}

/* --- Gibbs --------------------------------------------------------------------------------------------------- */

void crbm_sample_chunk(crbm_job *job, crbm_draws *d, crbm_chunk *c, ptrdiff_t first, ptrdiff_t m, int caller)
{
    const crbm_kernels *k = job->k;
    const ptrdiff_t nv = job->nv, nh = job->nh, ld = job->ld, item = job->item;
    memcpy(c->b1, job->b1 + first * nv * item, m * nv * item);
    memcpy(c->sent, d->v + first * nv * item, m * nv * item);
    k->fill(c->b2, 0, m * ld);
    k->fill(c->tau_h1, 0, m * ld);
    for (ptrdiff_t s = 0; s < m; s++)
        memcpy(c->b2 + s * ld * item, job->b2 + (first + s) * nh * item, nh * item);
    for (ptrdiff_t t = 0; t < d->n_steps; t++) {
        const uint32_t draw = (uint32_t)(2 * (d->step + (uint64_t)t));
        if (t == 0 && d->theta_h)
            for (ptrdiff_t s = 0; s < m; s++)
                memcpy(c->theta_h + s * ld * item, d->theta_h + (first + s) * nh * item, nh * item);
        else
            fields_h(job, c, m);
        for (ptrdiff_t s = 0; s < m; s++)
            k->bernoulli(c->tau_h1 + s * ld * item, c->theta_h + s * ld * item, d->seed,
                         d->instance + (uint64_t)(first + s), draw, nh);
        job->to_v(job, c->field_v, c->tau_h1, job->W, m);
        k->add(c->theta_v, c->b1, c->field_v, m * nv);
        for (ptrdiff_t s = 0; s < m; s++)
            k->bernoulli(c->sent + s * nv * item, c->theta_v + s * nv * item, d->seed,
                         d->instance + (uint64_t)(first + s), draw + 1, nv);
        if (caller)
            job->poll(job);
        if (crbm_flag(&job->cancel))
            return;
    }
    memcpy(d->v + first * nv * item, c->sent, m * nv * item);
    for (ptrdiff_t s = 0; s < m; s++)
        memcpy(d->h + (first + s) * nh * item, c->tau_h1 + s * ld * item, nh * item);
}
