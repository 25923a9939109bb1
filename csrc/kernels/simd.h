/* simd.h: the vector vocabulary, for the `real` and the instruction set being compiled.
 *
 * GCC and Clang vector extensions give +, -, *, / and comparisons for any width, so one text serves SSE2,
 * AVX2, AVX-512 and NEON.  Only max and min, which the extensions lack, use intrinsics.
 *
 * CRBM_REAL   32 or 64      VBYTES   16, 32 or 64
 */
#ifndef CRBM_SIMD_H
#define CRBM_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "real.h"

#if CRBM_REAL == 32
typedef int32_t rint_t;
#define MANTISSA 23
#define SQRT_HALF_BITS 0x3f3504f3              /* bits of sqrt(1/2) */
#define ROUND_MAGIC 12582912.0f                /* 1.5 * 2^23: adding it rounds to an integer */
#define ROUND_BITS 0x4b400000
#define EXPONENT_BIAS 127
#define EXP_LOW (-110.0f)                      /* exp is 0 below, inf above, in two factors 2^(n/2) */
#define EXP_HIGH 90.0f
#define LN2_HIGH 6.93145752e-1f                /* 0x3f317200, the last 9 bits 0: n * LN2_HIGH is exact */
#define LN2_LOW 1.42860677e-6f
#define ODDS_MAX 0x1p80f                       /* see CRBM_MAX_WEIGHT_F32 */
#define PRODUCT_RANGE 80.0                     /* K max|W| stays below: exp(+-80) is a normal float */
#define R(x) x##f
#else
typedef int64_t rint_t;
#define MANTISSA 52
#define SQRT_HALF_BITS 0x3fe6a09e667f3bcd
#define ROUND_MAGIC 6755399441055744.0         /* 1.5 * 2^52 */
#define ROUND_BITS 0x4338000000000000
#define EXPONENT_BIAS 1023
#define EXP_LOW (-750.0)
#define EXP_HIGH 711.0
#define LN2_HIGH 6.93147180369123816490e-1     /* fdlibm's e_log.c */
#define LN2_LOW 1.90821492927058770002e-10
#define ODDS_MAX 0x1p700
#define PRODUCT_RANGE 600.0
#define R(x) x
#endif

#define INLINE static inline __attribute__((always_inline))
#define LANES ((ptrdiff_t)(VBYTES / sizeof(real)))

typedef real vreal __attribute__((vector_size(VBYTES)));
typedef rint_t vint __attribute__((vector_size(VBYTES)));
typedef real vreal_at __attribute__((vector_size(VBYTES), may_alias));                 /* in memory */
typedef real vreal_any __attribute__((vector_size(VBYTES), may_alias, aligned(sizeof(real))));

INLINE vreal v_set(real x) { return x - (vreal){0}; }
INLINE vreal v_load(const real *p) { return *(const vreal_at *)p; }       /* aligned   */
INLINE void v_store(real *p, vreal x) { *(vreal_at *)p = x; }
INLINE vreal v_loadu(const real *p) { return *(const vreal_any *)p; }     /* anywhere  */
INLINE void v_storeu(real *p, vreal x) { *(vreal_any *)p = x; }
INLINE vreal v_abs(vreal x) { return (vreal)((vint)x & ~((vint)v_set(R(-0.0)))); }

/* Ask for the line `bytes` behind p; it need not exist. */
INLINE void v_prefetch(const void *p, ptrdiff_t bytes)
{
    __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)bytes), 0, 2);
}

/* Keep a product from being contracted into the sums that use it: where it is needed by itself anyway, a
 * multiplication and two additions beat a multiplication and two multiply-adds (Zen adds on other ports). */
#if defined(__x86_64__)
#define V_KEEP(x) __asm__("" : "+v"(x))
#elif defined(__aarch64__)
#define V_KEEP(x) __asm__("" : "+w"(x))
#else
#define V_KEEP(x) ((void)0)
#endif

