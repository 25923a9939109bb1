/* elementwise.h: passes over vectors and matrices that are neither messages nor products nor steps.
 *
 * Contiguous arrays of n elements; sums are accumulated in double, vector by vector, in index order.
 */
#ifndef CRBM_ELEMENTWISE_H
#define CRBM_ELEMENTWISE_H

#include "common.h"

/* tau (ld,) and 1 - tau, each from the logit; see close_h in crbm.h. */
static double close_h(void *theta_h, void *tau_h0, void *tau_h1, const void *b2, const void *part,
                      ptrdiff_t groups, ptrdiff_t nh, ptrdiff_t ld)
{
    vreal change = v_set(0);
    for (ptrdiff_t j = 0; j < ld; j += LANES) {
        const ptrdiff_t live = j >= nh ? 0 : V_LIVE(j, nh);
        vreal theta = v_load_part((const real *)b2 + j, live, 0);
        for (ptrdiff_t g = 0; g < groups; g++)
            theta += v_load((const real *)part + g * ld + j);
        const vreal tau = v_logistic(theta);
        change = v_max(change, v_abs(tau - v_load((real *)tau_h1 + j)));
        v_store((real *)theta_h + j, theta);
        v_store((real *)tau_h1 + j, tau);
        v_store((real *)tau_h0 + j, v_logistic(-theta));
    }
    return (double)v_maximum(change);
}

INLINE vreal half_odds(vreal W)
{
    const vreal h = v_expm1(v_abs(W)) * R(0.5);
    return v_either(v_above(v_set(0), W), -h, h);
}

/* out (rows, ld) := in (rows, nh) in the given form, with its padding. */
static void pad(void *out, const void *in, ptrdiff_t rows, ptrdiff_t nh, ptrdiff_t ld, int form)
{
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < ld; j += LANES) {
            const ptrdiff_t live = j >= nh ? 0 : V_LIVE(j, nh);
            const vreal x = v_load_part((const real *)in + i * nh + j, live, 0);
            v_store((real *)out + i * ld + j, form == CRBM_EXP ? v_exp(x) : form == CRBM_ODDS ? half_odds(x) : x);
        }
}

/* The inverse: out (rows, nh) := log of, or, in (rows, ld). */
static void unpad(void *out, const void *in, ptrdiff_t rows, ptrdiff_t nh, ptrdiff_t ld, int form)
{
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < nh; j += LANES) {
            const vreal x = v_load((const real *)in + i * ld + j);
            v_store_part((real *)out + i * nh + j, form == CRBM_EXP ? v_log(x) : x, V_LIVE(j, nh));
        }
}

static void fill(void *out, double value, ptrdiff_t n)
{
    real *o = out;
    for (ptrdiff_t i = 0; i < n; i++)
        o[i] = (real)value;
}

/* out := x + y and out := x y; out may be x or y. */
static void add(void *out, const void *x, const void *y, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        ((real *)out)[i] = ((const real *)x)[i] + ((const real *)y)[i];
}

static void multiply(void *out, const void *x, const void *y, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        ((real *)out)[i] = ((const real *)x)[i] * ((const real *)y)[i];
}

/* max |x_i|, 0 for n == 0; x finite. */
static double max_abs(const void *x, ptrdiff_t n)
{
    vreal m = v_set(0);
    for (ptrdiff_t i = 0; i < n; i += LANES)
        m = v_max(v_abs(v_load_part((const real *)x + i, V_LIVE(i, n), 0)), m);
    return (double)v_maximum(m);
}

/* Index of the first x_i with |x_i| > limit or NaN, -1 if there is none. */
static ptrdiff_t first_beyond(const void *x, double limit, ptrdiff_t n)
{
    const real *in = x, most = (real)limit;
    for (ptrdiff_t i = 0; i < n; i += 1024) {
        const ptrdiff_t end = n - i < 1024 ? n : i + 1024;
        int bad = 0;
        for (ptrdiff_t j = i; j < end; j++)
            bad |= !(in[j] <= most && in[j] >= -most);
        if (bad)
            for (ptrdiff_t j = i; j < end; j++)
                if (!(in[j] <= most && in[j] >= -most))
                    return j;
    }
    return -1;
}

/* out := x^2, capped where TAP's sums over it, an expansion for small weights, would overflow. */
static void squares(void *out, const void *x, ptrdiff_t n)
{
    const real cap = CRBM_REAL == 32 ? R(1e24) : (real)1e200;
    for (ptrdiff_t i = 0; i < n; i++) {
        const real s = ((const real *)x)[i] * ((const real *)x)[i];
        ((real *)out)[i] = s < cap ? s : cap;
    }
}

