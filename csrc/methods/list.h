/* list.h: every method of inference: its name in C, and its file.  A new method is one file and a line in each list. */
#ifndef CRBM_METHODS
#define CRBM_METHODS(METHOD) \
    METHOD(sum_product)      \
    METHOD(max_product)      \
    METHOD(mixed_product)    \
    METHOD(mixed_ascent)     \
    METHOD(max_ascent)       \
    METHOD(mean_field)       \
    METHOD(tap)              \
    METHOD(bethe)
#endif

#ifdef CRBM_DEFINE_METHODS        /* by solver.c, which is compiled for each real type */
#include "methods/bethe.h"
#include "methods/max_ascent.h"
#include "methods/max_product.h"
#include "methods/mean_field.h"
#include "methods/mixed_ascent.h"
#include "methods/mixed_product.h"
#include "methods/sum_product.h"
#include "methods/tap.h"
#endif
