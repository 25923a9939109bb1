/* embed.c: solver.c for other programs: a caller's memory, checked arguments, status codes.
 *
 *   workspace:  head | exp(W) | W | row sums | what mixed-product goes on from | scratch of combine_rows
 *               | messages and scratch of crbm_solve | scratch of crbm_solve_chunk
 *
 * Nothing in a workspace points into it: places are found again from the sizes at each call (some 30 additions), so that
 * it can be copied.
 */
#define _POSIX_C_SOURCE 200809L        /* sync.h: the clock, beside -std=c11 */
#include <math.h>
#include <string.h>

#include "embed.h"
#include "solver.h"
#include "sync.h"

_Static_assert(CRBM_FAST_ALIGN == CRBM_ALIGN, "one alignment");
_Static_assert((int)CRBM_FAST_SUM_PRODUCT == (int)CRBM_SUM_PRODUCT
                   && (int)CRBM_FAST_MAX_PRODUCT == (int)CRBM_MAX_PRODUCT
                   && (int)CRBM_FAST_MIXED_PRODUCT == (int)CRBM_MIXED_PRODUCT,
               "the solver's methods");

const crbm_kernels *(*crbm_embed_kernels)(int itemsize);

/* Says that a workspace has been initialised, by this library, in this process: one from a file or from another process
 * would have kernels at addresses that mean nothing here. */
static uint64_t magic(void) { return UINT64_C(0x63726d625f312e30) ^ (uint64_t)(uintptr_t)&crbm_embed_api; }

/* The largest weight or bias: sums over 10^8 of them are finite, so no NaN can arise (as in _validation.py). */
static double limit(int dtype) { return dtype == CRBM_FAST_FLOAT32 ? 1e30 : 1e300; }

typedef struct {
    uint64_t magic;
    const crbm_kernels *k;
    ptrdiff_t nv, nh;
    double max_weight;
    int busy;                 /* 1 while a function works                                                   */
    int kept;                 /* the method whose messages are there, or -1                                 */
} head;

/* Where everything is. */
typedef struct {
    char *exp_W;              /* (nv, ld)                                                                   */
    char *W;                  /* (nv, ld)                                                                   */
    char *row_sum;            /* (nv,)                                                                      */
    char *sent;               /* (nv + nh,) what mixed-product goes on from                                 */
    char *values;             /* (nv,) scratch of combine_rows, and the next                                */
    int32_t *index;
    crbm_slot slot;
    crbm_chunk chunk;         /* of one instance                                                            */
} places;

/* `job` has the sizes.  Returns the bytes of the whole. */
static size_t lay(places *p, void *workspace, const crbm_job *job)
{
    const size_t matrix = job->nv * job->ld * job->item;
    const uintptr_t start = (uintptr_t)workspace;
    uintptr_t at = start;
    crbm_place(&at, sizeof(head));
    p->exp_W = crbm_place(&at, matrix);
    p->W = crbm_place(&at, matrix);
    p->row_sum = crbm_place(&at, job->nv * job->item);
    p->sent = crbm_place(&at, (job->nv + job->nh) * job->item);
    p->values = crbm_place(&at, job->nv * job->item);
    p->index = crbm_place(&at, job->nv * sizeof(int32_t));
    at += crbm_lay_slot(&p->slot, (void *)at, job, 1, 1, 0);
    p->slot.cond = NULL;      /* would overwrite the messages, which the next start may want */
    at += crbm_lay_chunk(&p->chunk, (void *)at, job, 1);
    return at - start;
}

static int check_sizes(ptrdiff_t nv, ptrdiff_t nh, int dtype)
{
    if (dtype != CRBM_FAST_FLOAT32 && dtype != CRBM_FAST_FLOAT64)
        return CRBM_FAST_BAD_DTYPE;
    /* rows are counted in int32; the whole, 3 padded matrices and less than 64 rows and columns more, in ptrdiff_t */
    if (nv < 0 || nh < 0 || nv > INT32_MAX - 1024 || nh > INT32_MAX - 1024
        || nv + 64 > PTRDIFF_MAX / (4 * 8) / (nh + 1024))
        return CRBM_FAST_BAD_SIZE;
    return CRBM_FAST_OK;
}

static crbm_job sizes(ptrdiff_t nv, ptrdiff_t nh, int dtype)
{
    return (crbm_job){.N = 1, .nv = nv, .nh = nh, .ld = crbm_padded(nh, dtype), .item = dtype};
}

