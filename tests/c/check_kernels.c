/* check_kernels.c: every kernel of every table on buffers of exactly the size of its contract.
 *
 * Built by tests/inference/test_sanitizers.py with the address and undefined-behaviour sanitizers, which find what a
 * wrong index does; the numbers are checked from Python.  Prints "N passed, 0 failed".
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crbm.h"
#include "memory.h"

static int passed, failed;
#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (condition)                                                                      \
            passed++;                                                                       \
        else {                                                                              \
            failed++;                                                                       \
            printf("%s:%d: %s (%s, %d bytes)\n", __FILE__, __LINE__, #condition, k->isa, k->itemsize); \
        }                                                                                   \
    } while (0)

static const crbm_kernels *k;

static void set(void *x, ptrdiff_t i, double value)
{
    if (k->itemsize == 4)
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}

static double get(const void *x, ptrdiff_t i)
{
    return k->itemsize == 4 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

/* n elements, aligned for padded arrays, with values in [low, high] */
static void *draw(ptrdiff_t n, double low, double high)
{
    void *x = crbm_alloc((size_t)(n * k->itemsize));
    for (ptrdiff_t i = 0; i < n; i++)
        set(x, i, low + (high - low) * rand() / RAND_MAX);
    return x;
}

static int all_finite(const void *x, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        if (!isfinite(get(x, i)))
            return 0;
    return 1;
}

static void descent(const void *W, const crbm_rows *given, ptrdiff_t nv, ptrdiff_t nh, ptrdiff_t ld, double scale)
{
    const int logs = scale >= k->max_weight;
    void *weight = draw(nv * ld, 0, 0), *theta_v = draw(nv, -2, 2), *theta_h = draw(ld, 0, 0), *b2 = draw(nh, -1, 1);
    void *tau_h0 = draw(ld, 0.5, 0.5), *tau_h1 = draw(ld, 0.5, 0.5), *part = draw(2 * ld, 0, 0), *scratch = draw(2 * ld, 0, 0);
    void *gamma = draw(nv * nh, 0, 0), *tau = draw(nv, 0, 1);
    crbm_rows r = *given;
    k->pad(weight, W, nv, nh, ld, logs ? CRBM_PLAIN : CRBM_ODDS);
    r.weight = weight, r.theta_v = theta_v, r.theta_h = theta_h, r.tau_h0 = tau_h0, r.tau_h1 = tau_h1;
    r.part = part, r.scratch = scratch, r.kappa = logs ? 0 : 1e4, r.relax = 0.5;
    for (int t = 0; t < 3; t++) {
        if (logs)
            k->descend_log_group(&r);
        else
            k->descend_group(&r);
        CHECK(all_finite(theta_v, nv));
        CHECK(k->descend_close(theta_h, tau_h0, tau_h1, b2, part, 1, nh, ld, r.kappa, r.relax) < 1.001);
        CHECK(all_finite(theta_h, ld));
    }
    for (int add = 0; add < 2; add++) {
        if (logs)
            k->descend_log_gamma(gamma, &r, add);
        else
            k->descend_gamma(gamma, &r, add);
        CHECK(all_finite(gamma, nv * nh) && k->max_abs(gamma, nv * nh) <= 1.00001 + add);
    }
    CHECK(isfinite(logs ? k->descend_log_energy(&r) : k->descend_energy(&r)));
    set(tau, 0, 1);
    k->logit(theta_v, tau, nv);
    CHECK(all_finite(theta_v, nv));
    free(weight), free(theta_v), free(theta_h), free(b2), free(tau_h0), free(tau_h1), free(part), free(scratch);
    free(gamma), free(tau);
}

