/* lint.h: kernels' texts held against their records, and against the rules of templates/README.md
 * that no compiler knows, by libclang's tree of the text.
 *
 * Looked at: the parameter list (count, order, kind, type, name) and the head (threads,
 * barrier_free) against the record; barriers and collectives in a kernel that says it has none;
 * those that not every thread reaches; tensors used otherwise than by [] and functions; indices
 * formed in 32 bits from outer dims and strides; f64. A lint, not a proof: what it reports is
 * wrong, what it passes need not be right. */
#ifndef GS_LINT_H
#define GS_LINT_H

#include "base/text.h"
#include "emit/compile.h"

typedef struct gs_lint gs_lint;

/* GS_ERR_DEVICE where no libclang is found: the message says where it was sought. */
gs_status gs_lint_open(gs_lint **out, gs_error *err);
void gs_lint_close(gs_lint *l);
const char *gs_lint_path(const gs_lint *l); /* of the library */

/* Appends what is wrong with the kernels of a list to found, "FILE:LINE: KERNEL: what: why" a line,
 * and adds how many to *n. FILE is the layer's for the text of gs.cuda, else KERNEL.cu. */
gs_status gs_lint_list(gs_lint *l, const gs_launch_list *list, gs_text *found, int *n,
                       gs_error *err);

/* Every pass of a layer at sizes that it accepts, for an architecture ("sm_90a", "emu"); name as
 * in gs_layer_open. Adds the number of kernels to *kernels. */
gs_status gs_lint_layer(gs_lint *l, const char *name, const char *arch, gs_text *found, int *n,
                        int *kernels, gs_error *err);

#endif
