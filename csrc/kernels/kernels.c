/* kernels.c: all kernels for one instruction set and one real type; the build compiles it once for each.
 *
 *   -DCRBM_ISA=avx2 -DCRBM_REAL=32 -DVBYTES=32   exports   crbm_kernels_avx2_32
 *
 * A kernel that is written but not in the table shows up as an unused-function warning.
 */
#include "crbm.h"
#include "sum_product.h"
#include "log_domain.h"
#include "mixed_product.h"
#include "ascent.h"
#include "descent.h"
#include "elementwise.h"
#include "products.h"
#include "optimizers.h"

#define CRBM_JOIN_(isa, bits) crbm_kernels_##isa##_##bits
#define CRBM_JOIN(isa, bits) CRBM_JOIN_(isa, bits)
#define CRBM_TEXT_(isa) #isa
#define CRBM_TEXT(isa) CRBM_TEXT_(isa)

extern const crbm_kernels CRBM_JOIN(CRBM_ISA, CRBM_REAL);
const crbm_kernels CRBM_JOIN(CRBM_ISA, CRBM_REAL) = {
    .isa = CRBM_TEXT(CRBM_ISA),
    .itemsize = sizeof(real),
    .max_weight = CRBM_REAL == 32 ? CRBM_MAX_WEIGHT_F32 : CRBM_MAX_WEIGHT_F64,
    .sum_group = sum_group,
    .log_group = log_group,
    .max_group = max_group,
    .close_h = close_h,
    .sum_messages = sum_messages,
    .log_messages = log_messages,
    .gamma_cond = gamma_cond,
    .sum_gamma = sum_gamma,
    .log_gamma = log_gamma,
    .sum_edges = sum_edges,
    .log_edges = log_edges,
    .mixed_field = mixed_field,
    .mixed_field_log = mixed_field_log,
    .mixed_gamma = mixed_gamma,
    .mixed_ascend = mixed_ascend,
    .mixed_ascend_log = mixed_ascend_log,
    .max_ascend = max_ascend,
    .descend_group = descend_group,
    .descend_log_group = descend_log_group,
    .descend_close = descend_close,
    .descend_gamma = descend_gamma,
    .descend_log_gamma = descend_log_gamma,
    .descend_energy = descend_energy,
    .descend_log_energy = descend_log_energy,
    .logit = logit,
    .pad = pad,
    .unpad = unpad,
    .fill = fill,
    .add = add,
    .multiply = multiply,
    .max_abs = max_abs,
    .first_beyond = first_beyond,
    .squares = squares,
    .row_sums = row_sums,
    .logistic_step = logistic_step,
    .variance = variance,
    .onsager = onsager,
    .blend = blend,
    .max_change = max_change,
    .decode = decode,
    .softplus_sum = softplus_sum,
    .node_sum = node_sum,
    .relu_sum = relu_sum,
    .mean_sum = mean_sum,
    .entropy_sum = entropy_sum,
    .dot_free = dot_free,
    .sum_squares = sum_squares,
    .bernoulli = bernoulli,
    .nonzeros = nonzeros,
    .combine_rows = combine_rows,
    .dot_rows = dot_rows,
    .momentum_step = momentum_step,
    .adam_step = adam_step,
};
