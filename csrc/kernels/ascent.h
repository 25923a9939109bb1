/* ascent.h: coordinate ascent on S(v), one visible unit after the other.
 *
 *   S(v) = b1 v + sum_j f(theta_h_j),   theta_h = b2 + v W
 *   f(x) = log(1 + exp(x))    log sum_h exp(-E(v, h)), what mixed-product seeks the best v for
 *   f(x) = max(0, x)          max_h -E(v, h), what max-product seeks the best v for
 *
 * With the hidden fields that leave v_i out, r = theta_h - W_i v_i,
 *
 *   theta_v_i = S(v_i = 1) - S(v_i = 0) = b1_i + sum_j f(W_ij + r_j) - f(r_j)
 *
 * is exactly theta_v of mixed-product BP (Eqs. 13, 15, 16): BP sets all units to the signs of their theta_v at once, and
 * so may go to and fro between two states; here each unit sees the units before it.  S rises with every flip, so there
 * is an end, and a state that no flip improves is a fixed point of BP.  Fields come from mixed_product.h, so a sweep
 * without flips costs what the h -> v half of BP does; a flip costs nh logistics.
 */
#ifndef CRBM_ASCENT_H
#define CRBM_ASCENT_H

#include "log_domain.h"
#include "mixed_product.h"

/* theta_v_i - b1_i of instance n, in logs. */
INLINE real ascent_field(int SOFT, const crbm_ascent *a, ptrdiff_t n, ptrdiff_t i)
{
    const real *W_ = (const real *)a->weight + i * a->ld, *theta = (const real *)a->theta_h + n * a->ld;
    const real v = ((const real *)a->v)[n * a->nv + i];
    vreal sum = v_set(0);
    for (ptrdiff_t j = 0; j < a->ld; j += LANES)
        sum += message(SOFT, v_load(W_ + j), v_load(theta + j) - v_load(W_ + j) * v);
    return v_sum(sum);
}

/* Turn v_i of instance n around: theta_h and, where they are read, tau_h. */
INLINE void flip(int TAU, const crbm_ascent *a, ptrdiff_t n, ptrdiff_t i)
{
    const real *W_ = (const real *)a->W + i * a->ldw;
    real *v = (real *)a->v + n * a->nv + i, *theta = (real *)a->theta_h + n * a->ld;
    const real step = *v > 0 ? -1 : 1;
    *v += step;
    for (ptrdiff_t j = 0; j < a->nh; j += LANES) {
        const vreal t = v_load(theta + j) + v_load_part(W_ + j, V_LIVE(j, a->nh), 0) * step;
        v_store(theta + j, t);
        if (TAU) {
            v_store((real *)a->tau_h1 + n * a->ld + j, v_logistic(t));
            v_store((real *)a->tau_h0 + n * a->ld + j, v_logistic(-t));
        }
    }
}

INLINE void ascend(int SOFT, int PRODUCT, crbm_ascent *a)
{
    const ptrdiff_t nv = a->nv, ld = a->ld, K = factors(a->max_weight, 64);
    const real *b1 = a->b1, *row_sum = a->row_sum;
    real *v = a->v, *theta_v = a->theta_v;
    for (ptrdiff_t n = 0; n < a->n; n++)
        a->change[n] = 0;
    for (ptrdiff_t i = 0; i < nv; i++) {
        if (PRODUCT) {
            const real *E_ = (const real *)a->weight + i * ld, *t0 = a->tau_h0, *t1 = a->tau_h1;
            ptrdiff_t n = 0;
            for (; n + 4 <= a->n; n += 4)
                mixed_row(4, theta_v + n * nv + i, E_, row_sum[i], v + n * nv + i, t0 + n * ld, t1 + n * ld, nv, ld, K);
            for (; n < a->n; n++)
                mixed_row(1, theta_v + n * nv + i, E_, row_sum[i], v + n * nv + i, t0 + n * ld, t1 + n * ld, nv, ld, K);
        } else
            for (ptrdiff_t n = 0; n < a->n; n++)
                theta_v[n * nv + i] = ascent_field(SOFT, a, n, i);
        for (ptrdiff_t n = 0; n < a->n; n++) {
            real *theta = theta_v + n * nv + i;
            *theta += b1[n * nv + i];
            const int on = v[n * nv + i] > 0;
            const double gain = on ? -(double)*theta : (double)*theta;
            a->change[n] = gain > a->change[n] ? gain : a->change[n];
            if (gain > a->tol)
                flip(PRODUCT, a, n, i);
            else if (gain >= 0)        /* a tie, to within tol: the belief still says what the state is */
                *theta = on ? (CRBM_REAL == 32 ? R(4.8e-7) : R(8.9e-16)) : 0;
        }
    }
}

/* One sweep over the units of n instances, the rows of W in order; see crbm_ascent.  Of S with the soft f from exp(W), of
 * S with the soft f from W, and with the hard one from W. */
static void mixed_ascend(crbm_ascent *a) { ascend(1, 1, a); }
static void mixed_ascend_log(crbm_ascent *a) { ascend(1, 0, a); }
static void max_ascend(crbm_ascent *a) { ascend(0, 0, a); }

#endif /* CRBM_ASCENT_H */
