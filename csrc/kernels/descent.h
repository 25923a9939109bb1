/* descent.h: one alternation of descent on the Bethe free energy, in a single sweep over the edges.
 *
 * Write a, b for tau_v, tau_h, theta for the logit of a, W = W_ij > 0 and A = exp(W) - 1.  The two beliefs of an
 * edge determine its pairwise belief (Welling & Teh, UAI 2001), and with it the messages that the edge would send:
 *
 *   u = a (1-b) - (1-a) b = a - b, exact also where both are near 1      P = 1 + A u      x = A (1-a) b      R = sqrt(P^2 + 4 x)
 *   q = 1 + 2 A b / (R + P)        where P > 0          (message h_j -> v_i, scaled to 1 at v_i = 0)
 *     = 1 + (R + |P|) / (2 (1-a))  elsewhere
 *
 * so the Bethe free energy is a function F(a, b) of the beliefs alone.  Where W < 0, v_i is flipped: a and 1-a change
 * places, and q becomes 1/q; for h_j exchange a and b, and flip h_j.  R >= 1 + A |u|, so that R + |P| >= 2: no denominator is
 * small, and log q is as exact as if theta were off by a few ulp, to a few ulp times 1 + t.
 *
 * For fixed b, F is a sum of convex functions of the a_i, with
 *
 *   dF/da_i = g(theta_i) = theta_i - b1_i - sum_j log q_ij
 *   dg/dtheta_i = 1 + sum_j t_ij       t = A cov(v_i, h_j) / R = (x - (R - P) / 2) / R >= 0
 *
 * THE STEP.  g' >= 1, so the root of g is at most |g| away, and F falls as long as it is not passed.
 * In terms of the cavity logits r of h_j and c of v_i, with alpha = logistic(W+r) - logistic(r) and beta likewise from c:
 * t = alpha beta / (1 - alpha beta), and along theta at fixed b, dc = dtheta / (1 - alpha beta), dr = -beta dc.  Since
 * |d log alpha / dr| <= 1 - alpha,
 *
 *   |d log(alpha beta) / dtheta| <= (beta (1 - alpha) + 1 - beta) / (1 - alpha beta) = 1,   so   |t'| <= t (1 + t).
 *
 * With T = sum_j t_ij that gives T' <= T (1 + T), and T' <= kappa T with kappa = 1 + max t = cosh(max|W| / 4)^2: over a way
 * of x, g changes by at most log((1-z) / (exp(-x) - z)), z = T / (1 + T), and by at most x + T (exp(kappa x) - 1) / kappa
 * <= (1 + T) (exp(kappa x) - 1) / kappa.  So neither of
 *
 *   log((1 + T) / (T + exp(-|g|)))          log(1 + kappa |g| / (1 + T)) / kappa
 *
 * passes the root; the step is the longer.  Near the root both are Newton's.  F falls in every half of an alternation,
 * whatever the weights, without a line search, without damping and without a look at F.  How many steps it takes is
 * another matter: two units that are undecided and locked by a strong weight move by O(1 / T) ~ exp(-|W| / 2) at a time.
 *
 * OVER-RELAXATION.  Near its end an alternation is a step of Gauss and Seidel's method in two blocks.  Its error shrinks by
 * a factor lambda; if each step x is made longer, (1 + omega) x with omega < 1, then 1 - lambda grows (1 + omega) /
 * (1 - omega) times where lambda is near 1, but lambda is never below omega: hence an omega that begins at 0.
 * |d log a(1-a) / dtheta| <= 1 and |d log g' / dtheta| <= T, which grows as above, so over a way of 2 x their product
 * changes by at most 1 / (exp(-2 x) (1 + T) - T) <= 1 / (1 - y), y = 2 (1 + T) x.  With the root X >= x away, what F falls
 * before it is at least k X^2 / 2 and what it rises behind at most k / (1 - y) (omega X)^2 / 2: F falls if omega^2 <=
 * 1 - y, and omega <= 1 - y is enough.  With omega = (t - 1) / (t + 39) in alternation t,
 * at most 0.8, random RBMs with weights from N(0, 0.1) to N(0, 3) take half the alternations in the mean, and the slowest
 * a quarter (793 -> 200).
 *
 * Tried and lost: Newton's step alone (from N(0, 1) at 300x100 on it never converges), either bound alone (2 to 5 times
 * the alternations at N(0, 3)), several steps per half (no fewer sweeps).
 */