static void rows(ptrdiff_t nv, ptrdiff_t nh, double scale)
{
    const ptrdiff_t ld = crbm_padded(nh, k->itemsize), edges = nv * ld;
    void *W = draw(nv * nh, -scale, scale), *E = draw(edges, 0, 0), *P = draw(edges, 0, 0);
    void *m = draw(edges, 1, 1), *mu = draw(edges, 0, 0), *cond = draw(edges, 0, 0);
    void *theta_h = draw(ld, 0, 0), *t0 = draw(ld, 0.5, 0.5), *t1 = draw(ld, 0.5, 0.5);
    void *b1 = draw(nv, -1, 1), *b2 = draw(nh, -1, 1), *field = draw(nv, 0, 0), *tau_v = draw(nv, 0.5, 0.5);
    void *part = draw(ld, 0, 0), *scratch = draw(ld, 0, 0), *gamma = draw(nv * nh, 0, 0);
    k->pad(E, W, nv, nh, ld, CRBM_EXP);
    k->pad(P, W, nv, nh, ld, CRBM_PLAIN);
    k->close_h(theta_h, t0, t1, b2, part, 0, nh, ld);
    crbm_rows r = {.msg = m, .weight = E, .theta_h = theta_h, .tau_h0 = t0, .tau_h1 = t1, .b1 = b1,
                   .field_v = field, .tau_v = tau_v, .part = part, .scratch = scratch, .rows = nv, .nh = nh,
                   .ld = ld, .max_weight = k->max_abs(W, nv * nh)};
    for (int variant = 0; variant < 8; variant++) {
        r.damping = variant & 1 ? 0.5 : 0;
        r.track = variant & 2;
        r.cond = variant & 4 ? cond : NULL;
        r.msg = m;
        r.weight = E;
        if (scale < k->max_weight) {
            k->sum_group(&r);
            CHECK(all_finite(part, ld) && all_finite(field, nv) && all_finite(m, edges));
        }
        if (r.cond && scale < k->max_weight) {        /* cond may be msg: then the messages are lost */
            void *copy = draw(edges, 1, 1);
            r.msg = r.cond = copy;
            k->sum_group(&r);
            r.msg = m;
            r.cond = cond;
            CHECK(k->max_abs(copy, edges) <= 1);
            free(copy);
        }
        r.msg = mu;
        r.weight = P;
        k->log_group(&r);
        CHECK(all_finite(part, ld) && all_finite(mu, edges));
        k->max_group(&r);
        CHECK(all_finite(part, ld) && all_finite(mu, edges));
    }
    CHECK(k->close_h(theta_h, t0, t1, b2, part, 1, nh, ld) <= 1);
    for (int add = 0; add < 2; add++) {
        k->gamma_cond(gamma, &r, add);
        k->log_gamma(gamma, &r, add);
        CHECK(isfinite(k->log_edges(&r)));
        r.msg = m;
        r.weight = E;
        if (scale < k->max_weight) {
            k->sum_gamma(gamma, &r, add);
            CHECK(isfinite(k->sum_edges(&r)));
            k->sum_messages(&r);
        }
        r.msg = mu;
        r.weight = P;
        k->log_messages(&r);
    }
    CHECK(all_finite(gamma, nv * nh));
    descent(W, &r, nv, nh, ld, scale);
    k->unpad(gamma, mu, nv, nh, ld, CRBM_PLAIN);
    k->unpad(gamma, m, nv, nh, ld, CRBM_EXP);
    for (ptrdiff_t n = 1; n < 6; n++) {
        void *v = draw(n * nv, 0, 1), *f = draw(n * nv, 0, 0), *sums = draw(nv, 0, 0);
        void *th = draw(n * ld, -1, 1), *h0 = draw(n * ld, 0.5, 0.5), *h1 = draw(n * ld, 0.5, 0.5);
        k->decode(v, v, 0.5, n * nv);
        k->row_sums(sums, W, nv, nh);
        if (scale < k->max_weight) {
            k->mixed_field(f, E, sums, v, h0, h1, n, nv, ld, scale);
            CHECK(all_finite(f, n * nv));
        }
        k->mixed_field_log(f, P, v, th, n, nv, ld);
        CHECK(all_finite(f, n * nv));
        if (n > 0) {
            k->mixed_gamma(gamma, W, nh, f, v, v, th, th, nv, nh, 0);
            CHECK(all_finite(gamma, nv * nh) && k->max_abs(gamma, nv * nh) <= 1);
            k->mixed_gamma(gamma, W, nh, f, v, v, th, th, nv, nh, 1);
            CHECK(all_finite(gamma, nv * nh) && k->max_abs(gamma, nv * nh) <= 2);
        }
        void *b = draw(n * nv, -1, 1);
        double change[5];
        crbm_ascent a = {.v = v, .theta_v = f, .theta_h = th, .tau_h0 = h0, .tau_h1 = h1, .change = change, .b1 = b,
                         .weight = E, .row_sum = sums, .W = W, .ldw = nh, .n = n, .nv = nv, .nh = nh, .ld = ld,
                         .max_weight = scale, .tol = 1e-3};
        if (scale < k->max_weight) {
            k->mixed_ascend(&a);
            CHECK(all_finite(f, n * nv) && all_finite(th, n * ld) && k->max_abs(h1, n * ld) <= 1);
        }
        a.weight = P;
        k->mixed_ascend_log(&a);
        CHECK(all_finite(f, n * nv) && all_finite(th, n * ld) && k->max_abs(v, n * nv) <= 1);
        k->max_ascend(&a);
        CHECK(all_finite(f, n * nv) && isfinite(change[0]));
        free(v), free(f), free(sums), free(th), free(h0), free(h1), free(b);
    }
    free(W), free(E), free(P), free(m), free(mu), free(cond), free(theta_h), free(t0), free(t1), free(b1);
    free(b2), free(field), free(tau_v), free(part), free(scratch), free(gamma);
}