static ptrdiff_t workspace_size(ptrdiff_t nv, ptrdiff_t nh, int dtype)
{
    const int bad = check_sizes(nv, nh, dtype);
    if (bad)
        return bad;
    const crbm_job job = sizes(nv, nh, dtype);
    places p;
    return (ptrdiff_t)lay(&p, NULL, &job);
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

static double element(const void *x, ptrdiff_t i, ptrdiff_t item)
{
    return item == 4 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

/* b1: as check_finite, but infinities clamp. */
static int check_visible(const void *b1, ptrdiff_t n, ptrdiff_t item)
{
    const double most = limit((int)item);
    int bad = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double b = fabs(element(b1, i, item));
        bad |= !(b <= most) & (b != INFINITY);
    }
    return bad ? CRBM_FAST_NOT_FINITE : CRBM_FAST_OK;
}

static int check_states(const void *x, ptrdiff_t n, ptrdiff_t item)
{
    int bad = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double s = element(x, i, item);
        bad |= !(s == 0 || s == 1);
    }
    return bad ? CRBM_FAST_NOT_BINARY : CRBM_FAST_OK;
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
    const crbm_job job = sizes(nv, nh, dtype);
    const crbm_kernels *k = crbm_embed_kernels(dtype);
    head *w = workspace;
    places p;
    TRY(check_array(workspace, CRBM_ALIGN));
    TRY(check_array(W, (size_t)dtype));
    if (size < lay(&p, workspace, &job))
        return CRBM_FAST_TOO_SMALL;
    TRY(check_finite(k, W, nv * nh));
    *w = (head){.magic = magic(), .k = k, .nv = nv, .nh = nh, .max_weight = k->max_abs(W, nv * nh), .kept = -1};
    k->pad(p.W, W, nv, nh, job.ld, CRBM_PLAIN);
    if (w->max_weight <= k->max_weight)
        k->pad(p.exp_W, W, nv, nh, job.ld, CRBM_EXP);
    k->row_sums(p.row_sum, W, nv, nh);
    return CRBM_FAST_OK;
}

/* out (1, ld) := v W + out; the solver asks for nothing else, its beta is 1 without TAP. */
static void times_W(const crbm_job *job, void *out, const void *v, const void *W, double beta, ptrdiff_t m)
{
    const places *p = job->lender;
    (void)m;
    job->k->combine_rows(out, v, 1, W, beta, p->values, p->index, job->nv, job->ld);
}

/* Check and lock a workspace, and find its places. */
static int lock(void *workspace, crbm_job *job, places *p)
{
    head *w = workspace;
    TRY(check_array(workspace, CRBM_ALIGN));
    if (w->magic != magic())
        return CRBM_FAST_NOT_INITIALISED;
    if (crbm_exchange(&w->busy, 1))
        return CRBM_FAST_BUSY;
    *job = sizes(w->nv, w->nh, w->k->itemsize);
    job->k = w->k;
    job->max_weight = w->max_weight;
    lay(p, workspace, job);
    job->W = p->W;
    job->ldw = job->ld;
    job->row_sum = p->row_sum;
    job->to_h = times_W;
    job->lender = p;
    return CRBM_FAST_OK;
}

static int unlock(void *workspace, int status)
{
    crbm_exchange(&((head *)workspace)->busy, 0);
    return status;
}

/* --- the functions, between lock and unlock ------------------------------------------------------------------ */

/* Gamma := v x', with v the states that tau_v predicts: rows of x and of zeros. */
static void outer(const crbm_job *job, const char *v, const char *x)
{
    const size_t row = job->nh * job->item;
    for (ptrdiff_t i = 0; i < job->nv; i++) {
        const int on = job->k->nonzeros(v + i * job->item, 1) > 0;
        if (on)
            memcpy(job->gamma + i * row, x, row);
        else
            memset(job->gamma + i * row, 0, row);
    }
}

/* theta_h := b2 + v W, in the chunk's scratch. */
static const char *hidden_fields(const crbm_job *job, const places *p, const void *v, const void *b2)
{
    job->k->pad(p->chunk.theta_h, b2, 1, job->nh, job->ld, CRBM_PLAIN);
    times_W(job, p->chunk.theta_h, v, p->W, 1, 1);
    return p->chunk.theta_h;
}