#ifndef CRBM_DESCENT_H
#define CRBM_DESCENT_H

#include "log_domain.h"

/* --- the edges: the product form --------------------------------------------------------------------------------- */

/* q = n / d and t of one unit (own) from another: own1 = P(1), own0 = P(0), other1, other0 likewise.
 * odds = sign(W) A / 2.  Factors lie in [exp(-|W|), 2 exp(|W|)]. */
INLINE void edge_factors(vreal odds, vreal own1, vreal own0, vreal other1, vreal other0, vreal *n, vreal *d, vreal *t)
{
    const vmask flipped = v_above(v_set(0), odds);
    const vreal h = v_abs(odds), one = v_either(flipped, own0, own1), zero = v_either(flipped, own1, own0);
    const vreal w = zero * other1, p = h * (one * other0 - w) + R(0.5);        /* P / 2 */
    const vreal A = h + h, x = A * w, y = p * p + x;
    vreal inverse;
    const vreal r = v_root(y, &inverse), half = r + v_abs(p);        /* R / 2, (R + |P|) / 2 */
    const vmask positive = v_above(p, v_set(0));
    const vreal top = half + v_either(positive, A * other1, zero), low = v_either(positive, half, zero);
    *n = v_either(flipped, low, top);
    *d = v_either(flipped, top, low);
    *t = (x - (r - p)) * inverse;        /* 2 t; its rounding error, of either sign, is below 4 ulp of 1 */
}

/* How many of these factors may be multiplied. */
INLINE ptrdiff_t edge_product(const crbm_rows *a) { return factors(a->max_weight + 0.7, CRBM_GROUP); }

/* field := sum_j log q_ij and slope := sum_j t_ij of ROWS rows, whose beliefs are in tau1 and tau0. */
INLINE void descent_rows(int ROWS, const crbm_rows *a, ptrdiff_t first, const real *tau1, const real *tau0, real *field,
                         real *slope)
{
    const ptrdiff_t ld = a->ld, K = edge_product(a);
    const real *restrict odds_ = (const real *)a->weight + first * ld;
    const real *restrict t0_ = a->tau_h0, *restrict t1_ = a->tau_h1;
    vreal log_q[4], prod_n[4], prod_d[4], sum_t[4], one[4], zero[4];
    for (int r = 0; r < ROWS; r++) {
        log_q[r] = sum_t[r] = v_set(0);
        one[r] = v_set(tau1[r]);
        zero[r] = v_set(tau0[r]);
    }
    for (ptrdiff_t j0 = 0; j0 < ld; j0 += K * LANES) {
        const ptrdiff_t j1 = ld - j0 < K * LANES ? ld : j0 + K * LANES;
        for (int r = 0; r < ROWS; r++)
            prod_n[r] = prod_d[r] = v_set(1);
        for (ptrdiff_t j = j0; j < j1; j += LANES) {
            const vreal t0 = v_load(t0_ + j), t1 = v_load(t1_ + j);
            for (int r = 0; r < ROWS; r++) {
                vreal n, d, t;
                edge_factors(v_load(odds_ + r * ld + j), one[r], zero[r], t1, t0, &n, &d, &t);
                prod_n[r] *= n;
                prod_d[r] *= d;
                sum_t[r] += t;
            }
        }
        for (int r = 0; r < ROWS; r++)
            log_q[r] += v_log(prod_n[r] / prod_d[r]);
    }
    for (int r = 0; r < ROWS; r++) {
        field[r] = v_sum(log_q[r]);
        slope[r] = R(0.5) * v_sum(sum_t[r]);
    }
}

