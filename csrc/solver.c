/* solver.c: the loop over a method, and the work of a run shared among threads; see solver.h.
 *
 *   solve -> workers -> solve_instances: begin, iterate until finished, answer
 *         -> finish:    what is made for the whole batch at once
 *
 * Compiled once per real type: -DCRBM_REAL=32 or 64 exports crbm_solver_32 or crbm_solver_64.
 *
 * Work is cut into pieces that do not depend on the number of threads -- instances, groups of rows, chunks of instances,
 * blocks of rows of Gamma -- and partial sums are added in the order of the pieces, so results have the same bits for any
 * number.  Worker 0 is the calling thread; it polls its host from time to time.
 */
#define _POSIX_C_SOURCE 200809L        /* sync.h: the clock, beside -std=c11 */
#include "solver.h"

#include "gibbs.h"
#define CRBM_DEFINE_METHODS
#include "methods/list.h"

/* From this many edges on, even a batch is solved one RBM after the other, its rows shared by the threads:
 * the working set stays that of one RBM, and worker 0 sees every iteration (and so Ctrl-C). */
static const ptrdiff_t LARGE = (ptrdiff_t)1 << 22;
/* Below this many edges the rows of one RBM are not shared: a sweep takes 150 microseconds, and where another
 * process has one of the cores, waiting for that thread takes milliseconds. */
static const ptrdiff_t SMALL = (ptrdiff_t)1 << 19;
/* Below this many edges in the whole batch one thread does it all, within a millisecond or so: where another process
 * has one of the cores, waiting for that thread takes longer than the work. */
static const ptrdiff_t SMALL_EDGES = (ptrdiff_t)1 << 18;
static const ptrdiff_t SMALL_FIELDS = (ptrdiff_t)1 << 20;

/* --- who does what ---------------------------------------------------------------------------------------------- */

typedef struct plan {
    ptrdiff_t size;           /* instances that a worker takes at a time                                         */
    int workers;              /* threads that take instances                                                     */
    int team;                 /* threads that share the rows of an instance                                      */
} plan;

static int threads_for(const crbm_run *run, ptrdiff_t small)
{
    const crbm_problem *p = &run->problem;
    return p->N * p->nv * p->nh < small ? 1 : run->host.n_threads;
}

/* Instances in chunks of a quarter of the batch, at least 20, at most 64.  Products want many rows (mean field on 100
 * instances: 20 ms in eighths, 14 ms in quarters), threads many chunks. */
static plan plan_chunks(const crbm_run *run)
{
    const ptrdiff_t N = run->problem.N, quarter = (N + 3) / 4, most = smaller(64, N);
    const ptrdiff_t size = smaller(most, quarter < 20 ? 20 : quarter), chunks = size ? (N + size - 1) / size : 0;
    const int threads = (int)smaller(threads_for(run, SMALL_FIELDS), chunks);
    return (plan){size, threads > 1 ? threads : 1, 1};
}

/* Instances one by one: each by a thread, or where they are large, or few, all threads on the rows of each. */
static plan plan_edges(const crbm_run *run)
{
    const crbm_problem *p = &run->problem;
    const ptrdiff_t rbm = p->nv * p->nh, groups = groups_of(p->nv);
    const int threads = threads_for(run, SMALL_EDGES);
    if (rbm >= LARGE || (p->N < 4 * threads && rbm >= SMALL))
        return (plan){1, 1, (int)(threads > groups ? (groups > 1 ? groups : 1) : threads)};
    return (plan){1, (int)smaller(threads, p->N), 1};
}

static const method *method_of(const crbm_run *run) { return (const method *)run->method; }

/* Whether the method has results to make for the whole batch; how many arrays that takes. */
static int finishes(const crbm_run *run, int *v, int *h)
{
    return method_of(run)->finishes && method_of(run)->finishes(run, v, h);
}

static plan plan_of(const crbm_run *run) { return method_of(run)->together ? plan_chunks(run) : plan_edges(run); }

/* --- memory: the workers, the scratch of each, what is kept for the whole batch ------------------------------------- */

typedef struct layout {
    work *workers;
    char *scratch;            /* (workers, each); where it is does not depend on the results asked for            */
    kept batch;
    size_t each;
    size_t bytes;             /* of the whole                                                                    */
} layout;

static layout lay_out(const crbm_run *run, plan plan, void *workspace)
{
    const method *method = method_of(run);
    const crbm_problem *p = &run->problem;
    uintptr_t at = (uintptr_t)workspace;
    layout l = {0};
    work one;
    int v, h;
    l.workers = crbm_place(&at, plan.workers * sizeof(work));
    l.each = (method ? method->lay : lay_fields)(&one, NULL, run, plan.size, plan.team);
    l.scratch = crbm_place(&at, plan.workers * l.each);
    if (method && finishes(run, &v, &h)) {
        for (int i = 0; i < v; i++)
            l.batch.v[i] = place_reals(&at, p->N * p->nv);
        for (int i = 0; i < h; i++)
            l.batch.h[i] = place_reals(&at, p->N * p->nh);
    }
    l.bytes = at - (uintptr_t)workspace;
    return l;
}

/* --- the loop ------------------------------------------------------------------------------------------------------- */

