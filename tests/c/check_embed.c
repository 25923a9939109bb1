/* check_embed.c: the embedding interface on memory of exactly the size it asks for, good arguments and bad ones.
 *
 * Built by tests/inference/test_sanitizers.py with the address and undefined-behaviour sanitizers; numbers are checked from Python
 * (tests/embedding/test_embedding.py).  Prints "N passed, 0 failed".
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed.h"

static int passed, failed, itemsize;
static const crbm_fast_api *bp = &crbm_embed_api;
static const char *isa;

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (condition)                                                                      \
            passed++;                                                                       \
        else {                                                                              \
            failed++;                                                                       \
            printf("%s:%d: %s (%s, %d bytes)\n", __FILE__, __LINE__, #condition, isa, itemsize); \
        }                                                                                   \
    } while (0)

static const crbm_kernels *kernels(int size) { return crbm_select(isa, size); }

static double get(const void *x, ptrdiff_t i)
{
    return itemsize == 4 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

static void set(void *x, ptrdiff_t i, double value)
{
    if (itemsize == 4)
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}

static void *draw(ptrdiff_t n, double low, double high)
{
    void *x = malloc((size_t)(n * itemsize));
    for (ptrdiff_t i = 0; i < n; i++)
        set(x, i, low + (high - low) * rand() / RAND_MAX);
    return x;
}

static int within(const void *x, double low, double high, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        if (!(get(x, i) >= low && get(x, i) <= high))
            return 0;
    return 1;
}

static void *aligned(ptrdiff_t size)
{
    void *p = NULL;
    return posix_memalign(&p, CRBM_FAST_ALIGN, (size_t)size) ? NULL : p;
}

/* Every method, with and without everything optional, on exactly as much memory as is asked for. */
static void good(ptrdiff_t nv, ptrdiff_t nh, double scale)
{
    const ptrdiff_t size = bp->workspace_size(nv, nh, itemsize);
    void *W = draw(nv * nh, -scale, scale), *b1 = draw(nv, -1, 1), *b2 = draw(nh, -1, 1), *w = aligned(size);
    void *tau_v = draw(nv, 0, 0), *tau_h = draw(nh, 0, 0), *gamma = draw(nv * nh, 0, 0);
    void *v = draw(nv, 1, 1), *h = draw(nh, 0, 0);
    crbm_fast_info info;
    double F = NAN;
    CHECK(size > 0 && size % CRBM_FAST_ALIGN == 0);
    CHECK(bp->init(w, (size_t)size, W, nv, nh, itemsize) == CRBM_FAST_OK);
    memset(W, 0xff, (size_t)(nv * nh * itemsize));
    free(W);                                            /* not needed any more */
    if (nv > 1)
        set(b1, 0, INFINITY), set(b1, 1, -INFINITY);    /* clamped */
    for (int variant = 0; variant < 64; variant++) {
        const int method = variant % 4, flags = variant / 4 % 4;
        const double damping = variant / 16 % 2 && method != CRBM_FAST_BETHE ? 0.4 : 0;
        void *g = variant / 32 ? gamma : NULL;
        const int status = bp->run(w, tau_v, tau_h, g, variant % 2 ? &info : NULL, b1, b2, method, 3, variant % 5 ? 1e-3 : 0,
                                   damping, flags);
        CHECK(status == CRBM_FAST_OK || status == CRBM_FAST_NOT_CONVERGED);
        CHECK(within(tau_v, 0, 1, nv) && within(tau_h, 0, 1, nh) && within(gamma, 0, 1, nv * nh));
        if (variant % 2)
            CHECK(info.n_iter >= 1 && info.n_iter <= 3 && info.residual >= 0
                  && (flags & CRBM_FAST_LOG_Z ? isfinite(info.log_z) : isnan(info.log_z)));
    }
    if (nv > 1) {
        CHECK(get(tau_v, 0) == 1 && get(tau_v, 1) == 0);
        set(v, 1, 0);
    }
    for (uint64_t step = 0; step < 3; step++) {
        CHECK(bp->sample_h(w, h, v, b2, 1, 2, step) == CRBM_FAST_OK);
        CHECK(bp->sample_v(w, v, h, b1, 1, 2, step) == CRBM_FAST_OK);
        CHECK(within(v, 0, 1, nv) && within(h, 0, 1, nh));
        CHECK(bp->free_energy(w, &F, v, b1, b2) == CRBM_FAST_OK && isfinite(F));
    }
    if (nv > 1)
        CHECK(get(v, 0) == 1 && get(v, 1) == 0);
    free(b1), free(b2), free(w), free(tau_v), free(tau_h), free(gamma), free(v), free(h);
}

