/* bytes.h: the fewest bytes that a pass must move through memory: every tensor that it is given
 * read once, every one that it gives written once. Of a tensor that is only gathered from, one
 * element for each point of the gathers. */
#ifndef GS_TUNE_BYTES_H
#define GS_TUNE_BYTES_H

#include "base/text.h"
#include "emit/compile.h"

/* sizes: of every dim of l->g. */
double gs_bytes_fewest(const gs_launch_list *l, const int64_t *sizes);
double gs_bytes_of(const gs_launch_list *l, const gs_binding *b, const int64_t *sizes);
/* The formula: "2*T*H x + 2*H w + 2*T*H y"; what follows a product is the tensor's name. */
void gs_bytes_formula(const gs_launch_list *l, const int64_t *sizes, gs_text *out);

#endif