/* The factors of m_ij, v_i -> h_j, of ROWS rows into the products down the columns, n and d (ld,), and t into sum_t. */
INLINE void descent_columns(int ROWS, const crbm_rows *a, ptrdiff_t first, const real *tau1, const real *tau0,
                            real *restrict n_, real *restrict d_, real *restrict sum_, int fresh)
{
    const ptrdiff_t ld = a->ld, next = CRBM_GROUP * ld * (ptrdiff_t)sizeof(real);
    const real *odds_ = (const real *)a->weight + first * ld;
    const real *restrict t0_ = a->tau_h0, *restrict t1_ = a->tau_h1;
    vreal one[4], zero[4];
    for (int r = 0; r < ROWS; r++) {
        one[r] = v_set(tau1[r]);
        zero[r] = v_set(tau0[r]);
    }
    for (ptrdiff_t j = 0; j < ld; j += LANES) {
        const vreal t0 = v_load(t0_ + j), t1 = v_load(t1_ + j);
        vreal prod_n = fresh ? v_set(1) : v_load(n_ + j), prod_d = fresh ? v_set(1) : v_load(d_ + j);
        vreal sum_t = v_load(sum_ + j);
        for (int r = 0; r < ROWS; r++) {
            vreal n, d, t;
            edge_factors(v_load(odds_ + r * ld + j), t1, t0, one[r], zero[r], &n, &d, &t);
            v_prefetch(odds_ + r * ld + j, next);
            prod_n *= n;
            prod_d *= d;
            sum_t += t;
        }
        v_store(n_ + j, prod_n);
        v_store(d_ + j, prod_d);
        v_store(sum_ + j, sum_t);
    }
}

/* --- the edges: in logs, for any weights --------------------------------------------------------------------------- */

/* log(1 - exp(-x)) for x >= 0, -inf at 0. */
INLINE vreal log_1m_exp(vreal x)
{
    const vreal e = v_exp(-x), rest = R(1.0) - e, smallest = v_set((real)(CRBM_REAL == 32 ? 1e-37 : 1e-300));
    /* 1 - e, its rounding corrected as in v_log1p; for x near 0 it is x */
    const vreal exact = v_either(v_above(rest, v_set(R(0.5))), rest, -v_expm1(-x));
    return v_either(v_above(x, v_set(0)), v_log(v_max(exact, smallest)), v_set(-(real)INFINITY));
}

INLINE vreal log_add(vreal a, vreal b)        /* log(exp(a) + exp(b)), not both -inf */
{
    const vreal far = v_abs(a - b);
    return v_max(a, b) + v_log1p(v_exp(-far));
}

typedef struct log_edge {
    vreal w, l1, l0, k1, k0;  /* |W|; log of P(v=1), P(v=0), flipped where W < 0, and of P(h=1), P(h=0)          */
    vreal to_v, to_h;         /* log of P(h=1 | v=0) / P(h=1) and of P(v=1 | h=0) / P(v=1)                       */
    vreal odds_v, odds_h;     /* those + log A: q = 1 + P(h=1) exp(odds_v), m = 1 + P(v=1) exp(odds_h)           */
    vreal log_q, log_m;       /* the messages, v flipped                                                         */
    vreal t;
} log_edge;

/* All of an edge from W and the logits, of which theta_v may be infinite.  Every sum is one of positive terms; where
 * A |u| > 1, P and R are computed divided by A, whose logarithm may be far larger than what is added to it. */