/* Whatever is wrong: a code, a text, and nothing written. */
static void bad(void)
{
    const ptrdiff_t nv = 5, nh = 3, size = bp->workspace_size(nv, nh, itemsize);
    char *w = aligned(size), *other = aligned(size);
    char *W = draw(nv * nh, -1, 1), *b1 = draw(nv, -1, 1), *b2 = draw(nh, -1, 1), *v = draw(nv, 1, 1), *h = draw(nh, 0, 0);
    char *tau_v = draw(nv, 7, 7), *tau_h = draw(nh, 7, 7), *gamma = draw(nv * nh, 7, 7);
    crbm_fast_info info = {7, 7, 7};
    double F = 7;

    CHECK(bp->workspace_size(-1, 3, itemsize) == CRBM_FAST_BAD_SIZE);
    CHECK(bp->workspace_size(3, -1, itemsize) == CRBM_FAST_BAD_SIZE);
    CHECK(bp->workspace_size(PTRDIFF_MAX, PTRDIFF_MAX, itemsize) == CRBM_FAST_BAD_SIZE);
    CHECK(bp->workspace_size(INT32_MAX, INT32_MAX, itemsize) == CRBM_FAST_BAD_SIZE);
    CHECK(bp->workspace_size(3, 3, 2) == CRBM_FAST_BAD_DTYPE);

    const size_t bytes = (size_t)size;
    CHECK(bp->init(NULL, bytes, W, nv, nh, itemsize) == CRBM_FAST_NULL_POINTER);
    CHECK(bp->init(w, bytes, NULL, nv, nh, itemsize) == CRBM_FAST_NULL_POINTER);
    CHECK(bp->init(w + 8, bytes, W, nv, nh, itemsize) == CRBM_FAST_MISALIGNED);
    CHECK(bp->init(w, bytes, W + 1, nv, nh, itemsize) == CRBM_FAST_MISALIGNED);
    CHECK(bp->init(w, bytes - 1, W, nv, nh, itemsize) == CRBM_FAST_TOO_SMALL);
    CHECK(bp->init(w, 0, W, nv, nh, itemsize) == CRBM_FAST_TOO_SMALL);
    CHECK(bp->init(w, bytes, W, -nv, nh, itemsize) == CRBM_FAST_BAD_SIZE);
    CHECK(bp->init(w, bytes, W, nv, nh, 0) == CRBM_FAST_BAD_DTYPE);

    memset(other, 0, bytes);
#define RUN(w, tau_v, tau_h, gamma, info, b1, b2, method, max_iter, tol, damping, flags) \
    bp->run(w, tau_v, tau_h, gamma, info, b1, b2, method, max_iter, tol, damping, flags)
    CHECK(RUN(other, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_NOT_INITIALISED);
    CHECK(bp->init(w, bytes, W, nv, nh, itemsize) == CRBM_FAST_OK);
    set(W, 2, NAN);
    CHECK(bp->init(w, bytes, W, nv, nh, itemsize) == CRBM_FAST_NOT_FINITE);
    set(W, 2, itemsize == 4 ? 1e31 : 1e301);
    CHECK(bp->init(w, bytes, W, nv, nh, itemsize) == CRBM_FAST_NOT_FINITE);

    CHECK(RUN(NULL, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_NULL_POINTER);
    CHECK(RUN(w, NULL, tau_h, gamma, &info, b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_NULL_POINTER);
    CHECK(RUN(w, tau_v, NULL, gamma, &info, b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_NULL_POINTER);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, NULL, b2, 0, 1, 0, 0, 0) == CRBM_FAST_NULL_POINTER);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, NULL, 0, 1, 0, 0, 0) == CRBM_FAST_NULL_POINTER);
    CHECK(RUN(w + itemsize, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_MISALIGNED);
    CHECK(RUN(w, tau_v + 1, tau_h, gamma, &info, b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_MISALIGNED);
    CHECK(RUN(w, tau_v, tau_h + 1, gamma, &info, b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_MISALIGNED);
    CHECK(RUN(w, tau_v, tau_h, gamma + 1, &info, b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_MISALIGNED);
    CHECK(RUN(w, tau_v, tau_h, gamma, (void *)((char *)&info + 1), b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_MISALIGNED);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1 + 1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_MISALIGNED);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2 + 1, 0, 1, 0, 0, 0) == CRBM_FAST_MISALIGNED);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, CRBM_FAST_BETHE, 1, 0, 0.5, 0) == CRBM_FAST_BAD_OPTION);
    for (int method = -1; method <= 4; method += 5)
        CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, method, 1, 0, 0, 0) == CRBM_FAST_BAD_OPTION);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, 0, 0, 0, 0, 0) == CRBM_FAST_BAD_OPTION);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, -1, 0, 0) == CRBM_FAST_BAD_OPTION);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, NAN, 0, 0) == CRBM_FAST_BAD_OPTION);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, 0, 1, 0) == CRBM_FAST_BAD_OPTION);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, 0, NAN, 0) == CRBM_FAST_BAD_OPTION);
    if (itemsize == 4)        /* as a float it is 1 */
        CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, 0, 1 - 1e-9, 0) == CRBM_FAST_BAD_OPTION);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, 0, 0, 4) == CRBM_FAST_BAD_OPTION);
    CHECK(bp->sample_h(w, NULL, v, b2, 0, 0, 0) == CRBM_FAST_NULL_POINTER);
    CHECK(bp->sample_h(w, h, NULL, b2, 0, 0, 0) == CRBM_FAST_NULL_POINTER);
    CHECK(bp->sample_h(w, h, v, NULL, 0, 0, 0) == CRBM_FAST_NULL_POINTER);
    CHECK(bp->sample_h(w, h, v, b2, 0, 0, (uint64_t)1 << 31) == CRBM_FAST_BAD_OPTION);
    CHECK(bp->sample_v(w, v, h + 1, b1, 0, 0, 0) == CRBM_FAST_MISALIGNED);
    CHECK(bp->sample_v(other, v, h, b1, 0, 0, 0) == CRBM_FAST_NOT_INITIALISED);
    CHECK(bp->free_energy(w, NULL, v, b1, b2) == CRBM_FAST_NULL_POINTER);
    CHECK(bp->free_energy(NULL, &F, v, b1, b2) == CRBM_FAST_NULL_POINTER);
    set(v, 3, 0.5);
    CHECK(bp->sample_h(w, h, v, b2, 0, 0, 0) == CRBM_FAST_NOT_BINARY);
    CHECK(bp->free_energy(w, &F, v, b1, b2) == CRBM_FAST_NOT_BINARY);
    set(h, 0, NAN);
    CHECK(bp->sample_v(w, v, h, b1, 0, 0, 0) == CRBM_FAST_NOT_BINARY);
    set(h, 0, 0), set(v, 3, 1);
    set(b2, 1, INFINITY);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_NOT_FINITE);
    CHECK(bp->sample_h(w, h, v, b2, 0, 0, 0) == CRBM_FAST_NOT_FINITE);
    set(b2, 1, 0), set(b1, 1, itemsize == 4 ? 1e31 : 1e301);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_NOT_FINITE);
    set(b1, 1, NAN);
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_NOT_FINITE);
    CHECK(bp->sample_v(w, v, h, b1, 0, 0, 0) == CRBM_FAST_NOT_FINITE);
    CHECK(bp->free_energy(w, &F, v, b1, b2) == CRBM_FAST_NOT_FINITE);

    CHECK(within(tau_v, 7, 7, nv) && within(tau_h, 7, 7, nh) && within(gamma, 7, 7, nv * nh));
    CHECK(info.n_iter == 7 && info.residual == 7 && info.log_z == 7 && F == 7 && within(h, 0, 0, nh) && within(v, 1, 1, nv));
    set(b1, 1, 0);        /* and an error leaves the workspace as it was: unlocked, with the weights it had */
    CHECK(RUN(w, tau_v, tau_h, gamma, &info, b1, b2, 0, 1, 0, 0, 0) == CRBM_FAST_OK);
    free(w), free(other), free(W), free(b1), free(b2), free(v), free(h), free(tau_v), free(tau_h), free(gamma);
}