/* Lane by lane, a > b, and x where it holds and y elsewhere. */
#if defined(__x86_64__) && VBYTES == 64 && CRBM_REAL == 32
typedef __mmask16 vmask;
INLINE vmask v_above(vreal a, vreal b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ); }
INLINE vreal v_either(vmask where, vreal x, vreal y) { return (vreal)_mm512_mask_blend_ps(where, (__m512)y, (__m512)x); }
#elif defined(__x86_64__) && VBYTES == 64
typedef __mmask8 vmask;
INLINE vmask v_above(vreal a, vreal b) { return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_GT_OQ); }
INLINE vreal v_either(vmask where, vreal x, vreal y) { return (vreal)_mm512_mask_blend_pd(where, (__m512d)y, (__m512d)x); }
#else
typedef vint vmask;
INLINE vmask v_above(vreal a, vreal b) { return a > b; }
INLINE vreal v_either(vmask where, vreal x, vreal y)
{
#if defined(__x86_64__) && VBYTES == 32 && CRBM_REAL == 32
    return (vreal)_mm256_blendv_ps((__m256)y, (__m256)x, (__m256)where);
#elif defined(__x86_64__) && VBYTES == 32
    return (vreal)_mm256_blendv_pd((__m256d)y, (__m256d)x, (__m256d)where);
#else
    return (vreal)(((vint)x & where) | ((vint)y & ~where));
#endif
}
#endif

/* max and min, with x86's rule for NaN (the second operand); callers never pass NaN. */
#if !defined(__x86_64__) && !defined(__aarch64__)
INLINE vreal v_max(vreal a, vreal b) { return v_either(v_above(a, b), a, b); }
INLINE vreal v_min(vreal a, vreal b) { return v_either(v_above(b, a), a, b); }
#else
#define CRBM_VECTOR_PAIR(name, x86_512f, x86_512d, x86_256f, x86_256d, x86_128f, x86_128d, neon_f, neon_d) \
    INLINE vreal name(vreal a, vreal b) { return CRBM_PICK(x86_512f, x86_512d, x86_256f, x86_256d,          \
                                                           x86_128f, x86_128d, neon_f, neon_d)(a, b); }
#if defined(__aarch64__) && CRBM_REAL == 32
#define CRBM_PICK(a, b, c, d, e, f, g, h) (vreal)g
#elif defined(__aarch64__)
#define CRBM_PICK(a, b, c, d, e, f, g, h) (vreal)h
#elif VBYTES == 64 && CRBM_REAL == 32
#define CRBM_PICK(a, b, c, d, e, f, g, h) (vreal)a
#elif VBYTES == 64
#define CRBM_PICK(a, b, c, d, e, f, g, h) (vreal)b
#elif VBYTES == 32 && CRBM_REAL == 32
#define CRBM_PICK(a, b, c, d, e, f, g, h) (vreal)c
#elif VBYTES == 32
#define CRBM_PICK(a, b, c, d, e, f, g, h) (vreal)d
#elif CRBM_REAL == 32
#define CRBM_PICK(a, b, c, d, e, f, g, h) (vreal)e
#else
#define CRBM_PICK(a, b, c, d, e, f, g, h) (vreal)f
#endif
CRBM_VECTOR_PAIR(v_max, _mm512_max_ps, _mm512_max_pd, _mm256_max_ps, _mm256_max_pd, _mm_max_ps, _mm_max_pd,
                 vmaxq_f32, vmaxq_f64)
CRBM_VECTOR_PAIR(v_min, _mm512_min_ps, _mm512_min_pd, _mm256_min_ps, _mm256_min_pd, _mm_min_ps, _mm_min_pd,
                 vminq_f32, vminq_f64)
#endif