INLINE log_edge edge_in_logs(vreal W, vreal theta_v, vreal theta_h)
{
    const vreal log2 = v_set(R(0.69314718055994530942)), none = v_set(-(real)INFINITY), zero = v_set(0);
    const vreal theta = v_either(v_above(zero, W), -theta_v, theta_v), gap = theta - theta_h;
    const vmask up = v_above(gap, zero);        /* u > 0 */
    log_edge e;
    e.w = v_abs(W);
    e.l1 = -v_softplus(-theta), e.l0 = -v_softplus(theta);
    e.k1 = -v_softplus(-theta_h), e.k0 = -v_softplus(theta_h);
    const vreal log_A = e.w + log_1m_exp(e.w);
    const vreal v_alone = e.l1 + e.k0, h_alone = e.l0 + e.k1;
    const vreal same = v_either(up, v_alone, h_alone), cross = v_either(up, h_alone, v_alone);
    const vreal log_u = same + log_1m_exp(v_abs(gap)), y = log_A + log_u;        /* log |u|, log A |u| */
    const vmask above = v_above(y, zero);                                        /* 1 - A |u| < 0 */
    const vreal scale = v_either(above, log_A, zero), rest = log_A - scale, base = v_either(above, log_u, zero);
    /* logarithms of 1 + A |u|, |1 - A |u||, R, and of R + P for both, less `scale` */
    const vreal plus = base + v_log1p(v_exp(-v_abs(y))), minus = base + log_1m_exp(v_abs(y));
    const vreal root = plus + R(0.5) * v_softplus(log2 + log2 + rest + cross - plus - plus - scale);
    const vreal T_plus = log_add(root, plus), T_minus = log_add(root, minus);
    /* 2 / (R + P), and where P <= 0 for one of the two, (R + |P|) / (2 A P(v=0) P(h=1)) or with v and h exchanged */
    const vreal simple = log2 - T_plus, less = log2 - T_minus, beyond = T_minus - log2 - same;
    const vreal other = v_either(above, beyond, less);
    e.to_v = v_either(up, simple - scale, other);
    e.to_h = v_either(up, other, simple - scale);
    const vreal simple_odds = simple + rest, other_odds = other + log_A;
    e.odds_v = v_either(up, simple_odds, other_odds);
    e.odds_h = v_either(up, other_odds, simple_odds);
    e.log_q = v_softplus(e.k1 + e.odds_v);
    e.log_m = v_softplus(e.l1 + e.odds_h);
    const vreal log_t = v_alone + h_alone + simple_odds + (other + rest) - root;
    e.t = v_exp(v_either(v_above(e.w, zero), log_t, none));
    return e;
}

/* field and slope of one row, and the log messages and t of that row added to the columns, as above. */
INLINE void descent_row_in_logs(const crbm_rows *a, ptrdiff_t i, real theta_v, real *field, real *slope)
{
    const real *W_ = (const real *)a->weight + i * a->ld, *theta_h = a->theta_h;
    vreal log_q = v_set(0), sum_t = v_set(0);
    for (ptrdiff_t j = 0; j < a->ld; j += LANES) {
        const vreal W = v_load(W_ + j);
        const log_edge e = edge_in_logs(W, v_set(theta_v), v_load(theta_h + j));
        log_q += v_either(v_above(v_set(0), W), -e.log_q, e.log_q);
        sum_t += e.t;
    }
    *field = v_sum(log_q);
    *slope = v_sum(sum_t);
}

INLINE void descent_column_in_logs(const crbm_rows *a, ptrdiff_t i, real theta_v, real *log_m, real *sum_t)
{
    const real *W_ = (const real *)a->weight + i * a->ld, *theta_h = a->theta_h;
    for (ptrdiff_t j = 0; j < a->ld; j += LANES) {
        const vreal W = v_load(W_ + j);
        const log_edge e = edge_in_logs(W, v_set(theta_v), v_load(theta_h + j));
        /* W < 0: the message to h with h flipped in place of v, 1 / (1 + A P(v=0 | h=1)) */
        const vreal m = v_either(v_above(v_set(0), W), -v_softplus(e.l0 + e.odds_v), e.log_m);
        v_store(log_m + j, v_load(log_m + j) + m);
        v_store(sum_t + j, v_load(sum_t + j) + e.t);
    }
}

/* P(unit = 1) at the logit x.  Not below 1e-18 or 1e-150, which changes nothing next to 1, so that no product of two is a
 * denormal number: saturated units made a sweep three times as long. */
INLINE vreal belief_at(vreal x)
{
    return v_max(v_logistic(x), v_set((real)(CRBM_REAL == 32 ? 1e-18 : 1e-150)));
}

/* --- the units ------------------------------------------------------------------------------------------------------ */

/* theta after a step towards the root of g, `target` = theta - g; T = sum_j t_ij up to rounding errors.  kappa = 0: only
 * the first bound.  The step is prolonged by a part of itself, `relax` at most. */
INLINE vreal safe_step(vreal theta, vreal target, vreal T, real kappa, real relax)
{
    const vreal far = v_abs(target - theta), floor = v_set((real)(CRBM_REAL == 32 ? 0x1p-20 : 0x1p-48));
    const vreal sum = v_max(T, floor), slope = sum + R(1.0);
    /* log(1 + u), u = (1 - e) / (T + e): not log of the quotient, which is 1 where T is large */
    const vreal e = v_exp(-far), u = (R(1.0) - e) / (sum + e), one = v_set(1);
    vreal step = v_either(v_above(u, one), v_log(u + R(1.0)), v_log1p(v_min(u, one)));
    if (kappa > 0)
        step = v_max(step, v_log(far * kappa / slope + R(1.0)) * (R(1.0) / kappa));
    step = v_min(v_max(step, v_set(0)), far);
    step += step * v_min(v_set(relax), v_max(R(1.0) - (slope + slope) * step, v_set(0)));
    return v_either(v_above(target, theta), theta + step, theta - step);
}

