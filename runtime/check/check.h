/* check.h: a layer held against float64, as DESIGN's five points say:
 *   1. the closed form against the adjoint of the forward, 2. both against central differences,
 *   3. the expanded kernels against the float64 value, within a bound derived from the arithmetic,
 *   4. every output written once, nothing unwritten read, no access out of range, no race,
 *   5. the cost of the closed form beside that of the derived one.
 * Besides, each expression as written against what the simplifier makes of it, since kernels and the
 * derived backward come from the latter.
 * What passes is "checked" at many points, not proved. */
#ifndef GS_CHECK_H
#define GS_CHECK_H

#include "device/device.h"
#include "lua/layer.h"

typedef struct gs_check_options {
  uint64_t seed;             /* of the values and sizes drawn */
  int rounds;                /* choices of sizes a storage type; 0: the default, 4 */
  const char *options;       /* "gemma=1,cap=30": these options in every round; NULL: the defaults
                                and, in later rounds, other values that the layer lists */
  const char *dims;          /* "T=5,H=4096": these sizes in every round; NULL: all are drawn */
  gs_device *const *devices; /* kernels run on each of these; none: only points 1, 2 and 5 */
  int ndevices;
  /* Tests break kernels through this, to show that a check can fail: a new text, kept by the
   * caller, or NULL to leave the kernel as it is. */
  const char *(*edit)(void *context, const gs_kernel *k);
  void *context;
} gs_check_options;

typedef struct gs_check_report {
  int math_points;       /* gradient elements compared in point 1 */
  int difference_points; /* in point 2 */
  int kernel_runs;       /* passes run on a device */
  double values;         /* elements compared in point 3 */
  double elements;       /* all; of the rest float64 has no finite value or bound */
  double worst;          /* largest |kernel - float64| / bound */
  bool has_gradient;
  bool has_adjoint; /* false: a gradient goes through the author's own reduction, so that point 1
                       was left out */
  /* Point 5: of the author's backward and of the one that gen derives from the forward. */
  bool has_cost;                      /* false: nothing could be derived */
  bool has_closed;                    /* false: backward is gs.derived */
  bool is_shorter;                    /* the derived one computes and moves less */
  double closed_flops, derived_flops; /* an element of the largest input */
  int closed_read, derived_read;      /* tensors */
  int closed_saved, derived_saved;    /* values saved by the forward */
} gs_check_report;

/* GS_ERR_CHECK: the message names layer, pass, sizes, the first wrong element with its index, both
 * values and the bound. */
gs_status gs_check_layer(gs_author *a, const char *name, const gs_check_options *o,
                         gs_check_report *r, gs_error *err);

#endif