int main(void)
{
    crbm_embed_kernels = kernels;
    for (int i = 0; (isa = crbm_isa_name(i)); i++)
        for (itemsize = 4; itemsize <= 8; itemsize += 4) {
            for (int nv = 0; nv < 150; nv += nv < 5 ? 1 : 29)
                for (int nh = 0; nh < 70; nh += nh < 3 ? 1 : 7)
                    for (double scale = 0.1; scale < 1000; scale *= 40)
                        good(nv, nh, scale);
            bad();
        }
    const crbm_fast_api newer = {.version = 9, .oldest = CRBM_FAST_API_VERSION + 1}, older = {.version = 0, .oldest = 0};
    CHECK(crbm_fast_check(bp) == CRBM_FAST_OK);
    CHECK(crbm_fast_check(NULL) == CRBM_FAST_NULL_POINTER);
    CHECK(crbm_fast_check(&newer) == CRBM_FAST_WRONG_VERSION);
    CHECK(crbm_fast_check(&older) == CRBM_FAST_WRONG_VERSION);
    for (int status = CRBM_FAST_WRONG_VERSION; status <= CRBM_FAST_NOT_CONVERGED; status++)
        for (int other = status + 1; other <= 2; other++)
            CHECK(strcmp(bp->error_text(status), bp->error_text(other)) != 0);
    CHECK(strcmp(bp->error_text(1234), "not a status of crbm_fast") == 0);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