/* How far the odds of a unit are from those that its neighbours call for, relatively: 1 - exp(-|theta - target|), for odds
 * up to exp(1e3) in float, exp(1e9) in double, where a logit has a precision of 1e-4 or 1e-7.  Never less than the change of
 * the belief, which saturated units hide: two that are tied by W = 40, both at 1e-8, may be on their way to 0.7. */
INLINE vreal odds_change(vreal theta, vreal target)
{
    const vreal most = v_set((real)(CRBM_REAL == 32 ? 1e3 : 1e9));
    const vreal far = v_abs(v_min(v_max(theta, -most), most) - v_min(v_max(target, -most), most));
    return v_min(-v_expm1(-v_min(far, v_set(60))), v_set(1));
}

/* A step of `count` visible units: theta_v, and tau1 and tau0 after it.  Returns the largest odds_change. */
INLINE real step_rows(const crbm_rows *a, ptrdiff_t first, ptrdiff_t count, const real *field, const real *slope,
                      real *tau1, real *tau0)
{
    const real *b1 = (const real *)a->b1 + first;
    real *theta_ = (real *)a->theta_v + first;
    const real kappa = (real)a->kappa;
    vreal change = v_set(0);
    for (ptrdiff_t r = 0; r < count; r += LANES) {
        const ptrdiff_t live = V_LIVE(r, count);
        const vreal b = v_load_part(b1 + r, live, 0), theta = v_load_part(theta_ + r, live, 0);
        const vreal target = b + v_load_part(field + r, live, 0);
        const vmask clamped = v_above(v_abs(b), v_set((real)(CRBM_REAL == 32 ? 1e35 : 1e305)));
        const vreal next = v_either(clamped, b, safe_step(theta, target, v_load_part(slope + r, live, 0), kappa, (real)a->relax));
        change = v_max(change, odds_change(theta, target));
        v_store_part(theta_ + r, next, live);
        v_store_part(tau1 + r, belief_at(next), live);
        v_store_part(tau0 + r, belief_at(-next), live);
    }
    return v_maximum(change);
}

INLINE void beliefs_of_rows(const crbm_rows *a, ptrdiff_t first, ptrdiff_t count, real *tau1, real *tau0)
{
    const real *theta = (const real *)a->theta_v + first;
    for (ptrdiff_t r = 0; r < count; r += LANES) {
        const ptrdiff_t live = V_LIVE(r, count);
        const vreal x = v_load_part(theta + r, live, 0);
        v_store_part(tau1 + r, belief_at(x), live);
        v_store_part(tau0 + r, belief_at(-x), live);
    }
}

/* --- the kernels ---------------------------------------------------------------------------------------------------- */

/* One alternation on a group of rows: a step of every visible unit given tau_h, and what the hidden units' step needs of
 * these rows: part (2, ld) := sum of log m, sum of t. */