/* Iterate on the instances first ... first + m - 1 until each has converged or done max_iter iterations. */
static void solve_instances(crbm_run *run, work *w, const kept *batch, ptrdiff_t first, ptrdiff_t m)
{
    const method *method = method_of(run);
    const crbm_options *o = &run->options;
    crbm_results *out = &run->results;
    method->begin(run, w, first, m);
    for (ptrdiff_t t = 1; m > 0; t++) {
        method->iterate(run, w, m, t);
        if (w->caller && run->host.poll)
            run->host.poll(run);
        if (crbm_flag(&run->cancel))
            return;
        for (ptrdiff_t s = m - 1; s >= 0; s--) {        /* downwards: the slot that moves has been looked at */
            const ptrdiff_t n = w->instance[s];
            const int converged = w->change[s] <= o->tol;
            if (t < o->max_iter && !(converged && o->tol > 0))
                continue;
            out->n_iter[n] = t;
            out->converged[n] = (char)converged;
            if (out->residual)
                out->residual[n] = w->change[s];
            method->answer(run, w, batch, s);
            if (s < --m)
                method->move(run, w, s, m);
        }
    }
}

typedef struct shared_run {
    crbm_run *run;
    const crbm_draws *draws;  /* sample, or NULL: solve                                                          */
    plan plan;
    layout memory;
} shared_run;

static void wait_for_others(crbm_run *run, int workers, int present)
{
    if (present < workers)        /* the others come after this one, on the same threads */
        return;
    while (crbm_look(&run->idle) < workers && !crbm_flag(&run->cancel)) {
        if (run->host.poll)
            run->host.poll(run);
        crbm_pause();
    }
}

/* What worker i does: take instances until none is left. */
static void take_instances(void *argument, int i, int present)
{
    const shared_run *c = argument;
    crbm_run *run = c->run;
    const ptrdiff_t N = run->problem.N, size = c->plan.size;
    work *w = &c->memory.workers[i];
    (run->method ? method_of(run)->lay : lay_fields)(w, c->memory.scratch + i * c->memory.each, run, size, c->plan.team);
    w->team = c->plan.team;
    w->caller = i == 0;
    for (;;) {
        const ptrdiff_t first = crbm_take(&run->next) * size;
        if (first >= N || crbm_flag(&run->cancel))
            break;
        if (c->draws)
            sample_instances(run, w, c->draws, first, smaller(size, N - first));
        else
            solve_instances(run, w, &c->memory.batch, first, smaller(size, N - first));
    }
    crbm_take(&run->idle);
    if (i == 0)
        wait_for_others(run, c->plan.workers, present);
}

static void run_workers(shared_run *c)
{
    if (c->plan.workers == 1)
        take_instances(c, 0, 1);
    else
        c->run->host.in_parallel(take_instances, c, c->plan.workers);
}

/* --- the interface -------------------------------------------------------------------------------------------------- */

static void prepare(const crbm_problem *p, int need, void *out)
{
    if (need == CRBM_NEEDS_WEIGHT)
        p->k->pad(out, p->W, p->nv, p->nh, p->ld, p->form);
    else if (need == CRBM_NEEDS_ROW_SUM)
        p->k->row_sums(out, p->W, p->nv, p->nh);
    else
        p->k->squares(out, p->W, p->nv * p->nh);
}

static size_t prepared_bytes(const crbm_problem *p, int need)
{
    const ptrdiff_t columns = need == CRBM_NEEDS_WEIGHT ? p->ld : need == CRBM_NEEDS_ROW_SUM ? 1 : p->nh;
    return crbm_lines((size_t)(p->nv * columns) * sizeof(real));
}

static size_t solve_workspace(const crbm_run *run) { return lay_out(run, plan_of(run), NULL).bytes; }

static int uses_products(const crbm_run *run)
{
    int v, h;
    return method_of(run)->together || finishes(run, &v, &h);
}

static void solve(crbm_run *run, void *workspace)
{
    const plan plan = plan_of(run);
    shared_run c = {run, NULL, plan, lay_out(run, plan, workspace)};
    int v, h;
    run_workers(&c);
    if (finishes(run, &v, &h) && !crbm_flag(&run->cancel))
        method_of(run)->finish(run, &c.memory.batch, threads_for(run, SMALL_FIELDS));
}

static size_t sampling_workspace(const crbm_run *run) { return lay_out(run, plan_chunks(run), NULL).bytes; }

static void sample(crbm_run *run, const crbm_draws *draws, void *workspace)
{
    const plan plan = plan_chunks(run);
    shared_run c = {run, draws, plan, lay_out(run, plan, workspace)};
    run_workers(&c);
}

static int all_states(const void *x, ptrdiff_t n)
{
    int bad = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const real s = ((const real *)x)[i];
        bad |= !(s == 0 || s == 1);
    }
    return !bad;
}

static int all_biases(const void *x, double limit, ptrdiff_t n)
{
    int bad = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double b = fabs((double)((const real *)x)[i]);
        bad |= !(b <= limit) & (b != INFINITY);
    }
    return !bad;
}

#define CRBM_JOIN_(bits) crbm_solver_##bits
#define CRBM_JOIN(bits) CRBM_JOIN_(bits)

extern const crbm_solver CRBM_JOIN(CRBM_REAL);
const crbm_solver CRBM_JOIN(CRBM_REAL) = {
    .methods = {
#define CRBM_ENTRY(method) [CRBM_METHOD_##method] = &method.about,
        CRBM_METHODS(CRBM_ENTRY)
#undef CRBM_ENTRY
    },
    .prepare = prepare,
    .prepared_bytes = prepared_bytes,
    .workspace = solve_workspace,
    .uses_products = uses_products,
    .solve = solve,
    .sampling_workspace = sampling_workspace,
    .sample = sample,
    .sample_h = sample_h,
    .sample_v = sample_v,
    .free_energy = free_energy,
    .all_states = all_states,
    .all_biases = all_biases,
};

#if CRBM_REAL == 32
extern const crbm_solver crbm_solver_64;
const crbm_solver *crbm_solver_for(int itemsize) { return itemsize == 4 ? &crbm_solver_32 : &crbm_solver_64; }
#endif
