/* embedding.c: what the suite `embedding` runs where Python would disturb the measurement.
 *
 * A shared library: bench_embedding.py loads it and passes crbm_fast's function table and kernel table; _calls.py also has
 * it preloaded, so that the allocators below are the process's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crbm.h"
#include "crbm_fast.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- one float32 model with all it needs -------------------------------------------------------------------- */

typedef struct {
    const crbm_fast_api *bp;
    ptrdiff_t nv, nh;
    void *workspace;
    float *b1, *b2, *tau_v, *tau_h, *gamma, *v, *h;
} model;

/* n zeros, alone in their cache lines: a line that two threads write to goes back and forth between the cores. */
static float *zeros(ptrdiff_t n)
{
    const size_t bytes = ((size_t)n * 4 + 127) / 128 * 128;        /* lines are fetched in pairs */
    return memset(aligned_alloc(128, bytes), 0, bytes);
}

static model *new_model(const crbm_fast_api *bp, const float *W, ptrdiff_t nv, ptrdiff_t nh)
{
    model *m = malloc(sizeof *m);
    const ptrdiff_t size = bp->workspace_size(nv, nh, CRBM_FAST_FLOAT32);
    *m = (model){bp, nv, nh, zeros(size / 4 + 1), zeros(nv), zeros(nh), zeros(nv), zeros(nh), zeros(nv * nh), zeros(nv),
                 zeros(nh)};
    if (bp->init(m->workspace, (size_t)size, W, nv, nh, CRBM_FAST_FLOAT32) != CRBM_FAST_OK)
        abort();
    return m;
}

static void free_model(model *m)
{
    void *all[] = {m->workspace, m->b1, m->b2, m->tau_v, m->tau_h, m->gamma, m->v, m->h, m};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static int sum_product(model *m, int T)
{
    return m->bp->run(m->workspace, m->tau_v, m->tau_h, NULL, NULL, m->b1, m->b2, CRBM_FAST_SUM_PRODUCT, T, 0, 0, 0);
}

/* --- a call and the kernels in it ------------------------------------------------------------------------------ */

/* Seconds for n calls of T iterations of sum-product through the table. */
double calls_through_table(const crbm_fast_api *bp, const float *W, ptrdiff_t nv, ptrdiff_t nh, int T, long n)
{
    model *m = new_model(bp, W, nv, nh);
    int status = sum_product(m, T);
    const double start = now();
    for (long i = 0; i < n; i++)
        status |= sum_product(m, T);
    const double seconds = now() - start;
    free_model(m);
    return status ? -1 : seconds;
}

/* Seconds for the same iterations by the kernels alone; nv is at most CRBM_GROUP. */
double kernels_alone(const crbm_kernels *k, const float *W, ptrdiff_t nv, ptrdiff_t nh, int T, long n)
{
    const ptrdiff_t ld = crbm_padded(nh, 4);
    const size_t row = (size_t)ld * 4, matrix = (size_t)nv * row;
    float *weight = aligned_alloc(CRBM_ALIGN, matrix), *msg = aligned_alloc(CRBM_ALIGN, matrix);
    float *rows = aligned_alloc(CRBM_ALIGN, 5 * row), *b1 = calloc((size_t)nv, 4), *b2 = calloc((size_t)nh, 4);
    float *field_v = calloc((size_t)nv, 4), *tau_v = calloc((size_t)nv, 4);
    crbm_rows r = {.msg = msg, .weight = weight, .theta_h = rows, .tau_h0 = rows + ld, .tau_h1 = rows + 2 * ld, .b1 = b1,
                   .field_v = field_v, .tau_v = tau_v, .part = rows + 3 * ld, .scratch = rows + 4 * ld, .rows = nv,
                   .nh = nh, .ld = ld, .max_weight = k->max_abs(W, nv * nh)};
    k->pad(weight, W, nv, nh, ld, CRBM_EXP);
    k->fill(msg, 1, nv * ld);
    k->fill(rows, 0.5, 5 * ld);
    const double start = now();
    for (long i = 0; i < n; i++)
        for (int t = 0; t < T; t++) {
            k->sum_group(&r);
            k->close_h(rows, rows + ld, rows + 2 * ld, b2, rows + 3 * ld, 1, nh, ld);
        }
    const double seconds = now() - start;
    free(weight), free(msg), free(rows), free(b1), free(b2), free(field_v), free(tau_v);
    return seconds;
}

/* --- threads ------------------------------------------------------------------------------------------------------- */

typedef struct {
    const crbm_fast_api *bp;
    const float *W;
    ptrdiff_t nv, nh;
    int T;
    long n;
    long *ready;              /* threads still to come: no pthread_barrier_t on macOS */
    double start, end;
} work;

static void *worker(void *arg)
{
    work *w = arg;
    model *m = new_model(w->bp, w->W, w->nv, w->nh);
    sum_product(m, w->T);
    __atomic_sub_fetch(w->ready, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(w->ready, __ATOMIC_ACQUIRE) > 0)
        ;
    w->start = now();
    for (long i = 0; i < w->n; i++)
        sum_product(m, w->T);
    w->end = now();
    free_model(m);
    return NULL;
}

/* Seconds from the first start to the last end where each of `threads` threads, with a workspace of its own, does n calls. */
double calls_by_threads(const crbm_fast_api *bp, const float *W, ptrdiff_t nv, ptrdiff_t nh, int T, long n, int threads)
{
    pthread_t id[64];
    work w[64];
    long ready = threads;
    if (threads > 64)
        return -1;
    for (int i = 0; i < threads; i++) {
        w[i] = (work){bp, W, nv, nh, T, n, &ready, 0, 0};
        pthread_create(&id[i], NULL, worker, &w[i]);
    }
    double start = 0, end = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(id[i], NULL);
        start = i == 0 || w[i].start < start ? w[i].start : start;
        end = w[i].end > end ? w[i].end : end;
    }
    return end - start;
}

