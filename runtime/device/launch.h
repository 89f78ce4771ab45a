/* launch.h: a launch list with pointers and sizes filled in. Used by the check and by the step. */
#ifndef GS_LAUNCH_H
#define GS_LAUNCH_H

#include "device/device.h"

/* One bound tensor, in the order of gs_launch_list.bindings. */
typedef struct gs_bound {
  gs_ptr ptr;     /* tensors and step scalars */
  size_t bytes;   /* extent behind ptr */
  int64_t stride; /* elements between steps of the first dim */
  float value;    /* scalars */
} gs_bound;

/* Compiled kernels of a launch list. */
typedef struct gs_compiled {
  const gs_launch_list *list;
  gs_func **funcs;
} gs_compiled;

/* Bytes of temporary number t for these sizes (of each dim of list->g). */
size_t gs_launch_temp_bytes(const gs_launch_list *l, int t, const int64_t *sizes);

/* Launches all kernels in order. A result bound in place has the ptr of its partner. temps[i] is
 * memory for temporary i. Launches with an empty grid are skipped. */
gs_status gs_launch(gs_device *d, const gs_compiled *c, const gs_bound *bound, const int64_t *sizes,
                    const gs_ptr *temps, gs_error *err);
/* The same without the kernels before number `first`: what they have written is there. */
gs_status gs_launch_from(gs_device *d, const gs_compiled *c, int first, const gs_bound *bound,
                         const int64_t *sizes, const gs_ptr *temps, gs_error *err);

#endif
