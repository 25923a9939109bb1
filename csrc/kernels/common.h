/* common.h: what several kernel families need. */
#ifndef CRBM_COMMON_H
#define CRBM_COMMON_H

#include "crbm.h"
#include "simd.h"

/* How many factors of size at most exp(max_weight) may be multiplied: a multiple of 4, at most `most`; 4 at the
 * largest max_weight the product form is used for. */
INLINE ptrdiff_t factors(double max_weight, ptrdiff_t most)
{
    const double k = PRODUCT_RANGE / (max_weight > 1e-3 ? max_weight : 1e-3);
    return k >= (double)most ? most : k < 8 ? 4 : (ptrdiff_t)k & ~(ptrdiff_t)3;
}

/* One row of Gamma, `GIVEN` giving the vector at column j: gamma_j := or += GIVEN. */
#define GAMMA_ROW(gamma, nh, add, j, GIVEN)                                                                 \
    for (ptrdiff_t j = 0; j < (nh); j += LANES) {                                                           \
        const ptrdiff_t live = V_LIVE(j, nh);                                                               \
        vreal g_ = (GIVEN);                                                                                 \
        if (add)                                                                                            \
            g_ += v_load_part((gamma) + j, live, 0);                                                        \
        v_store_part((gamma) + j, g_, live);                                                                \
    }

#endif /* CRBM_COMMON_H */
