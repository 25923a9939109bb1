/* embed.c: solver.c for other programs: a caller's memory, checked arguments, status codes.
 *
 *   workspace:  head | exp(W) | odds | W | row sums | messages | units | scratch of combine_rows | two workspaces of the solver
 *
 * Nothing in a workspace points into it: its head has offsets, so that it can be copied.
 */
#define _POSIX_C_SOURCE 200809L        /* sync.h: the clock, beside -std=c11 */
#include <math.h>
#include <string.h>

#include "embed.h"
#include "solver.h"
#include "sync.h"

_Static_assert(CRBM_FAST_ALIGN == CRBM_ALIGN, "one alignment");
const crbm_kernels *(*crbm_embed_kernels)(int itemsize);

/* Says that a workspace has been initialised, by this library, in this process: one from a file or from another process
 * would have kernels at addresses that mean nothing here. */
static uint64_t magic(void) { return UINT64_C(0x63726d625f312e30) ^ (uint64_t)(uintptr_t)&crbm_embed_api; }

/* The largest weight or bias: sums over 10^8 of them are finite, so no NaN can arise (as in _validation.py). */
static double limit(int dtype) { return dtype == CRBM_FAST_FLOAT32 ? 1e30 : 1e300; }

/* The solver's number of a method of this interface. */
static const int methods[] = {
    [CRBM_FAST_SUM_PRODUCT] = CRBM_METHOD_sum_product,
    [CRBM_FAST_MAX_PRODUCT] = CRBM_METHOD_max_product,
    [CRBM_FAST_MIXED_PRODUCT] = CRBM_METHOD_mixed_product,
    [CRBM_FAST_BETHE] = CRBM_METHOD_bethe,
};
enum { n_methods = sizeof methods / sizeof methods[0] };

/* Where everything is, in bytes from the beginning. */
typedef struct {
    size_t weight[3];         /* (nv, ld) in each of enum crbm_form                                               */
    size_t row_sum;           /* (nv,)                                                                           */
    size_t messages;          /* (nv, ld) what sum-product and max-product go on from                            */
    size_t units;             /* (nv + nh,) what mixed-product and bethe go on from                              */
    size_t values;            /* (nv,) scratch of combine_rows, and the next                                     */
    size_t index;
    size_t edges;             /* workspace of a run with messages; it keeps their sums                           */
    size_t fields;            /* workspace of a run with fields, and of sampling                                 */
    size_t bytes;             /* of the whole                                                                    */
} places;

typedef struct {
    uint64_t magic;
    const crbm_kernels *k;
    ptrdiff_t nv, nh;
    double max_weight;
    places at;
    int busy;                 /* 1 while a function works                                                        */
    int kept;                 /* the method whose messages are there, or -1                                      */
} head;

static crbm_run new_run(ptrdiff_t nv, ptrdiff_t nh, int dtype)
{
    crbm_run run = {0};
    const ptrdiff_t ld = crbm_padded(nh, dtype);
    run.problem = (crbm_problem){.N = 1, .nv = nv, .nh = nh, .ld = ld, .ldw = ld};
    run.host.n_threads = 1;
    return run;
}

/* Bytes that a run of a method takes with all its results. */
static size_t room(crbm_run run, int method, int dtype)
{
    double log_z;
    run.method = crbm_solver_for(dtype)->methods[method];
    run.options.gamma = CRBM_GAMMA_EACH;
    run.options.gamma_from_messages = 1;
    run.results.log_z = &log_z;
    run.results.state = &log_z;
    return crbm_solver_for(dtype)->workspace(&run);
}