/* out (rows,) := row sums of W (rows, nh), accumulated in double. */
static void row_sums(void *out, const void *W, ptrdiff_t rows, ptrdiff_t nh)
{
    for (ptrdiff_t i = 0; i < rows; i++) {
        double sum = 0;
        for (ptrdiff_t j = 0; j < nh; j++)
            sum += (double)((const real *)W)[i * nh + j];
        ((real *)out)[i] = (real)sum;
    }
}

/* tau := (1 - damping) logistic(sign theta) + damping tau; returns max |change of tau|.
 * Without damping tau may hold anything before, NaN included. */
static double logistic_step(void *tau, const void *theta, double sign, double damping, ptrdiff_t n)
{
    vreal change = v_set(0);
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        const ptrdiff_t live = V_LIVE(i, n);
        const vreal old = v_load_part((real *)tau + i, live, R(0.5));
        vreal t = v_logistic(v_load_part((const real *)theta + i, live, 0) * (real)sign);
        if (damping > 0)
            t += (old - t) * (real)damping;
        change = v_max(change, v_abs(t - old));
        v_store_part((real *)tau + i, t, live);
    }
    return (double)v_maximum(change);
}

/* theta := logit(tau), finite also where tau has been rounded to 0 or 1. */
static void logit(void *theta, const void *tau, ptrdiff_t n)
{
    const vreal smallest = v_set((real)(CRBM_REAL == 32 ? 1e-30 : 1e-300));
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        const ptrdiff_t live = V_LIVE(i, n);
        const vreal t = v_load_part((const real *)tau + i, live, R(0.5));
        v_store_part((real *)theta + i, v_log(v_max(t, smallest)) - v_log(v_max(R(1.0) - t, smallest)), live);
    }
}

/* out := tau (1 - tau), the variance of a unit. */
static void variance(void *out, const void *tau, ptrdiff_t n)
{
    const real *t = tau;
    real *o = out;
    for (ptrdiff_t i = 0; i < n; i++)
        o[i] = t[i] - t[i] * t[i];
}

/* theta += (1/2 - tau) reaction: TAP's Onsager term, reaction_i = sum_j W_ij^2 var_j. */
static void onsager(void *theta, const void *reaction, const void *tau, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        ((real *)theta)[i] += (R(0.5) - ((const real *)tau)[i]) * ((const real *)reaction)[i];
}

/* x := (1 - damping) x + damping old. */
static void blend(void *x, const void *old, double damping, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        ((real *)x)[i] += (((const real *)old)[i] - ((real *)x)[i]) * (real)damping;
}

/* max |x_i - y_i|, 0 for n == 0. */
static double max_change(const void *x, const void *y, ptrdiff_t n)
{
    real m = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const real d = ((const real *)x)[i] - ((const real *)y)[i], a = d < 0 ? -d : d;
        m = a > m ? a : m;
    }
    return (double)m;
}

/* out := 1 where x > threshold, else 0: the most likely state of a logit (0) or belief (1/2); a tie is 0. */
static void decode(void *out, const void *x, double threshold, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        ((real *)out)[i] = ((const real *)x)[i] > (real)threshold ? 1 : 0;
}

static double softplus_sum(const void *theta, ptrdiff_t n)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i += LANES)        /* softplus(-inf) = 0 pads */
        sum += (double)v_sum(v_softplus(v_load_part((const real *)theta + i, V_LIVE(i, n), -(real)INFINITY)));
    return sum;
}

static double relu_sum(const void *theta, ptrdiff_t n)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        sum += ((const real *)theta)[i] > 0 ? (double)((const real *)theta)[i] : 0;
    return sum;
}

/* sum_i log sum_v exp(v (b1 + field)); a unit clamped by b1 = +-inf gives its term without b1. */
static double node_sum(const void *b1, const void *field, ptrdiff_t n)
{
    const real *b = b1, *f = field;
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double theta = (double)b[i] + (double)f[i];
        if (isfinite(b[i]))
            sum += (theta > 0 ? theta : 0) + log1p(exp(-fabs(theta)));
        else
            sum += b[i] > 0 ? (double)f[i] : 0;
    }
    return sum;
}