static void vectors(ptrdiff_t n)
{
    void *x = draw(n, -3, 3), *y = draw(n, -3, 3), *out = draw(n, 0, 0);
    k->fill(out, 2, n);
    k->add(out, x, y, n);
    k->multiply(out, x, y, n);
    k->squares(out, x, n);
    CHECK(k->max_abs(x, n) <= 3);
    CHECK(k->first_beyond(x, 4, n) == -1);
    k->logistic_step(out, x, -1, 0, n);
    CHECK(k->logistic_step(out, x, 1, 0.5, n) <= 1);
    k->variance(y, out, n);
    k->onsager(y, x, out, n);
    k->blend(y, x, 0.5, n);
    CHECK(k->max_change(x, y, n) <= 10);
    CHECK(isfinite(k->softplus_sum(x, n)) && isfinite(k->relu_sum(x, n)) && isfinite(k->entropy_sum(out, n)));
    CHECK(isfinite(k->node_sum(x, y, n)) && isfinite(k->mean_sum(x, y, n)) && isfinite(k->dot_free(x, y, n)));
    CHECK(k->sum_squares(x, n) <= 9.001 * (double)n);
    {
        void *p = draw(n, -1, 1), *m = draw(n, 0, 0), *s = draw(n, 0, 0);
        double squares = -1;
        CHECK(k->momentum_step(p, NULL, x, 0.1, 0, 0, &squares, n) <= 0.301);
        CHECK(k->momentum_step(p, m, x, 0.1, 0.9, 0.01, &squares, n) < 1);
        k->fill(m, 0, n);
        CHECK(k->adam_step(p, m, s, x, 0.01, 0.9, 0.999, 1e-8, 0, &squares, n) < 1);
        CHECK(squares == k->sum_squares(x, n));
        CHECK(all_finite(p, n) && all_finite(m, n) && all_finite(s, n));
        free(p), free(m), free(s);
    }
    for (ptrdiff_t rows = 0; rows < 4; rows++) {
        void *B = draw(rows * n, -1, 1), *a = draw(rows, 1, 1), *values = draw(rows, 0, 0);
        int32_t *index = malloc((size_t)rows * sizeof *index);
        if (rows > 1)
            set(a, 0, 0);
        CHECK(k->nonzeros(a, rows) == rows - (rows > 1));
        k->combine_rows(out, a, 1, B, n, 0, values, index, rows, n);
        k->combine_rows(out, a, 1, B, n, 0.5, values, index, rows, n);
        CHECK(k->max_abs(out, n) <= 6);
        free(B), free(a), free(values), free(index);
    }
    for (ptrdiff_t rows = 0; rows < 10; rows += 3) {
        const ptrdiff_t ld = crbm_padded(n, k->itemsize);
        void *B = draw(rows * ld, 1, 1), *one = draw(ld, 1, 1), *sums = draw(rows, 0, 0);
        k->dot_rows(sums, B, one, rows, ld);
        for (ptrdiff_t i = 0; i < rows; i++)
            CHECK(get(sums, i) == (double)ld);
        free(B), free(one), free(sums);
    }
    if (n > 0)
        set(x, n - 1, INFINITY);
    CHECK(isfinite(k->node_sum(x, y, n)) && isfinite(k->mean_sum(x, y, n)) && isfinite(k->dot_free(x, y, n)));
    CHECK(k->first_beyond(x, 4, n) == n - 1);
    k->bernoulli(out, x, 1, 2, 3, n);
    CHECK(k->max_abs(out, n) <= 1);
    free(x), free(y), free(out);
}

int main(void)
{
    const int sizes[] = {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 130, 1024};
    for (int i = 0; crbm_isa_name(i); i++)
        for (int itemsize = 4; itemsize <= 8; itemsize += 4) {
            k = crbm_select(crbm_isa_name(i), itemsize);
            for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                vectors(sizes[s]);
                for (ptrdiff_t nv = 1; nv <= CRBM_GROUP; nv += nv < 5 ? 1 : 9)
                    for (double scale = 0.1; scale < 1000; scale *= 8)
                        rows(nv, sizes[s], scale);
            }
        }
    CHECK(crbm_select("nonsense", 4) == NULL);
    CHECK(crbm_select(NULL, 2) == NULL);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