static places lay_out(ptrdiff_t nv, ptrdiff_t nh, int dtype)
{
    const crbm_run run = new_run(nv, nh, dtype);
    const size_t item = (size_t)dtype, matrix = nv * run.problem.ld * item;
    size_t edges = 0, fields = crbm_solver_for(dtype)->sampling_workspace(&run);
    uintptr_t at = 0;
    places p;
    for (int i = 0; i < n_methods; i++) {
        size_t *most = crbm_solver_for(dtype)->methods[methods[i]]->state == CRBM_STATE_EDGES ? &edges : &fields;
        const size_t bytes = room(run, methods[i], dtype);
        *most = bytes > *most ? bytes : *most;
    }
    crbm_place(&at, sizeof(head));
    for (int form = 0; form < 3; form++)
        p.weight[form] = (size_t)crbm_place(&at, matrix);
    p.row_sum = (size_t)crbm_place(&at, nv * item);
    p.messages = (size_t)crbm_place(&at, matrix);
    p.units = (size_t)crbm_place(&at, (nv + nh) * item);
    p.values = (size_t)crbm_place(&at, nv * item);
    p.index = (size_t)crbm_place(&at, nv * sizeof(int32_t));
    p.edges = (size_t)crbm_place(&at, edges);
    p.fields = (size_t)crbm_place(&at, fields);
    p.bytes = at;
    return p;
}

static int check_sizes(ptrdiff_t nv, ptrdiff_t nh, int dtype)
{
    if (dtype != CRBM_FAST_FLOAT32 && dtype != CRBM_FAST_FLOAT64)
        return CRBM_FAST_BAD_DTYPE;
    /* rows are counted in int32; the whole, 4 padded matrices and less than 64 rows and columns more, in ptrdiff_t */
    if (nv < 0 || nh < 0 || nv > INT32_MAX - 1024 || nh > INT32_MAX - 1024
        || nv + 64 > PTRDIFF_MAX / (5 * 8) / (nh + 1024))
        return CRBM_FAST_BAD_SIZE;
    return CRBM_FAST_OK;
}

static ptrdiff_t workspace_size(ptrdiff_t nv, ptrdiff_t nh, int dtype)
{
    const int bad = check_sizes(nv, nh, dtype);
    return bad ? bad : (ptrdiff_t)lay_out(nv, nh, dtype).bytes;
}

/* Is there an array of items of that size? */
static int check_array(const void *x, size_t item)
{
    return !x ? CRBM_FAST_NULL_POINTER : (uintptr_t)x % item ? CRBM_FAST_MISALIGNED : CRBM_FAST_OK;
}

static int check_finite(const crbm_kernels *k, const void *x, ptrdiff_t n)
{
    return k->first_beyond(x, limit(k->itemsize), n) < 0 ? CRBM_FAST_OK : CRBM_FAST_NOT_FINITE;
}

/* b1: as check_finite, but infinities clamp. */
static int check_visible(const crbm_kernels *k, const void *b1, ptrdiff_t n)
{
    return crbm_solver_for(k->itemsize)->all_biases(b1, limit(k->itemsize), n) ? CRBM_FAST_OK : CRBM_FAST_NOT_FINITE;
}

static int check_states(const crbm_kernels *k, const void *x, ptrdiff_t n)
{
    return crbm_solver_for(k->itemsize)->all_states(x, n) ? CRBM_FAST_OK : CRBM_FAST_NOT_BINARY;
}

#define TRY(call)                            \
    do {                                     \
        const int status_ = (call);          \
        if (status_ < 0)                     \
            return status_;                  \
    } while (0)