static void descend_group(crbm_rows *a)
{
    const ptrdiff_t ld = a->ld, K = edge_product(a), block = block_rows(ld);
    real *log_m = a->part, *sum_t = log_m + ld, *n = a->scratch, *d = n + ld;
    real tau1[CRBM_GROUP], tau0[CRBM_GROUP], slope[CRBM_GROUP], *field = a->field_v, change = 0;
    for (ptrdiff_t j = 0; j < ld; j++)
        sum_t[j] = 0;
    for (ptrdiff_t first = 0; first < a->rows; first += block) {
        const ptrdiff_t end = a->rows - first < block ? a->rows : first + block, four = first + (end - first) / 4 * 4;
        beliefs_of_rows(a, first, end - first, tau1, tau0);
        for (ptrdiff_t i = first; i < four; i += 4)
            descent_rows(4, a, i, tau1 + (i - first), tau0 + (i - first), field + i, slope + (i - first));
        for (ptrdiff_t i = four; i < end; i++)
            descent_rows(1, a, i, tau1 + (i - first), tau0 + (i - first), field + i, slope + (i - first));
        const real c = step_rows(a, first, end - first, field + first, slope, tau1, tau0);
        change = c > change ? c : change;
        for (ptrdiff_t i = first; i < end;) {
            const int fresh = i % K == 0;
            const real *one = tau1 + (i - first), *zero = tau0 + (i - first);
            if (i < four)
                descent_columns(4, a, i, one, zero, n, d, sum_t, fresh);
            else
                descent_columns(1, a, i, one, zero, n, d, sum_t, fresh);
            i += i < four ? 4 : 1;
            if (i % K == 0 || i == a->rows) {
                for (ptrdiff_t j = 0; j < ld; j += LANES)
                    v_store(n + j, v_load(n + j) / v_load(d + j));
                add_log(log_m, n, ld, i <= K);
            }
        }
    }
    for (ptrdiff_t j = 0; j < ld; j++)
        sum_t[j] *= R(0.5);
    a->belief_change = change;
}

/* The same from W, in logs. */
static void descend_log_group(crbm_rows *a)
{
    const ptrdiff_t ld = a->ld;
    real *log_m = a->part, *sum_t = log_m + ld, tau1[CRBM_GROUP], tau0[CRBM_GROUP], slope[CRBM_GROUP];
    real *field = a->field_v, *theta = a->theta_v;
    for (ptrdiff_t j = 0; j < 2 * ld; j++)
        log_m[j] = 0;
    for (ptrdiff_t i = 0; i < a->rows; i++)
        descent_row_in_logs(a, i, theta[i], field + i, slope + i);
    a->belief_change = step_rows(a, 0, a->rows, field, slope, tau1, tau0);
    for (ptrdiff_t i = 0; i < a->rows; i++)
        descent_column_in_logs(a, i, theta[i], log_m, sum_t);
}

/* The step of every hidden unit: theta_h, tau_h0, tau_h1 (ld,) from part (groups, 2, ld); see close_h.  groups == 0 takes
 * no step: tau_h0 and tau_h1 from theta_h. */
static double descend_close(void *theta_h, void *tau_h0, void *tau_h1, const void *b2, const void *part, ptrdiff_t groups,
                            ptrdiff_t nh, ptrdiff_t ld, double kappa, double relax)
{
    vreal change = v_set(0);
    for (ptrdiff_t j = 0; j < ld; j += LANES) {
        const real *log_m = (const real *)part + j, *sum_t = log_m + ld;
        const ptrdiff_t live = j >= nh ? 0 : V_LIVE(j, nh);
        const vreal theta = v_load((real *)theta_h + j);
        vreal target = v_load_part((const real *)b2 + j, live, 0), T = v_set(0);
        for (ptrdiff_t g = 0; g < groups; g++) {
            target += v_load(log_m + 2 * g * ld);
            T += v_load(sum_t + 2 * g * ld);
        }
        const vreal next = groups > 0 ? safe_step(theta, target, T, (real)kappa, (real)relax) : theta;
        change = v_max(change, odds_change(theta, target));
        v_store((real *)theta_h + j, next);
        v_store((real *)tau_h1 + j, belief_at(next));
        v_store((real *)tau_h0 + j, belief_at(-next));
    }
    return (double)v_maximum(change);
}

/* P(v=1, h=1) of an edge: a exp(W) rho / q where W > 0, with v flipped (1-a) rho where W < 0; rho = P(h=1 | v=0). */
INLINE vreal edge_belief(vreal odds, vreal tau1, vreal tau0, vreal other1, vreal other0)
{
    const vmask flipped = v_above(v_set(0), odds);
    const vreal h = v_abs(odds), one = v_either(flipped, tau0, tau1), zero = v_either(flipped, tau1, tau0);
    const vreal w = zero * other1, p = h * (one * other0 - w) + R(0.5), A = h + h;
    vreal inverse;
    const vreal half = v_root(p * p + A * w, &inverse) + v_abs(p);
    const vmask positive = v_above(p, v_set(0));
    const vreal top = half + v_either(positive, A * other1, zero), beyond = half / A;        /* A > 0 where it is read */
    const vreal together = one * (A + R(1.0)) * v_either(positive, other1, beyond) / top;
    return v_either(flipped, v_either(positive, w / half, beyond), together);
}