/* --- allocations and the GIL --------------------------------------------------------------------------------------- */

static __thread long allocations __attribute__((tls_model("initial-exec")));

#ifdef __GLIBC__
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t n) { return allocations++, __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return allocations++, __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return allocations++, __libc_realloc(p, n); }
void *memalign(size_t align, size_t n) { return allocations++, __libc_memalign(align, n); }
void *aligned_alloc(size_t align, size_t n) { return allocations++, __libc_memalign(align, n); }
int posix_memalign(void **p, size_t align, size_t n)
{
    *p = memalign(align, n);
    return *p ? 0 : ENOMEM;
}
#endif

enum control { NOTHING, ALLOCATE, TAKE_GIL };

static struct {
    model *m;
    long n;
    int control;
    long done, counted;
} job;

/* n rounds of everything the interface has, and of what the control adds. */
static void *rounds(void *unused)
{
    int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
    const crbm_fast_api *bp = job.m->bp;
    model *m = job.m;
    crbm_fast_info info;
    double F;
    const long before = allocations;
    for (long i = 0; i < job.n; i++) {
        int status = bp->run(m->workspace, m->tau_v, m->tau_h, m->gamma, &info, m->b1, m->b2, (int)(i % 3), 3, 0, 0,
                             CRBM_FAST_LOG_Z | (i % 2 ? CRBM_FAST_WARM_START : 0));
        status |= bp->sample_h(m->workspace, m->h, m->v, m->b2, 1, 2, (uint64_t)i);
        status |= bp->sample_v(m->workspace, m->v, m->h, m->b1, 1, 2, (uint64_t)i);
        status |= bp->free_energy(m->workspace, &F, m->v, m->b1, m->b2);
        if (job.control == ALLOCATE) {
            void *volatile p = malloc(1);
            free(p);
        }
        if (job.control == TAKE_GIL)
            release(ensure());
        if (status)
            break;
        __atomic_fetch_add(&job.done, 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&job.counted, allocations - before, __ATOMIC_RELEASE);
    return unused;
}

/* Called with the GIL held (ctypes.PyDLL), which it keeps: rounds that another thread has done after at most `seconds`.
 * A round that wants the GIL cannot end. */
long rounds_without_gil(const crbm_fast_api *bp, const float *W, ptrdiff_t nv, ptrdiff_t nh, long n, int control,
                        double seconds, long *allocated)
{
    pthread_t id;
    job.m = new_model(bp, W, nv, nh), job.n = n, job.control = control, job.done = 0, job.counted = -1;
    if (pthread_create(&id, NULL, rounds, NULL))
        return -1;
    pthread_detach(id);               /* with TAKE_GIL it outlives this call, by design; the model is left to it */
    const double start = now();
    while (__atomic_load_n(&job.counted, __ATOMIC_ACQUIRE) < 0 && now() - start < seconds)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    *allocated = __atomic_load_n(&job.counted, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&job.done, __ATOMIC_ACQUIRE);
}