static int init(void *workspace, size_t size, const void *W, ptrdiff_t nv, ptrdiff_t nh, int dtype)
{
    TRY(check_sizes(nv, nh, dtype));
    const crbm_kernels *k = crbm_embed_kernels(dtype);
    const crbm_solver *solver = crbm_solver_for(dtype);
    const places at = lay_out(nv, nh, dtype);
    crbm_run run = new_run(nv, nh, dtype);
    char *start = workspace;
    head *w = workspace;
    TRY(check_array(workspace, CRBM_ALIGN));
    TRY(check_array(W, (size_t)dtype));
    if (size < at.bytes)
        return CRBM_FAST_TOO_SMALL;
    TRY(check_finite(k, W, nv * nh));
    *w = (head){
        .magic = magic(), .k = k, .nv = nv, .nh = nh, .max_weight = k->max_abs(W, nv * nh), .at = at, .kept = -1,
    };
    run.problem.k = k, run.problem.W = W, run.problem.ldw = nh, run.problem.max_weight = w->max_weight;
    for (int i = 0, made = 0; i < n_methods; i++) {        /* the forms that methods ask for with these weights */
        const int form = run.problem.form = solver->methods[methods[i]]->form(&run.problem, &run.options);
        if (!(made & 1 << form))
            solver->prepare(&run.problem, CRBM_NEEDS_WEIGHT, start + at.weight[form]);
        made |= 1 << form;
    }
    solver->prepare(&run.problem, CRBM_NEEDS_ROW_SUM, start + at.row_sum);
    return CRBM_FAST_OK;
}

/* The host's products, without BLAS: those with a vector of states, mostly zeros, and W, or with W transposed. */
static void product(const crbm_run *run, int transpose_a, int transpose_b, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k,
                    const void *A, ptrdiff_t lda, const void *B, ptrdiff_t ldb, double beta, void *C, ptrdiff_t ldc)
{
    const crbm_kernels *kernels = run->problem.k;
    char *workspace = run->host.context;
    const places *at = &((head *)workspace)->at;
    const ptrdiff_t item = kernels->itemsize;
    (void)transpose_a;        /* is for sums over a batch */
    for (ptrdiff_t r = 0; r < m; r++) {
        const char *a = (const char *)A + r * lda * item;
        char *c = (char *)C + r * ldc * item;
        if (transpose_b)
            kernels->dot_rows(c, B, a, n, ldb);
        else
            kernels->combine_rows(c, a, 1, B, ldb, beta, workspace + at->values, (int32_t *)(workspace + at->index), k, n);
    }
}

/* Check and lock a workspace, and begin a run in it. */
static int lock(void *workspace, crbm_run *run)
{
    char *start = workspace;
    head *w = workspace;
    TRY(check_array(workspace, CRBM_ALIGN));
    if (w->magic != magic())
        return CRBM_FAST_NOT_INITIALISED;
    if (crbm_exchange(&w->busy, 1))
        return CRBM_FAST_BUSY;
    *run = new_run(w->nv, w->nh, w->k->itemsize);
    run->problem.k = w->k;
    run->problem.max_weight = w->max_weight;
    run->problem.W = start + w->at.weight[CRBM_PLAIN];
    run->problem.row_sum = start + w->at.row_sum;
    run->host.product = product;
    run->host.context = workspace;
    return CRBM_FAST_OK;
}

static int unlock(void *workspace, int status)
{
    crbm_exchange(&((head *)workspace)->busy, 0);
    return status;
}

static const crbm_solver *solver_of(const crbm_run *run) { return crbm_solver_for(run->problem.k->itemsize); }

/* --- the functions, between lock and unlock ------------------------------------------------------------------ */

static int do_run(void *workspace, crbm_run *run, crbm_fast_info *info, int resume, int log_z_wanted)
{
    char *start = workspace;
    head *w = workspace;
    const int edges = run->method->state == CRBM_STATE_EDGES;
    int64_t n_iter;
    char converged;
    double residual = NAN, log_z = NAN;
    run->problem.form = run->method->form(&run->problem, &run->options);
    run->problem.weight = start + w->at.weight[run->problem.form];
    run->options.gamma = run->results.gamma ? CRBM_GAMMA_EACH : CRBM_GAMMA_NONE;
    run->options.gamma_from_messages = 1;        /* the next run may want the messages */
    run->options.resume = run->options.summed = resume;        /* nothing else writes to that workspace */
    run->results.n_iter = &n_iter;
    run->results.converged = &converged;
    run->results.residual = info || run->options.tol > 0 ? &residual : NULL;        /* measuring it takes time */
    run->results.log_z = log_z_wanted ? &log_z : NULL;
    run->results.state = start + (edges ? w->at.messages : w->at.units);
    solver_of(run)->solve(run, start + (edges ? w->at.edges : w->at.fields));
    if (info)
        *info = (crbm_fast_info){(double)n_iter, residual, log_z};
    return run->options.tol > 0 && !converged ? CRBM_FAST_NOT_CONVERGED : CRBM_FAST_OK;
}