/* Max-product's answer: v from its beliefs, h the best for that v; -E(v, h) and Gamma = v h'. */
static void decode_map(crbm_job *job, const places *p, double *log_z)
{
    const crbm_kernels *k = job->k;
    char *v = p->chunk.sent, *h = p->chunk.tau_h1;
    k->decode(v, job->tau_v, 0.5, job->nv);
    const char *theta = hidden_fields(job, p, v, job->b2);
    *log_z = k->dot_free(job->b1, v, job->nv) + k->relu_sum(theta, job->nh);
    if (job->gamma) {
        k->decode(h, theta, 0, job->nh);
        outer(job, v, h);
    }
}

static int do_run(head *w, crbm_job *job, places *p, crbm_fast_info *info, int flags)
{
    const crbm_kernels *k = job->k;
    const int messages = job->method != CRBM_MIXED_PRODUCT;
    const int warm = (flags & CRBM_FAST_WARM_START) && w->kept == job->method;
    int64_t n_iter;
    char converged;
    double residual = NAN, log_z = NAN;
    job->form = crbm_form_for(job);
    job->weight = job->form == CRBM_EXP ? p->exp_W : p->W;
    job->gamma_mode = job->gamma && job->method == CRBM_SUM_PRODUCT ? CRBM_GAMMA_EACH : CRBM_GAMMA_NONE;
    job->n_iter = &n_iter, job->converged = &converged;
    job->residual = info || job->tol > 0 || !messages ? &residual : NULL;        /* measuring it takes time */
    job->log_z = flags & CRBM_FAST_LOG_Z ? &log_z : NULL;
    if (messages) {
        job->resume = job->summed = warm;        /* nothing else writes to the slot */
        crbm_solve(job, &p->slot, 0, 1, 0);
        if (job->method == CRBM_MAX_PRODUCT && (job->gamma || job->log_z))
            decode_map(job, p, &log_z);
    } else {
        job->state = p->sent;
        job->init = warm ? p->sent : NULL;
        crbm_solve_chunk(job, &p->chunk, 0, 1, 0);
        if (job->gamma) {
            k->decode(p->chunk.sent, job->tau_v, 0.5, job->nv);
            outer(job, p->chunk.sent, job->tau_h);
        }
    }
    w->kept = job->method;
    if (info)
        *info = (crbm_fast_info){(double)n_iter, residual, job->log_z ? log_z : NAN};
    return job->tol > 0 && !converged ? CRBM_FAST_NOT_CONVERGED : CRBM_FAST_OK;
}

static int check_run(const crbm_job *job, const crbm_fast_info *info, int flags)
{
    const size_t item = (size_t)job->item;
    TRY(check_array(job->tau_v, item));
    TRY(check_array(job->tau_h, item));
    TRY(job->gamma ? check_array(job->gamma, item) : CRBM_FAST_OK);
    TRY(info ? check_array(info, sizeof(double)) : CRBM_FAST_OK);
    TRY(check_array(job->b1, item));
    TRY(check_array(job->b2, item));
    if (job->method < CRBM_FAST_SUM_PRODUCT || job->method > CRBM_FAST_MIXED_PRODUCT || job->max_iter < 1
        || !(job->tol >= 0 && job->tol < INFINITY) || !(job->damping >= 0 && job->damping < 1)
        || (job->item == 4 && (float)job->damping == 1)
        || flags & ~(CRBM_FAST_WARM_START | CRBM_FAST_LOG_Z))
        return CRBM_FAST_BAD_OPTION;
    TRY(check_visible(job->b1, job->nv, job->item));
    return check_finite(job->k, job->b2, job->nh);
}

static int run(void *workspace, void *tau_v, void *tau_h, void *gamma, crbm_fast_info *info, const void *b1,
               const void *b2, int method, int max_iter, double tol, double damping, int flags)
{
    crbm_job job;
    places p;
    TRY(lock(workspace, &job, &p));
    job.tau_v = tau_v, job.tau_h = tau_h, job.gamma = gamma, job.b1 = b1, job.b2 = b2;
    job.method = method, job.max_iter = max_iter, job.tol = tol, job.damping = damping;
    const int bad = check_run(&job, info, flags);
    return unlock(workspace, bad ? bad : do_run(workspace, &job, &p, info, flags));
}

/* What a half-step is given: states x (n,) of one side, biases and a place for the states of the other. */
static int check_half(const crbm_job *job, const void *out, const void *x, ptrdiff_t n, const void *bias, uint64_t step)
{
    TRY(check_array(out, (size_t)job->item));
    TRY(check_array(x, (size_t)job->item));
    TRY(check_array(bias, (size_t)job->item));
    if (step > INT32_MAX)
        return CRBM_FAST_BAD_OPTION;
    return check_states(x, n, job->item);
}

