/* optimizers.h: one step of gradient ascent on n parameters.
 *
 *   g' = g - decay p          gradient of the objective minus decay/2 |p|^2
 *
 * g is the gradient of what is maximised.  All arrays are (n,) and do not overlap.
 * Each returns the largest |change| of a parameter, and in *squares the sum of g'_i^2, accumulated in double: where g' is
 * not finite, nor is that, and the parameters are lost; where it is, so are they.
 */
#ifndef CRBM_OPTIMIZERS_H
#define CRBM_OPTIMIZERS_H

#include "common.h"

/* velocity := momentum velocity + g';  p += rate velocity.  Without momentum, velocity may be NULL. */
static double momentum_step(void *p, void *velocity, const void *g, double rate, double momentum, double decay,
                            double *squares, ptrdiff_t n)
{
    vreal most = v_set(0);
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        const ptrdiff_t live = V_LIVE(i, n);
        const vreal old = v_load_part((real *)p + i, live, 0);
        vreal u = v_load_part((const real *)g + i, live, 0);
        u -= old * (real)decay;
        sum += (double)v_sum(u * u);
        if (velocity) {
            u += v_load_part((real *)velocity + i, live, 0) * (real)momentum;
            v_store_part((real *)velocity + i, u, live);
        }
        u *= (real)rate;
        v_store_part((real *)p + i, old + u, live);
        most = v_max(v_abs(u), most);
    }
    *squares = sum;
    return (double)v_maximum(most);
}

/* Adam (Kingma & Ba, ICLR 2015, the form at the end of Section 2):
 *   m := beta1 m + (1 - beta1) g'      s := beta2 s + (1 - beta2) g'^2      p += rate m / (sqrt(s) + epsilon)
 * with the bias corrections in `rate` and `epsilon`. */
static double adam_step(void *p, void *m, void *s, const void *g, double rate, double beta1, double beta2,
                        double epsilon, double decay, double *squares, ptrdiff_t n)
{
    vreal most = v_set(0);
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        const ptrdiff_t live = V_LIVE(i, n);
        const vreal old = v_load_part((real *)p + i, live, 0);
        vreal u = v_load_part((const real *)g + i, live, 0);
        u -= old * (real)decay;
        sum += (double)v_sum(u * u);
        vreal mean = v_load_part((real *)m + i, live, 0), square = v_load_part((real *)s + i, live, 0);
        mean += (u - mean) * (real)(1 - beta1);
        square += (u * u - square) * (real)(1 - beta2);
        v_store_part((real *)m + i, mean, live);
        v_store_part((real *)s + i, square, live);
        const vreal step = mean * (real)rate / (v_sqrt(square) + (real)epsilon);
        v_store_part((real *)p + i, old + step, live);
        most = v_max(v_abs(step), most);
    }
    *squares = sum;
    return (double)v_maximum(most);
}

#endif /* CRBM_OPTIMIZERS_H */