INLINE vreal edge_belief_in_logs(vreal W, vreal theta_v, vreal theta_h)
{
    const log_edge e = edge_in_logs(W, theta_v, theta_h);
    const vreal only_h = v_exp(e.l0 + e.k1 + e.to_v), only_v = v_exp(e.k0 + e.l1 + e.to_h);
    const vreal one = v_exp(e.l1), h = v_exp(e.k1);
    const vreal both = v_either(v_above(h, one), one - only_v, h - only_h);
    return v_either(v_above(v_set(0), W), v_min(only_h, v_set(1)), v_max(both, v_set(0)));
}

/* Gamma (rows, nh) of the beliefs, := or +=; at most tau_v, which is exact where saturated. */
static void descend_gamma(void *gamma, const crbm_rows *a, int add)
{
    const real *odds_ = a->weight, *t0 = a->tau_h0, *t1 = a->tau_h1, *tau_v = a->tau_v;
    real tau1[CRBM_GROUP], tau0[CRBM_GROUP];
    beliefs_of_rows(a, 0, a->rows, tau1, tau0);
    for (ptrdiff_t i = 0; i < a->rows; i++, odds_ += a->ld)
        GAMMA_ROW((real *)gamma + i * a->nh, a->nh, add, j,
                  v_min(edge_belief(v_load(odds_ + j), v_set(tau1[i]), v_set(tau0[i]), v_load(t1 + j), v_load(t0 + j)),
                        v_set(tau_v[i])))
}

static void descend_log_gamma(void *gamma, const crbm_rows *a, int add)
{
    const real *W_ = a->weight, *theta_v = a->theta_v, *theta_h = a->theta_h;
    for (ptrdiff_t i = 0; i < a->rows; i++, W_ += a->ld)
        GAMMA_ROW((real *)gamma + i * a->nh, a->nh, add, j,
                  edge_belief_in_logs(v_load(W_ + j), v_set(theta_v[i]), v_load(theta_h + j)))
}

/* The terms of the edges in F, summed over the rows:
 *   -a log q - b log m + log(G00 / ((1-a) (1-b)))     G00 = P(v=0, h=0) = (1-b) m P(v=0 | h=1) = (1-b) P(v=0 | h=0) */
INLINE vreal edge_energy(vreal W, vreal theta_v, vreal theta_h)
{
    const log_edge e = edge_in_logs(W, theta_v, theta_h);
    const vreal F = v_exp(e.k0) * e.log_m - v_exp(e.l1) * e.log_q + e.to_v;
    /* not by F of the flipped edge, from which W b would be taken away again; log P(v=1 | h=0) / P(v=1) is `to_h` there */
    const vreal flipped = v_exp(e.l0) * e.log_q + v_exp(e.k1) * v_softplus(e.l0 + e.odds_v) + e.to_h;
    return v_either(v_above(v_set(0), W), flipped, F);
}

INLINE vreal weight_of(vreal odds)        /* sign(odds) log(1 + 2 |odds|) */
{
    const vreal A = v_abs(odds + odds), one = v_set(1), W = v_either(v_above(A, one), v_log(A + one), v_log1p(v_min(A, one)));
    return v_either(v_above(v_set(0), odds), -W, W);
}

INLINE double energy_of_rows(int LOGS, const crbm_rows *a)
{
    const real *w_ = a->weight, *theta_v = a->theta_v, *theta_h = a->theta_h;
    double total = 0;
    for (ptrdiff_t i = 0; i < a->rows; i++, w_ += a->ld) {
        vreal sum = v_set(0);
        for (ptrdiff_t j = 0; j < a->ld; j += LANES) {
            const vreal w = v_load(w_ + j);
            sum += edge_energy(LOGS ? w : weight_of(w), v_set(theta_v[i]), v_load(theta_h + j));
        }
        total += (double)v_sum(sum);
    }
    return total;
}

static double descend_energy(const crbm_rows *a) { return energy_of_rows(0, a); }
static double descend_log_energy(const crbm_rows *a) { return energy_of_rows(1, a); }

#endif /* CRBM_DESCENT_H */
