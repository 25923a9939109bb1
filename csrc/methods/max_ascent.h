/* max_ascent.h: coordinate ascent on max_h -E(v, h): MAP, as max-product BP, and never without an end.
 *
 *   state, start, iterate, end   as mixed_ascent.h
 *   results                      as max-product's; tau_v and tau_h are those of single flips, whose signs are the states
 */
#ifndef CRBM_METHOD_MAX_ASCENT_H
#define CRBM_METHOD_MAX_ASCENT_H

#include "methods/max_product.h"
#include "methods/mixed_ascent.h"

static void max_ascent_iterate(crbm_run *run, work *w, ptrdiff_t m, ptrdiff_t t)
{
    (void)t;
    ascent_iterate(run, w, m, run->problem.k->max_ascend);
}

static void max_ascent_answer(crbm_run *run, work *w, const kept *batch, ptrdiff_t s)
{
    (void)batch;
    answer_fields(run, w, s, w->fields.sent);
}

static const method max_ascent = {
    .about = {"max-ascent", CRBM_STATE_UNITS, CRBM_NEEDS_WEIGHT, max_product_form},
    .together = 1,
    .lay = lay_fields,
    .begin = ascent_begin,
    .iterate = max_ascent_iterate,
    .answer = max_ascent_answer,
    .move = move_fields,
    .finishes = max_product_finishes,
    .finish = max_product_finish,
};

#endif /* CRBM_METHOD_MAX_ASCENT_H */
