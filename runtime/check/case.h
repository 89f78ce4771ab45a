/* case.h: one specialisation of a layer with sizes and values for every tensor. Private to check.
 */
#ifndef GS_CHECK_CASE_H
#define GS_CHECK_CASE_H

#include "check/check.h"

enum { MAX_OPTIONS = 32 };

typedef struct gs_rng {
  uint64_t s;
} gs_rng;
double gs_rng_uniform(gs_rng *r); /* [0, 1) */
double gs_rng_normal(gs_rng *r);
int64_t gs_rng_below(gs_rng *r, int64_t n); /* 0 .. n-1 */

typedef enum gs_mood { /* what the values of a case are like */
                       GS_MOOD_ORDINARY,
                       GS_MOOD_HUGE,
                       GS_MOOD_TINY,
                       GS_MOOD_ZEROS,
                       GS_MOOD_REPEATED,
                       GS_MOODS
} gs_mood;

typedef struct gs_case {
  gs_instance *i;
  gs_mood mood;
  int64_t sizes[GS_MAX_DIMS];
  double options[MAX_OPTIONS];
  double **tensor; /* of each tensor of the graph: its elements in storage order, as stored */
  int ntensors;
  bool alike;      /* for timing: pieces of a dim are of one length */
  char label[256]; /* "bf16 T=17 H=129 huge" */
} gs_case;

/* Draws sizes and values. round 0 has sizes of 1 where the layer permits. A choice of sizes that
 * the layer refuses is drawn again. */
gs_status gs_case_new(gs_layer *l, gs_type dtype, int round, gs_mood mood,
                      const gs_check_options *o, gs_rng *r, gs_case *out, gs_error *err);
void gs_case_free(gs_case *c);

int64_t gs_case_count(const gs_case *c, const int *dim, int ndims); /* elements of a tensor */
/* The elements of a (dims ascending) in the storage order dim[0..ndims); malloc'ed; which: v or
 * err. */
double *gs_case_order(const gs_case *c, const gs_array *a, const double *which, const int *dim,
                      int ndims);
/* "[3, 17]": the index of element i. */
void gs_case_index(const gs_case *c, const int *dim, int ndims, int64_t i, char *out, size_t cap);

/* The layer's expressions as written against what the simplifier makes of them. */
gs_status gs_check_simplified(gs_case *c, gs_error *err);
/* Points 1, 2 and 5 on a case. */
gs_status gs_check_math(gs_case *c, gs_rng *r, gs_check_report *rep, gs_error *err);

/* Points 3 and 4: every pass of every case, compiled together, run one by one. */
gs_status gs_check_runs(gs_case *cases, int ncases, gs_device *d, const gs_check_options *o,
                        gs_check_report *rep, gs_error *err);

#endif
