/* draw.h: ordinary random values that a layer's tensor may have, for checks and for timing. */
#ifndef GS_CHECK_DRAW_H
#define GS_CHECK_DRAW_H

#include "lua/layer.h"

/* n values for a tensor of the instance's graph, in storage order and as its type stores them:
 * reals are normal, integers legal where the layer uses them, ranges of the declaration hold.
 * sizes: of every dim of the graph. */
void gs_draw_values(gs_instance *i, const int64_t *sizes, int tensor, uint64_t seed, double *out,
                    int64_t n);

#endif