/* sum_i H(tau_i) + b1_i tau_i with tau = logistic(b1 + field): softplus(theta) - field tau; clamped units 0. */
static double mean_sum(const void *b1, const void *field, ptrdiff_t n)
{
    const real *b = b1, *f = field;
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double theta = (double)b[i] + (double)f[i];
        if (isfinite(b[i]))
            sum += (theta > 0 ? theta : 0) + log1p(exp(-fabs(theta))) - (double)f[i] / (1 + exp(-theta));
    }
    return sum;
}

/* sum_i H(tau_i), with 0 log 0 = 0. */
static double entropy_sum(const void *tau, ptrdiff_t n)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double t = (double)((const real *)tau)[i];
        if (t > 0 && t < 1)
            sum -= t * log(t) + (1 - t) * log1p(-t);
    }
    return sum;
}

/* sum_i b1_i tau_i over the units that are not clamped. */
static double dot_free(const void *b1, const void *tau, ptrdiff_t n)
{
    const real *b = b1;
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        if (isfinite(b[i]))
            sum += (double)b[i] * (double)((const real *)tau)[i];
    return sum;
}

/* sum_i x_i^2. */
static double sum_squares(const void *x, ptrdiff_t n)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        const vreal v = v_load_part((const real *)x + i, V_LIVE(i, n), 0);
        sum += (double)v_sum(v * v);
    }
    return sum;
}

/* Philox4x32-10 (Salmon et al., SC 2011): 4 words from a counter and a key, nothing carried over.
 * WIDE blocks with the counters (first + b, draw, instance), word w of block b in words[4 b + w].  A lane of 64 bits
 * holds a word of 32 in its lower half; the upper half is never looked at until the end. */
enum { WIDE = VBYTES / 8 };
INLINE void philox(uint32_t *words, uint32_t first, uint32_t draw, uint64_t instance, uint64_t seed)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    vword c0 = {0}, c1 = w_set(draw), c2 = w_set((uint32_t)instance), c3 = w_set(instance >> 32);
    for (int b = 0; b < WIDE; b++)
        c0[b] = first + (uint32_t)b;
    for (int round = 0; round < 10; round++) {
        const vword x = w_multiply(c0, w_set(0xD2511F53u)), y = w_multiply(c2, w_set(0xCD9E8D57u));
        c0 = (y >> 32) ^ c1 ^ w_set(k0);
        c2 = (x >> 32) ^ c3 ^ w_set(k1);
        c1 = y;
        c3 = x;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const vword low = (c0 & w_set(0xffffffffu)) | c1 << 32, high = (c2 & w_set(0xffffffffu)) | c3 << 32;
    for (int b = 0; b < WIDE; b++) {
        words[4 * b] = (uint32_t)low[b];
        words[4 * b + 1] = (uint32_t)(low[b] >> 32);
        words[4 * b + 2] = (uint32_t)high[b];
        words[4 * b + 3] = (uint32_t)(high[b] >> 32);
    }
}

/* out_i ~ Bernoulli(logistic(theta_i)), 0 or 1 (Eq. 3).
 * Element i uses word i % 4 of the block with counter (i / 4, draw, instance) and key `seed`: the numbers
 * depend on (seed, instance, draw, i) alone.  The uniform is the centre of one of 2^23 (float) or 2^32 (double)
 * equal cells, so a probability of exactly 0 or 1 is obeyed and others are off by at most half a cell. */
static void bernoulli(void *out, const void *theta, uint64_t seed, uint64_t instance, uint32_t draw, ptrdiff_t n)
{
    real *o = out;
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        const ptrdiff_t live = V_LIVE(i, n);
        v_store_part(o + i, v_logistic(v_load_part((const real *)theta + i, live, 0)), live);
    }
    for (ptrdiff_t i = 0; i < n; i += 16 * WIDE) {
        uint32_t words[16 * WIDE];                 /* 4 times philox: long enough a run for vectors of floats */
        for (int part = 0; part < 4; part++)
            philox(words + 4 * WIDE * part, (uint32_t)(i / 4 + WIDE * part), draw, instance, seed);
        const ptrdiff_t live = n - i < 16 * WIDE ? n - i : 16 * WIDE;
        for (ptrdiff_t l = 0; l < live; l++)
#if CRBM_REAL == 32
            o[i + l] = ((real)(int32_t)(words[l] >> 9) + 0.5f) * 0x1p-23f < o[i + l] ? 1 : 0;
#else
            o[i + l] = ((real)words[l] + 0.5) * 0x1p-32 < o[i + l] ? 1 : 0;
#endif
    }
}

#endif /* CRBM_ELEMENTWISE_H */