static int sample_h(void *workspace, void *h, const void *v, const void *b2, uint64_t seed, uint64_t chain,
                    uint64_t step)
{
    crbm_job job;
    places p;
    TRY(lock(workspace, &job, &p));
    int bad = check_half(&job, h, v, job.nv, b2, step);
    bad = bad ? bad : check_finite(job.k, b2, job.nh);
    if (!bad)
        job.k->bernoulli(h, hidden_fields(&job, &p, v, b2), seed, chain, (uint32_t)(2 * step), job.nh);
    return unlock(workspace, bad);
}

static int sample_v(void *workspace, void *v, const void *h, const void *b1, uint64_t seed, uint64_t chain,
                    uint64_t step)
{
    crbm_job job;
    places p;
    TRY(lock(workspace, &job, &p));
    const crbm_kernels *k = job.k;
    int bad = check_half(&job, v, h, job.nh, b1, step);
    bad = bad ? bad : check_visible(b1, job.nv, job.item);
    if (!bad) {
        k->pad(p.chunk.tau_h1, h, 1, job.nh, job.ld, CRBM_PLAIN);
        k->dot_rows(p.chunk.field_v, p.W, p.chunk.tau_h1, job.nv, job.ld);
        k->add(p.chunk.theta_v, b1, p.chunk.field_v, job.nv);
        k->bernoulli(v, p.chunk.theta_v, seed, chain, (uint32_t)(2 * step + 1), job.nv);
    }
    return unlock(workspace, bad);
}

static int check_free_energy(const crbm_job *job, const double *F, const void *v, const void *b1, const void *b2)
{
    TRY(check_array(F, sizeof(double)));
    TRY(check_array(v, (size_t)job->item));
    TRY(check_array(b1, (size_t)job->item));
    TRY(check_array(b2, (size_t)job->item));
    TRY(check_states(v, job->nv, job->item));
    TRY(check_visible(b1, job->nv, job->item));
    return check_finite(job->k, b2, job->nh);
}

/* Does v have a unit in another state than the one it is clamped to? */
static int contradicts(const void *v, const void *b1, ptrdiff_t n, ptrdiff_t item)
{
    int found = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        found |= element(b1, i, item) == (element(v, i, item) == 1 ? -INFINITY : INFINITY);
    return found;
}

static int free_energy(void *workspace, double *F, const void *v, const void *b1, const void *b2)
{
    crbm_job job;
    places p;
    TRY(lock(workspace, &job, &p));
    const int bad = check_free_energy(&job, F, v, b1, b2);
    if (!bad)        /* Eq. 4 */
        *F = contradicts(v, b1, job.nv, job.item) ? INFINITY
            : -job.k->dot_free(b1, v, job.nv) - job.k->softplus_sum(hidden_fields(&job, &p, v, b2), job.nh);
    return unlock(workspace, bad);
}

static const char *error_text(int status)
{
    switch (status) {
    case CRBM_FAST_OK: return "success";
    case CRBM_FAST_NOT_CONVERGED: return "max_iter iterations were done before tol was reached; raise max_iter or damping";
    case CRBM_FAST_NULL_POINTER: return "a pointer is NULL; only gamma and info may be";
    case CRBM_FAST_MISALIGNED:
        return "a workspace must be aligned to 64 bytes (CRBM_FAST_ALIGN), an array to its element type";
    case CRBM_FAST_TOO_SMALL: return "the workspace is too small; ask workspace_size";
    case CRBM_FAST_BAD_SIZE: return "nv and nh must be at least 0, and a workspace for them must fit the address space";
    case CRBM_FAST_BAD_DTYPE: return "dtype must be CRBM_FAST_FLOAT32 (4) or CRBM_FAST_FLOAT64 (8)";
    case CRBM_FAST_NOT_INITIALISED: return "the workspace has not been initialised, or in another process; call init";
    case CRBM_FAST_BUSY: return "the workspace is in use by another thread; give each thread its own";
    case CRBM_FAST_BAD_OPTION:
        return "an option is out of range: method 0 to 2, max_iter >= 1, tol >= 0 and finite, 0 <= damping < 1, flags 0 to "
               "3, step < 2^31";
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