/* Words of 32 bits in lanes of 64, for random numbers: multiply the lower halves. */
typedef uint64_t vword __attribute__((vector_size(VBYTES)));
INLINE vword w_set(uint64_t x) { return x - (vword){0}; }
INLINE vword w_multiply(vword a, vword b)
{
#if defined(__x86_64__) && VBYTES == 64
    return (vword)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__x86_64__) && VBYTES == 32
    return (vword)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
    return (vword)_mm_mul_epu32((__m128i)a, (__m128i)b);
#elif defined(__aarch64__)
    return (vword)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#else
    return (a & w_set(0xffffffffu)) * (b & w_set(0xffffffffu));
#endif
}

/* Lane by lane; the compilers make one instruction of it. */
INLINE vreal v_sqrt(vreal x)
{
    for (ptrdiff_t l = 0; l < LANES; l++)
        x[l] = sizeof(real) == 4 ? (real)sqrtf((float)x[l]) : (real)sqrt((double)x[l]);
    return x;
}

/* sqrt(y) for normal y, below 1.5 ulp, and *inverse = 1 / sqrt(y) to 12 bits or better.  From the estimate of x86, of 12
 * bits, or 14 with AVX-512, by Newton's steps: a square root and a division take 40 cycles per 16 floats, these 5. */
INLINE vreal v_root(vreal y, vreal *inverse)
{
#if defined(__x86_64__) && (CRBM_REAL == 32 || VBYTES == 64)
#if CRBM_REAL == 64
    vreal e = (vreal)_mm512_rsqrt14_pd((__m512d)y);
#elif VBYTES == 64
    vreal e = (vreal)_mm512_rsqrt14_ps((__m512)y);
#elif VBYTES == 32
    vreal e = (vreal)_mm256_rsqrt_ps((__m256)y);
#else
    vreal e = (vreal)_mm_rsqrt_ps((__m128)y);
#endif
    if (CRBM_REAL == 64 || VBYTES < 64)
        e *= R(1.5) - R(0.5) * y * e * e;
    const vreal r = y * e;
    *inverse = e;
    return r + (y - r * r) * (R(0.5) * e);
#else
    const vreal r = v_sqrt(y);
    *inverse = R(1.0) / r;
    return r;
#endif
}

/* Sum of the lanes, halving the width: lane l and lane l + width/2. */
typedef real v16 __attribute__((vector_size(16)));
typedef real v32 __attribute__((vector_size(32)));
INLINE real v_sum(vreal x)
{
    union { vreal v; v32 w[(VBYTES + 31) / 32]; v16 q[VBYTES / 16]; real l[VBYTES / sizeof(real)]; } u = {.v = x};
    if (VBYTES == 64)
        u.w[0] += u.w[VBYTES == 64];
    if (VBYTES >= 32)
        u.q[0] += u.q[VBYTES >= 32];
    return sizeof(real) == 8 ? u.l[0] + u.l[1] : (u.l[0] + u.l[2 % LANES]) + (u.l[1] + u.l[3 % LANES]);
}

INLINE real v_maximum(vreal x)
{
    real m = x[0];
    for (ptrdiff_t l = 1; l < LANES; l++)
        m = x[l] > m ? x[l] : m;
    return m;
}

/* exp(x) = 2^n exp(r), n = rint(x / log 2), |r| <= log(2)/2: Taylor to r^7 (float, remainder 5e-9) or r^13
 * (double, 4e-18).  Any x, infinities included; exactly 0 and inf past the range.  Below 2 ulp. */
