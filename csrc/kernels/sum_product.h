/* sum_product.h: one iteration of sum-product BP (Algorithm 1) in a single sweep over the edges.
 *
 * Scale every message to 1 at state 0 and call E = exp(W).  With the cavity probabilities
 *   rho_ij = P(h_j = 1) without v_i's message       s_ij = P(v_i = 1) without h_j's message
 * both messages are linear in the sender's:  q_ij = 1 + (E-1) rho_ij,  m_ij = 1 + (E-1) s_ij.
 * Keeping m, and writing (t0, t1) for (1 - tau_h, tau_h) and e for exp(-theta_v),
 *
 *   d = m t0 + t1          n = m t0 + E t1            q = n / d                              (Eq. 13)
 *   theta_v = b1 + sum_j log(n / d)                                                          (Eq. 16)
 *   m' = (E d + e n) / (d + e n)                      the one division per edge              (Eq. 14)
 *   theta_h = b2 + sum_i log m'                                                              (Eq. 17)
 *   P(v=1 | h=1) = E d / (E d + e n),   Gamma = tau_h P(v=1 | h=1)      (Eq. 18; m' undamped)
 *
 * Every term is positive: nothing cancels, whatever the sign of W and however saturated the units, so an update
 * loses a few ulp of m at most, and log m has an absolute error of that size.  (Keeping s instead, and with it
 * 1 + (E-1) s, loses exp(|W|) ulp at W < 0.)
 * Row i's new messages need only row i's old ones, so the sweep is in place and one row after another is
 * exactly the paper's schedule: all of h -> v, then all of v -> h.
 *
 * Logarithms are taken of products of K factors.  d, n and m lie in [exp(-|W|), exp(|W|)].
 */
#ifndef CRBM_SUM_PRODUCT_H
#define CRBM_SUM_PRODUCT_H

#include "common.h"

/* field_v of ROWS rows from row `first` on (Eq. 16).  Rows at once are independent chains, which hide the latency
 * of the products. */
INLINE void visible_fields(int ROWS, const crbm_rows *a, ptrdiff_t first)
{
    const ptrdiff_t ld = a->ld, K = factors(a->max_weight, 64);
    const real *restrict m_ = (const real *)a->msg + first * ld;
    const real *restrict E_ = (const real *)a->weight + first * ld;
    const real *restrict t0_ = a->tau_h0, *restrict t1_ = a->tau_h1;
    vreal log_q[4], prod_n[4], prod_d[4];

    for (int r = 0; r < ROWS; r++)
        log_q[r] = v_set(0);
    for (ptrdiff_t j0 = 0; j0 < ld; j0 += K * LANES) {
        const ptrdiff_t j1 = ld - j0 < K * LANES ? ld : j0 + K * LANES;
        for (int r = 0; r < ROWS; r++)
            prod_n[r] = prod_d[r] = v_set(1);
        for (ptrdiff_t j = j0; j < j1; j += LANES) {
            const vreal t0 = v_load(t0_ + j), t1 = v_load(t1_ + j);
            for (int r = 0; r < ROWS; r++) {
                vreal mt0 = v_load(m_ + r * ld + j) * t0;
                V_KEEP(mt0);
                prod_d[r] *= mt0 + t1;
                prod_n[r] *= mt0 + v_load(E_ + r * ld + j) * t1;
            }
        }
        for (int r = 0; r < ROWS; r++)
            log_q[r] += v_log(prod_n[r] / prod_d[r]);
    }
    for (int r = 0; r < ROWS; r++)
        ((real *)a->field_v)[first + r] = v_sum(log_q[r]);
}

/* odds (count,) := e^-theta of rows first ..., theta = b1 + field_v, and the new tau_v; returns its largest change.
 * The odds are clamped to [1/ODDS_MAX, ODDS_MAX], where s differs from 0 or 1 by less than an ulp of m. */
INLINE real visible_odds(real *odds, const crbm_rows *a, ptrdiff_t first, ptrdiff_t count)
{
    const real *field = (const real *)a->field_v + first, *b1 = (const real *)a->b1 + first;
    real *tau_v = (real *)a->tau_v + first;
    vreal change = v_set(0);
    for (ptrdiff_t r = 0; r < count; r += LANES) {
        const ptrdiff_t live = V_LIVE(r, count);
        const vreal theta = v_load_part(b1 + r, live, 0) + v_load_part(field + r, live, 0);
        const vreal e = v_exp(-theta), tau = R(1.0) / (R(1.0) + e);
        change = v_max(change, v_abs(tau - v_load_part(tau_v + r, live, R(0.5))));
        v_store_part(tau_v + r, tau, live);
        v_store_part(odds + r, v_min(v_max(e, v_set(1 / ODDS_MAX)), v_set(ODDS_MAX)), live);
    }
    return v_maximum(change);
}

