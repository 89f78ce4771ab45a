/* eval.h: what eval.c (order, memory, leaves) and eval_ops.c (one node's arrays) share. */
#ifndef GS_GRAPH_EVAL_H
#define GS_GRAPH_EVAL_H

#include "graph/internal.h"
#include "graph/ops.h"

/* A node's array, dims ascending, last fastest. e NULL: exact. */
typedef struct value {
  gs_dims dims;
  size_t count;
  const double *v, *e;
  double *own_v, *own_e; /* to be freed; NULL when borrowed */
} value;

typedef struct eval {
  const gs_graph *g;
  const gs_env *env;
  value *of; /* of each node */
  gs_error *err;
} eval;

#define UNIT 0x1p-24 /* half an ulp of f32, relative */
#define F32_MAX 0x1.fffffep127
#define F32_MIN 0x1p-126 /* smallest normal */

/* One dim of a walk over an array: index i is at offset (i / div) * high + (i % div) * low. */
typedef struct axis {
  int64_t size, div, high, low;
} axis;

int64_t size_of(const eval *ev, int d);
size_t count_of(const eval *ev, gs_dims dims);
int64_t stride_of(const eval *ev, gs_dims dims, int d); /* 0 when absent */
/* The axes of a walk over `over` through an array of dims `of`. Returns how many. */
int axes_of(const eval *ev, gs_dims over, gs_dims of, axis *ax);
/* Offsets of the walk, the last axis fastest, malloc'ed; NULL and a filled error without memory. */
size_t *offsets(const eval *ev, const axis *ax, int n, size_t base);

/* eval_ops.c: fills of[id], whose dims and count are set, and own_v is allocated. */
gs_status eval_map(eval *ev, gs_id id);
gs_status eval_reduce(eval *ev, gs_id id);
gs_status eval_view(eval *ev, gs_id id);
gs_status eval_gather(eval *ev, gs_id id);
gs_status eval_fold(eval *ev, gs_id id); /* eval_fold.c */
gs_status need_errors(eval *ev, value *y);
/* One point of a KIND_MAP node: the value, and its error bound: infinite where there is none. */
void map_bound(const gs_graph *g, const gs_node *n, const double *x, const double *e, bool exact,
               double *v, double *err);
gs_status no_memory(const eval *ev, size_t count);

#endif
