/* steps.h: the steps that train, generate and evaluation make of a model, made on a machine that is
 * only compiled for: what `compile` measures and `pack` ships is what the planner itself asked for.
 */
#ifndef GS_CLI_STEPS_H
#define GS_CLI_STEPS_H

#include "step/library.h"

typedef struct gs_steps_wish {
  const char *model, *lora; /* lora: NULL is as for train */
  gs_type dtype;
  int64_t tokens;
} gs_steps_wish;

/* Makes the steps, which compiles their kernels, then calls `then` (NULL: nothing) with the layers
 * that they use, while they are there. */
typedef gs_status (*gs_with_library)(void *context, const gs_library *l, gs_error *err);
gs_status gs_make_steps(gs_device *d, const gs_steps_wish *w, gs_with_library then, void *context,
                        gs_error *err);

#endif