/* New messages of ROWS rows (Eq. 14), and their product down the columns into `col` (ld,); `fresh` starts it.
 * Upper-case arguments are compile-time constants.  Returns the largest change of a message, with WATCH, which also damps. */
INLINE real new_messages(int ROWS, int COND, int WATCH, const crbm_rows *a, ptrdiff_t first, const real *odds,
                         real *restrict col, int fresh)
{
    const ptrdiff_t ld = a->ld;
    real *m_ = (real *)a->msg + first * ld;
    const real *restrict E_ = (const real *)a->weight + first * ld;
    real *c_ = COND ? (real *)a->cond + first * ld : NULL;
    const real *restrict t0_ = a->tau_h0, *restrict t1_ = a->tau_h1;
    const ptrdiff_t next = CRBM_GROUP * ld * (ptrdiff_t)sizeof(real);
    vreal e[4], far = v_set(0);
    for (int r = 0; r < ROWS; r++)
        e[r] = v_set(odds[r]);
    for (ptrdiff_t j = 0; j < ld; j += LANES) {
        const vreal t0 = v_load(t0_ + j), t1 = v_load(t1_ + j);
        vreal product = fresh ? v_set(1) : v_load(col + j);
        /* n and d again from m: storing and loading them was 10 to 30 % slower on Zen 4, and so was a reciprocal
         * estimate with a Newton step in place of the division, which runs beside the multiplications */
        vreal E[4], m[4], m_new[4], cond[4];
        for (int r = 0; r < ROWS; r++) {
            E[r] = v_load(E_ + r * ld + j);
            m[r] = v_load(m_ + r * ld + j);
            /* the same place in the next group of rows: 8 to 10 % faster from every level of cache */
            v_prefetch(m_ + r * ld + j, next);
            v_prefetch(E_ + r * ld + j, next);
        }
        for (int r = 0; r < ROWS; r++) {
            vreal mt0 = m[r] * t0;
            V_KEEP(mt0);
            const vreal d = mt0 + t1, n = mt0 + E[r] * t1;
            vreal en = n * e[r];
            V_KEEP(en);
            const vreal Ed = E[r] * d, top = Ed + en;
            m_new[r] = top / (d + en);
            if (COND)
                cond[r] = Ed / top;
        }
        for (int r = 0; r < ROWS; r++) {
            if (WATCH) {
                const vreal step = m[r] - m_new[r];
                far = v_max(far, v_abs(step) / v_max(m[r], m_new[r]));
                m_new[r] += step * (real)a->damping;
            }
            product *= m_new[r];
            v_store(m_ + r * ld + j, m_new[r]);
            if (COND)
                v_store(c_ + r * ld + j, cond[r]);      /* after m_new: cond may be msg */
        }
        v_store(col + j, product);
    }
    return WATCH ? v_maximum(far) : 0;
}

/* part += log col, K rows at a time; part := on the first. */
INLINE void add_log(real *restrict part, const real *restrict col, ptrdiff_t ld, int first)
{
    for (ptrdiff_t j = 0; j < ld; j += LANES) {
        const vreal l = v_log(v_load(col + j));
        v_store(part + j, first ? l : v_load(part + j) + l);
    }
}

/* Rows between the reading for theta_v and the second one for the new messages.  The way from the last product to
 * the first odds has some 200 cycles of latency and is gone once per block, so the block is the whole group (nh = 64:
 * 0.46 -> 0.35 ns per edge against blocks of 4, nh = 256: 0.293 -> 0.275), unless it would leave the second-level
 * cache: 256 kB, the smallest in use. */
INLINE ptrdiff_t block_rows(ptrdiff_t ld)
{
    ptrdiff_t rows = CRBM_GROUP;
    while (rows > 4 && rows * 2 * ld * (ptrdiff_t)sizeof(real) > 256 * 1024)
        rows /= 2;
    return rows;
}

INLINE void sum_group_as(int COND, int WATCH, crbm_rows *a)
{
    const ptrdiff_t ld = a->ld, K = factors(a->max_weight, CRBM_GROUP), block = block_rows(ld);
    real *part = a->part, *col = a->scratch;
    real odds[CRBM_GROUP], change = 0, far = 0;
    for (ptrdiff_t first = 0; first < a->rows; first += block) {
        const ptrdiff_t end = a->rows - first < block ? a->rows : first + block, four = first + (end - first) / 4 * 4;
        for (ptrdiff_t i = first; i < four; i += 4)
            visible_fields(4, a, i);
        for (ptrdiff_t i = four; i < end; i++)
            visible_fields(1, a, i);
        const real c = visible_odds(odds, a, first, end - first);
        change = c > change ? c : change;
        for (ptrdiff_t i = first; i < end;) {
            const int fresh = i % K == 0;
            const real *o = odds + (i - first);
            const real f = i < four ? new_messages(4, COND, WATCH, a, i, o, col, fresh)
                                    : new_messages(1, COND, WATCH, a, i, o, col, fresh);
            far = f > far ? f : far;
            i += i < four ? 4 : 1;
            if (i % K == 0 || i == a->rows)
                add_log(part, col, ld, i <= K);
        }
    }
    a->belief_change = change;
    a->message_change = far;
}

