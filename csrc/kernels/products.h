/* products.h: products of one vector and a matrix, and of a matrix that is mostly zeros, such as the states of units. */
#ifndef CRBM_PRODUCTS_H
#define CRBM_PRODUCTS_H

#include "common.h"

/* Number of elements that are not 0. */
static ptrdiff_t nonzeros(const void *x, ptrdiff_t n)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < n; i += 1024) {        /* an int for each part: the compilers vectorise that */
        const ptrdiff_t end = n - i < 1024 ? n : i + 1024;
        int part = 0;
        for (ptrdiff_t j = i; j < end; j++)
            part += ((const real *)x)[j] != 0;
        count += part;
    }
    return count;
}

/* out (n,) := beta out + sum_t a_t B_t over the t with a_t != 0, in their order.
 *   a        (k,) elements `stride` apart
 *   B        (k, ldb), of which n columns
 *   values, index   (k,) scratch
 * The list of nonzeros is made without a branch, which at 20 % ones would be mispredicted half of the time they come;
 * COMBINED vectors of out stay in registers while it is read. */
enum { COMBINED = 8 };
static void combine_rows(void *out, const void *a, ptrdiff_t stride, const void *B, ptrdiff_t ldb, double beta,
                         void *values, int32_t *index, ptrdiff_t k, ptrdiff_t n)
{
    real *value = values;
    ptrdiff_t count = 0, j = 0;
    for (ptrdiff_t t = 0; t < k; t++) {
        const real x = ((const real *)a)[t * stride];
        value[count] = x;
        index[count] = (int32_t)t;
        count += x != 0;
    }
    for (; j + COMBINED * LANES <= n; j += COMBINED * LANES) {
        vreal sum[COMBINED];
        for (int c = 0; c < COMBINED; c++)
            sum[c] = beta == 0 ? v_set(0) : v_loadu((real *)out + j + c * LANES) * (real)beta;
        for (ptrdiff_t i = 0; i < count; i++) {
            const real *row = (const real *)B + index[i] * ldb + j;
            for (int c = 0; c < COMBINED; c++)
                sum[c] += v_loadu(row + c * LANES) * value[i];
        }
        for (int c = 0; c < COMBINED; c++)
            v_storeu((real *)out + j + c * LANES, sum[c]);
    }
    for (; j < n; j += LANES) {
        const ptrdiff_t live = V_LIVE(j, n);
        vreal sum = beta == 0 ? v_set(0) : v_load_part((real *)out + j, live, 0) * (real)beta;
        for (ptrdiff_t i = 0; i < count; i++)
            sum += v_load_part((const real *)B + index[i] * ldb + j, live, 0) * value[i];
        v_store_part((real *)out + j, sum, live);
    }
}

/* out (rows,) := B x.
 *   B (rows, ld), x (ld,)   padded
 * Sums are kept in `real`, lane by lane; four rows at once hide the latency of their chains. */
INLINE void dot_of(int ROWS, real *out, const real *B, const real *x, ptrdiff_t ld)
{
    vreal sum[4];
    for (int r = 0; r < ROWS; r++)
        sum[r] = v_set(0);
    for (ptrdiff_t j = 0; j < ld; j += LANES)
        for (int r = 0; r < ROWS; r++)
            sum[r] += v_load(B + r * ld + j) * v_load(x + j);
    for (int r = 0; r < ROWS; r++)
        out[r] = v_sum(sum[r]);
}

static void dot_rows(void *out, const void *B, const void *x, ptrdiff_t rows, ptrdiff_t ld)
{
    for (ptrdiff_t i = 0; i < rows;) {
        const int four = rows - i >= 4;
        (four ? dot_of(4, (real *)out + i, (const real *)B + i * ld, x, ld)
              : dot_of(1, (real *)out + i, (const real *)B + i * ld, x, ld));
        i += four ? 4 : 1;
    }
}

#endif /* CRBM_PRODUCTS_H */
