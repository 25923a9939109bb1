/* log_domain.h: BP with log messages, for any finite weights and biases.
 *
 * State: mu_ij = log m_ij.  With the cavity logits  r = theta_h - mu  (of h_j without v_i)  and
 * g = theta_v - lambda  (of v_i without h_j),
 *
 *   lambda_ij = f(W + r) - f(r)      theta_v = b1 + sum_j lambda_ij                          (Eqs. 8, 11)
 *   mu_ij     = f(W + g) - f(g)      theta_h = b2 + sum_i mu_ij                              (Eqs. 10, 9)
 *
 *   f(x) = max(0, x)          max-product
 *   f(x) = log(1 + exp(x))    sum-product; slower than sum_product.h, taken where exp(W) would overflow
 *
 * The hinge part of f(W + x) - f(x) is a line clipped to [W-, W+], W- = min(W, 0), W+ = max(W, 0): exact, and
 * finite for x = +-inf (clamped units), where the difference as written is inf - inf.
 */
#ifndef CRBM_LOG_DOMAIN_H
#define CRBM_LOG_DOMAIN_H

#include "common.h"

/* max(0, W+x) - max(0, x) = clip(W+ + sign(W) x, W-, W+). */
INLINE vreal hinge_difference(vreal W, vreal x)
{
    const vreal zero = v_set(0), low = v_min(W, zero), high = v_max(W, zero);
    const vint sign = (vint)v_set(R(-0.0)) & (vint)W;
    return v_min(v_max(high + (vreal)((vint)x ^ sign), low), high);
}

INLINE vreal message(int SOFT, vreal W, vreal x)
{
    vreal d = hinge_difference(W, x);
    if (SOFT) {
        d += v_log1p(v_exp(-v_abs(W + x))) - v_log1p(v_exp(-v_abs(x)));
        d = v_min(v_max(d, v_min(W, v_set(0))), v_max(W, v_set(0)));    /* rounding must not leave the range */
    }
    return d;
}

INLINE void log_group_as(int SOFT, crbm_rows *a)
{
    const ptrdiff_t ld = a->ld;
    const real *theta_h = a->theta_h;
    real *part = a->part, *field = a->field_v, *tau_v = a->tau_v;
    real change = 0;
    vreal far = v_set(0);
    for (ptrdiff_t j = 0; j < ld; j += LANES)
        v_store(part + j, v_set(0));
    for (ptrdiff_t i = 0; i < a->rows; i++) {
        const real *W_ = (const real *)a->weight + i * ld;
        real *mu_ = (real *)a->msg + i * ld, *cond = a->cond ? (real *)a->cond + i * ld : NULL;
        vreal sum = v_set(0);
        for (ptrdiff_t j = 0; j < ld; j += LANES)
            sum += message(SOFT, v_load(W_ + j), v_load(theta_h + j) - v_load(mu_ + j));
        field[i] = v_sum(sum);
        const vreal theta_v = v_set(((const real *)a->b1)[i] + field[i]);
        const real tau = v_logistic(theta_v)[0], step = tau > tau_v[i] ? tau - tau_v[i] : tau_v[i] - tau;
        change = step > change ? step : change;
        tau_v[i] = tau;
        for (ptrdiff_t j = 0; j < ld; j += LANES) {
            const vreal W = v_load(W_ + j), mu = v_load(mu_ + j);
            const vreal g = theta_v - message(SOFT, W, v_load(theta_h + j) - mu);
            vreal mu_new = message(SOFT, W, g);
            const vreal back = mu - mu_new;
            far = v_max(far, v_abs(back));
            mu_new += back * (real)a->damping;
            v_store(part + j, v_load(part + j) + mu_new);
            v_store(mu_ + j, mu_new);
            if (cond)
                v_store(cond + j, v_logistic(W + g));    /* after mu_new: cond may be msg */
        }
    }
    a->belief_change = change;
    a->message_change = -expm1(-(double)v_maximum(far));     /* of m, not of log m */
}

static void log_group(crbm_rows *a) { log_group_as(1, a); }
static void max_group(crbm_rows *a) { log_group_as(0, a); }

/* part := sum over the rows of mu. */
static void log_messages(crbm_rows *a)
{
    const real *mu_ = a->msg;
    real *part = a->part;
    for (ptrdiff_t j = 0; j < a->ld; j += LANES) {
        vreal sum = v_set(0);
        for (ptrdiff_t i = 0; i < a->rows; i++)
            sum += v_load(mu_ + i * a->ld + j);
        v_store(part + j, sum);
    }
}

/* Gamma = tau_v P(h=1 | v=1) = tau_v logistic(W + r). */
static void log_gamma(void *gamma, const crbm_rows *a, int add)
{
    const real *mu_ = a->msg, *W_ = a->weight, *theta_h = a->theta_h, *tau_v = a->tau_v;
    for (ptrdiff_t i = 0; i < a->rows; i++, mu_ += a->ld, W_ += a->ld)
        GAMMA_ROW((real *)gamma + i * a->nh, a->nh, add, j,
                  tau_v[i] * v_logistic(v_load(W_ + j) + v_load(theta_h + j) - v_load(mu_ + j)))
}

/* As sum_edges: log((1 - rho) + rho m) = f(theta_h) - f(r) with f = softplus, and field_v from m. */
static double log_edges(const crbm_rows *a)
{
    const real *mu_ = a->msg, *W_ = a->weight, *theta_h = a->theta_h;
    double total = 0;
    for (ptrdiff_t i = 0; i < a->rows; i++, mu_ += a->ld, W_ += a->ld) {
        vreal log_q = v_set(0), log_edge = v_set(0);
        for (ptrdiff_t j = 0; j < a->ld; j += LANES) {
            const vreal mu = v_load(mu_ + j), r = v_load(theta_h + j) - mu;
            log_q += message(1, v_load(W_ + j), r);
            log_edge += message(1, mu, r);
        }
        ((real *)a->field_v)[i] = v_sum(log_q);
        total += (double)v_sum(log_edge);
    }
    return total;
}

#endif /* CRBM_LOG_DOMAIN_H */