static int check_run(const crbm_run *run, const crbm_fast_info *info, int method, int flags)
{
    const crbm_problem *p = &run->problem;
    const crbm_options *o = &run->options;
    const size_t item = (size_t)p->k->itemsize;
    TRY(check_array(run->results.tau_v, item));
    TRY(check_array(run->results.tau_h, item));
    TRY(run->results.gamma ? check_array(run->results.gamma, item) : CRBM_FAST_OK);
    TRY(info ? check_array(info, sizeof(double)) : CRBM_FAST_OK);
    TRY(check_array(p->b1, item));
    TRY(check_array(p->b2, item));
    if (method < 0 || method >= n_methods || o->max_iter < 1 || !(o->tol >= 0 && o->tol < INFINITY)
        || !(o->damping >= 0 && o->damping < 1) || (method == CRBM_FAST_BETHE && o->damping > 0) || (item == 4 && (float)o->damping == 1)
        || flags & ~(CRBM_FAST_WARM_START | CRBM_FAST_LOG_Z))
        return CRBM_FAST_BAD_OPTION;
    TRY(check_visible(p->k, p->b1, p->nv));
    return check_finite(p->k, p->b2, p->nh);
}

static int run(void *workspace, void *tau_v, void *tau_h, void *gamma, crbm_fast_info *info, const void *b1,
               const void *b2, int method, int max_iter, double tol, double damping, int flags)
{
    crbm_run run;
    TRY(lock(workspace, &run));
    run.problem.b1 = b1, run.problem.b2 = b2;
    run.results.tau_v = tau_v, run.results.tau_h = tau_h, run.results.gamma = gamma;
    run.options.max_iter = max_iter, run.options.tol = tol, run.options.damping = damping;
    int status = check_run(&run, info, method, flags);
    if (!status) {
        head *w = workspace;
        run.method = solver_of(&run)->methods[methods[method]];
        status = do_run(workspace, &run, info, flags & CRBM_FAST_WARM_START && w->kept == method, flags & CRBM_FAST_LOG_Z);
        w->kept = method;
    }
    return unlock(workspace, status);
}

/* What a half-step is given: states x (n,) of one side, biases and a place for the states of the other. */
static int check_half(const crbm_kernels *k, const void *out, const void *x, ptrdiff_t n, const void *bias, uint64_t step)
{
    const size_t item = (size_t)k->itemsize;
    TRY(check_array(out, item));
    TRY(check_array(x, item));
    TRY(check_array(bias, item));
    if (step > INT32_MAX)
        return CRBM_FAST_BAD_OPTION;
    return check_states(k, x, n);
}

static int sample_h(void *workspace, void *h, const void *v, const void *b2, uint64_t seed, uint64_t chain,
                    uint64_t step)
{
    crbm_run run;
    TRY(lock(workspace, &run));
    const crbm_problem *p = &run.problem;
    int bad = check_half(p->k, h, v, p->nv, b2, step);
    bad = bad ? bad : check_finite(p->k, b2, p->nh);
    if (!bad) {
        const crbm_draws draws = {.v = (void *)v, .h = h, .seed = seed, .instance = chain, .step = step};
        run.problem.b2 = b2;
        solver_of(&run)->sample_h(&run, &draws, (char *)workspace + ((head *)workspace)->at.fields);
    }
    return unlock(workspace, bad);
}