INLINE vreal v_exp(vreal x)
{
    x = v_min(v_max(x, v_set(EXP_LOW)), v_set(EXP_HIGH));
    const vreal shifted = x * R(1.44269504088896340736) + ROUND_MAGIC;
    const vreal n = shifted - ROUND_MAGIC;
    const vint ni = (vint)shifted - (rint_t)ROUND_BITS;
    const vreal r = (x - n * LN2_HIGH) - n * LN2_LOW;
#if CRBM_REAL == 32
    vreal e = v_set(1.0f / 5040);
#else
    vreal e = v_set(1.0 / 6227020800);
    e = e * r + 1.0 / 479001600;
    e = e * r + 1.0 / 39916800;
    e = e * r + 1.0 / 3628800;
    e = e * r + 1.0 / 362880;
    e = e * r + 1.0 / 40320;
    e = e * r + 1.0 / 5040;
#endif
    e = e * r + R(1.0) / 720;
    e = e * r + R(1.0) / 120;
    e = e * r + R(1.0) / 24;
    e = e * r + R(1.0) / 6;
    e = e * r + R(0.5);
    e = e * r + R(1.0);
    e = e * r + R(1.0);
    const vint half = ni >> 1;                 /* 2^n itself may not be a number where e * 2^n is */
    const vreal s1 = (vreal)((half + (rint_t)EXPONENT_BIAS) << MANTISSA);
    const vreal s2 = (vreal)((ni - half + (rint_t)EXPONENT_BIAS) << MANTISSA);
    return e * s1 * s2;
}

/* log(x) for positive, normal, finite x, after fdlibm's e_log.c and its float twin: x = 2^k (1 + f),
 * sqrt(1/2) <= 1 + f < sqrt(2), s = f / (2 + f).  Below 1.5 ulp. */
INLINE vreal v_log(vreal x)
{
    const vint bits = (vint)x;
    const vint k = (bits - (rint_t)SQRT_HALF_BITS) >> MANTISSA;
    const vreal m = (vreal)(bits - (k << MANTISSA));
    const vreal kr = (vreal)(k + (rint_t)ROUND_BITS) - ROUND_MAGIC;
    const vreal f = m - R(1.0);
    const vreal s = f / (f + R(2.0));
    const vreal z = s * s;
#if CRBM_REAL == 32
    const vreal tail = z * (0.66666662693f + z * (0.40000972152f + z * (0.28498786688f
                       + z * 0.24279078841f)));
#else
    const vreal tail = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01
                       + z * (2.857142874366239149e-01 + z * (2.222219843214978396e-01
                       + z * (1.818357216161805012e-01 + z * (1.531383769920937332e-01
                       + z * 1.479819860511658591e-01))))));
#endif
    const vreal half = R(0.5) * f * f;
    return kr * LN2_HIGH - ((half - (s * (half + tail) + kr * LN2_LOW)) - f);
}

/* log(1 + u) for 0 <= u <= 1: the rounding of 1 + u is corrected to first order. */
INLINE vreal v_log1p(vreal u)
{
    const vreal w = u + R(1.0);
    return v_log(w) + (u - (w - R(1.0))) / w;
}

/* exp(x) - 1 for |x| < 80 (700 in double), a few ulp: after Kahan, the error of exp(x) cancels against that of its log. */
INLINE vreal v_expm1(vreal x)
{
    const vreal u = v_exp(x), rest = u - R(1.0);
    return v_either(v_above(v_abs(rest), v_set(0)), rest * x / v_log(u), x);
}

INLINE vreal v_logistic(vreal x) { return R(1.0) / (R(1.0) + v_exp(-x)); }
INLINE vreal v_softplus(vreal x) { return v_max(x, v_set(0)) + v_log1p(v_exp(-v_abs(x))); }

/* How many elements are live in the vector at offset i of n, and loads and stores of such a vector; a load pads
 * with `fill`. */
#define V_LIVE(i, n) ((n) - (i) < LANES ? (n) - (i) : LANES)

INLINE vreal v_load_part(const real *p, ptrdiff_t live, real fill)
{
    if (live == LANES)
        return v_loadu(p);
    vreal x = v_set(fill);
    for (ptrdiff_t l = 0; l < live; l++)
        x[l] = p[l];
    return x;
}

INLINE void v_store_part(real *p, vreal x, ptrdiff_t live)
{
    if (live == LANES) {
        v_storeu(p, x);
        return;
    }
    for (ptrdiff_t l = 0; l < live; l++)
        p[l] = x[l];
}

#endif /* CRBM_SIMD_H */