/* One iteration on a group of rows; see crbm_rows. */
static void sum_group(crbm_rows *a)
{
    if (a->damping > 0 || a->track)
        a->cond ? sum_group_as(1, 1, a) : sum_group_as(0, 1, a);
    else
        a->cond ? sum_group_as(1, 0, a) : sum_group_as(0, 0, a);
}

/* part := sum over the rows of log m. */
static void sum_messages(crbm_rows *a)
{
    const ptrdiff_t ld = a->ld, K = factors(a->max_weight, CRBM_GROUP);
    const real *m_ = a->msg;
    real *part = a->part, *col = a->scratch;
    for (ptrdiff_t i = 0; i < a->rows; i++) {
        for (ptrdiff_t j = 0; j < ld; j += LANES)
            v_store(col + j, i % K == 0 ? v_load(m_ + i * ld + j) : v_load(col + j) * v_load(m_ + i * ld + j));
        if ((i + 1) % K == 0 || i + 1 == a->rows)
            add_log(part, col, ld, i < K);
    }
}

/* Gamma = P(v=1 | h=1) tau_h (Eq. 18). */
static void gamma_cond(void *gamma, const crbm_rows *a, int add)
{
    const real *cond = a->cond, *t1 = a->tau_h1;
    for (ptrdiff_t i = 0; i < a->rows; i++, cond += a->ld)
        GAMMA_ROW((real *)gamma + i * a->nh, a->nh, add, j, v_load(cond + j) * v_load(t1 + j))
}

/* Gamma = tau_v P(h=1 | v=1) = tau_v E t1 / (m t0 + E t1). */
static void sum_gamma(void *gamma, const crbm_rows *a, int add)
{
    const real *m_ = a->msg, *E_ = a->weight, *t0 = a->tau_h0, *t1 = a->tau_h1, *tau_v = a->tau_v;
    for (ptrdiff_t i = 0; i < a->rows; i++, m_ += a->ld, E_ += a->ld)
        GAMMA_ROW((real *)gamma + i * a->nh, a->nh, add, j,
                  tau_v[i] * v_load(E_ + j) * v_load(t1 + j)
                  / (v_load(m_ + j) * v_load(t0 + j) + v_load(E_ + j) * v_load(t1 + j)))
}

/* The Bethe log Z as a function of the messages m alone, with q, rho and theta_h those that m implies:
 *
 *   sum_i log(1 + exp(b1 + sum_j log q_ij)) + sum_j log(1 + exp(theta_h)) - sum_ij log(m_ij / d_ij)
 *
 * It is stationary at a fixed point, so that its error is second order in the messages'.  (With the field_v of
 * the last iteration, made from older messages, it would be first order.)  An edge's partition function is
 * (1 - rho) + rho m = m / d, since rho = t1 / d. */
static double sum_edges(const crbm_rows *a)
{
    const ptrdiff_t ld = a->ld, K = factors(a->max_weight, 64);
    const real *t0 = a->tau_h0, *t1 = a->tau_h1, *m_ = a->msg, *E_ = a->weight;
    double total = 0;
    for (ptrdiff_t i = 0; i < a->rows; i++, m_ += ld, E_ += ld) {
        vreal log_q = v_set(0), log_edge = v_set(0);
        for (ptrdiff_t j0 = 0; j0 < ld; j0 += K * LANES) {
            const ptrdiff_t j1 = ld - j0 < K * LANES ? ld : j0 + K * LANES;
            vreal prod_m = v_set(1), prod_n = v_set(1), prod_d = v_set(1);
            for (ptrdiff_t j = j0; j < j1; j += LANES) {
                const vreal m = v_load(m_ + j), mt0 = m * v_load(t0 + j);
                prod_m *= m;
                prod_d *= mt0 + v_load(t1 + j);
                prod_n *= mt0 + v_load(E_ + j) * v_load(t1 + j);
            }
            log_q += v_log(prod_n / prod_d);
            log_edge += v_log(prod_m / prod_d);
        }
        ((real *)a->field_v)[i] = v_sum(log_q);
        total += (double)v_sum(log_edge);
    }
    return total;
}

#endif /* CRBM_SUM_PRODUCT_H */