static int sample_v(void *workspace, void *v, const void *h, const void *b1, uint64_t seed, uint64_t chain,
                    uint64_t step)
{
    crbm_run run;
    TRY(lock(workspace, &run));
    const crbm_problem *p = &run.problem;
    int bad = check_half(p->k, v, h, p->nh, b1, step);
    bad = bad ? bad : check_visible(p->k, b1, p->nv);
    if (!bad) {
        const crbm_draws draws = {.v = v, .h = (void *)h, .seed = seed, .instance = chain, .step = step};
        run.problem.b1 = b1;
        solver_of(&run)->sample_v(&run, &draws, (char *)workspace + ((head *)workspace)->at.fields);
    }
    return unlock(workspace, bad);
}

static int check_free_energy(const crbm_problem *p, const double *F, const void *v, const void *b1, const void *b2)
{
    const size_t item = (size_t)p->k->itemsize;
    TRY(check_array(F, sizeof(double)));
    TRY(check_array(v, item));
    TRY(check_array(b1, item));
    TRY(check_array(b2, item));
    TRY(check_states(p->k, v, p->nv));
    TRY(check_visible(p->k, b1, p->nv));
    return check_finite(p->k, b2, p->nh);
}

static int free_energy(void *workspace, double *F, const void *v, const void *b1, const void *b2)
{
    crbm_run run;
    TRY(lock(workspace, &run));
    const int bad = check_free_energy(&run.problem, F, v, b1, b2);
    if (!bad) {
        run.problem.b1 = b1, run.problem.b2 = b2;
        *F = solver_of(&run)->free_energy(&run, v, (char *)workspace + ((head *)workspace)->at.fields);
    }
    return unlock(workspace, bad);
}

static const char *error_text(int status)
{
    switch (status) {
    case CRBM_FAST_OK: return "success";
    case CRBM_FAST_NOT_CONVERGED: return "max_iter iterations were done before tol was reached; raise max_iter, or take damping (bethe has none)";
    case CRBM_FAST_NULL_POINTER: return "a pointer is NULL; only gamma and info may be";
    case CRBM_FAST_MISALIGNED:
        return "a workspace must be aligned to 64 bytes (CRBM_FAST_ALIGN), an array to its element type";
    case CRBM_FAST_TOO_SMALL: return "the workspace is too small; ask workspace_size";
    case CRBM_FAST_BAD_SIZE: return "nv and nh must be at least 0, and a workspace for them must fit the address space";
    case CRBM_FAST_BAD_DTYPE: return "dtype must be CRBM_FAST_FLOAT32 (4) or CRBM_FAST_FLOAT64 (8)";
    case CRBM_FAST_NOT_INITIALISED: return "the workspace has not been initialised, or in another process; call init";
    case CRBM_FAST_BUSY: return "the workspace is in use by another thread; give each thread its own";
    case CRBM_FAST_BAD_OPTION:
        return "an option is out of range: method 0 to 3, max_iter >= 1, tol >= 0 and finite, 0 <= damping < 1 (bethe: 0), "
               "flags 0 to 3, step < 2^31";
    case CRBM_FAST_NOT_FINITE:
        return "W, b1 or b2 has a NaN or a value beyond 1e30 (float64: 1e300); only b1 may be infinite, to clamp";
    case CRBM_FAST_NOT_BINARY: return "v or h has a value other than 0 and 1";
    case CRBM_FAST_WRONG_VERSION:
        return "the program was compiled for a version of the interface that this library does not serve; compile it again";
    default: return "not a status of crbm_fast";
    }
}

const crbm_fast_api crbm_embed_api = {
    .version = CRBM_FAST_API_VERSION,
    .oldest = 1,
    .error_text = error_text,
    .workspace_size = workspace_size,
    .init = init,
    .run = run,
    .sample_h = sample_h,
    .sample_v = sample_v,
    .free_energy = free_energy,
};
