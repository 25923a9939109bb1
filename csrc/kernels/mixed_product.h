/* mixed_product.h: the hidden -> visible half of mixed-product BP (max over v, sum over h).
 *
 * A visible unit sends m_ij = exp(W_ij v_i) for its most likely state v_i (Eq. 15): there is no state per
 * edge, and of Eq. 13's two factors only one is not trivial.  With E = exp(W), t1 = tau_h, t0 = 1 - tau_h,
 *
 *   v_i = 0:   q = t0 + E t1             field_v = sum_j log(t0 + E t1)
 *   v_i = 1:   q = E / (t1 + E t0)       field_v = sum_j W - sum_j log(t1 + E t0)            (Eq. 16)
 *
 * The visible -> hidden half, theta_h = b2 + v W, is a GEMM and not here.
 */
#ifndef CRBM_MIXED_PRODUCT_H
#define CRBM_MIXED_PRODUCT_H

#include "common.h"
#include "log_domain.h"

/* field_v of visible unit i in COUNT instances: they share the row E_, and their chains hide the latency. */
INLINE void mixed_row(int COUNT, real *field_v, const real *restrict E_, real row_sum, const real *v_map,
                      const real *tau_h0, const real *tau_h1, ptrdiff_t nv, ptrdiff_t ld, ptrdiff_t K)
{
    const real *other[4], *same[4];
    vreal log_q[4], product[4];
    for (int k = 0; k < COUNT; k++) {
        const int on = v_map[k * nv] > 0;
        other[k] = (on ? tau_h1 : tau_h0) + k * ld;
        same[k] = (on ? tau_h0 : tau_h1) + k * ld;
        log_q[k] = v_set(0);
    }
    for (ptrdiff_t j0 = 0; j0 < ld; j0 += K * LANES) {
        const ptrdiff_t j1 = ld - j0 < K * LANES ? ld : j0 + K * LANES;
        for (int k = 0; k < COUNT; k++)
            product[k] = v_set(1);
        for (ptrdiff_t j = j0; j < j1; j += LANES) {
            const vreal E = v_load(E_ + j);
            for (int k = 0; k < COUNT; k++)
                product[k] *= v_load(other[k] + j) + E * v_load(same[k] + j);
        }
        for (int k = 0; k < COUNT; k++)
            log_q[k] += v_log(product[k]);
    }
    for (int k = 0; k < COUNT; k++) {
        const real s = v_sum(log_q[k]);
        field_v[k * nv] = v_map[k * nv] > 0 ? row_sum - s : s;
    }
}

/* field_v (n, nv) for n instances.
 *   weight (nv, ld) exp(W)   row_sum (nv,) sum_j W   v_map (n, nv) 0 or 1   tau_h0, tau_h1 (n, ld)
 * Instances are the inner loop: a row of E is read once for all of them. */
static void mixed_field(void *field_v, const void *weight, const void *row_sum, const void *v_map,
                        const void *tau_h0, const void *tau_h1, ptrdiff_t n, ptrdiff_t nv, ptrdiff_t ld,
                        double max_weight)
{
    const ptrdiff_t K = factors(max_weight, 64);
    for (ptrdiff_t i = 0; i < nv; i++) {
        const real *E_ = (const real *)weight + i * ld;
        const real sum = ((const real *)row_sum)[i];
        for (ptrdiff_t k = 0; k < n;) {
            real *f = (real *)field_v + k * nv + i;
            const real *v = (const real *)v_map + k * nv + i;
            const real *t0 = (const real *)tau_h0 + k * ld, *t1 = (const real *)tau_h1 + k * ld;
            if (n - k >= 4) {
                mixed_row(4, f, E_, sum, v, t0, t1, nv, ld, K);
                k += 4;
            } else {
                mixed_row(1, f, E_, sum, v, t0, t1, nv, ld, K);
                k += 1;
            }
        }
    }
}

/* The same in logs, for weights too large for exp: sum_j f(W + r) - f(r), r = theta_h - W v, f = softplus.
 *   weight (nv, ld) W   theta_h (n, ld) */
static void mixed_field_log(void *field_v, const void *weight, const void *v_map, const void *theta_h,
                            ptrdiff_t n, ptrdiff_t nv, ptrdiff_t ld)
{
    for (ptrdiff_t i = 0; i < nv; i++) {
        const real *W_ = (const real *)weight + i * ld;
        for (ptrdiff_t k = 0; k < n; k++) {
            const real v = ((const real *)v_map)[k * nv + i];
            const real *theta = (const real *)theta_h + k * ld;
            vreal sum = v_set(0);
            for (ptrdiff_t j = 0; j < ld; j += LANES)
                sum += message(1, v_load(W_ + j), v_load(theta + j) - v_load(W_ + j) * v);
            ((real *)field_v)[k * nv + i] = v_sum(sum);
        }
    }
}

/* Gamma (rows, nh) := or += tau(v = 1, h = 1) (Eq. 18), from the two messages of each edge, in logs:
 *
 *   lambda = f(W + r) - f(r), r = theta_h_before - W sent_before     the last message h -> v (Eq. 13), f = softplus
 *   mu     = W sent                                                  the last message v -> h (Eq. 15)
 *   Gamma  = 1 / (1 + exp(a) + exp(b) + exp(a + b + W)),   a = lambda - theta_v - W,   b = mu - theta_h - W
 *
 * (Eq. 18 divided by its Gamma^11).  theta_v = +-inf clamps: Gamma is then 1 / (1 + exp(b)) or 0.  Every term is
 * positive, so the relative error is that of the exponents: a few ulp of |W| + |theta|.
 *   W (rows, ldw)   theta_v, sent, sent_before (rows,)   theta_h, theta_h_before (nh,) */
static void mixed_gamma(void *gamma, const void *W, ptrdiff_t ldw, const void *theta_v, const void *sent,
                        const void *sent_before, const void *theta_h, const void *theta_h_before, ptrdiff_t rows,
                        ptrdiff_t nh, int add)
{
    for (ptrdiff_t i = 0; i < rows; i++) {
        const real *W_ = (const real *)W + i * ldw;
        real *gamma_ = (real *)gamma + i * nh;
        const real theta = ((const real *)theta_v)[i], now = ((const real *)sent)[i];
        const real before = ((const real *)sent_before)[i];
        for (ptrdiff_t j = 0; j < nh; j += LANES) {
            const ptrdiff_t live = V_LIVE(j, nh);
            const vreal w = v_load_part(W_ + j, live, 0);
            const vreal r = v_load_part((const real *)theta_h_before + j, live, 0) - w * before;
            const vreal a = message(1, w, r) - theta - w;
            const vreal b = w * now - v_load_part((const real *)theta_h + j, live, 0) - w;
            vreal g = R(1.0) / (R(1.0) + v_exp(a) + v_exp(b) + v_exp(a + b + w));
            if (add)
                g += v_load_part(gamma_ + j, live, 0);
            v_store_part(gamma_ + j, g, live);
        }
    }
}

#endif /* CRBM_MIXED_PRODUCT_H */
