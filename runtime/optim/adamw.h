/* adamw.h: clipping by the global norm, then AdamW, over all trained parameters at once.
 * Formula: torch.nn.utils.clip_grad_norm_ and torch.optim.AdamW (decoupled weight decay); the
 * layers grad_norm and adamw are its text. */
#ifndef GS_ADAMW_H
#define GS_ADAMW_H

#include "step/record.h"

typedef struct gs_adamw {
  double beta1, beta2, eps, weight_decay;
  double max_norm; /* 0: no clipping */
} gs_adamw;

gs_adamw gs_adamw_default(void); /* .9, .999, 1e-8, 0, 1 */

/* The step scalars of an update, in device memory. */
typedef struct gs_adamw_vars {
  int lr, bc1, bc2; /* bc1 = 1 - beta1^t, bc2 = 1 - beta2^t */
} gs_adamw_vars;

/* Appends the norm of all gradients: *norm [] f32, kept for the host, and *coef, the clipping
 * factor. */
gs_status gs_record_norm(gs_record *r, double max_norm, int *norm, int *coef, gs_error *err);
/* Appends the update of masters, moments and working copies. */
gs_status gs_record_adamw(gs_record *r, const gs_adamw *o, const gs_adamw_vars *v, int coef,
                          gs_error *err);
/* lr, bc1, bc2 for update t (from 1). */
void gs_adamw_scalars(const gs_adamw *o, double lr, int64_t t, float out[3]);

#endif
