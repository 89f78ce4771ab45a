/* eval.c: a graph in float64 with an error bound: order of work, memory, leaves.
 *
 * requires: a verified graph. An array is freed after its last reader. Elements are reached through
 * tables of offsets, made once a node, so that loops are plain whatever the dims. */
#include "graph/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

gs_status no_memory(const eval *ev, size_t count) {
  return gs_fail(ev->err, GS_ERR_MEMORY, "no memory for %zu values of the evaluation", count);
}

/* ---- offsets ---- */

int64_t size_of(const eval *ev, int d) {
  int64_t size = inner_size(ev->g, d);
  return size >= 0 ? size : ev->env->sizes[gs_graph_dim_root(ev->g, d)];
}

size_t count_of(const eval *ev, gs_dims dims) {
  size_t n = 1;
  for (int d = 0; d < ev->g->ndims; d++)
    if (has(dims, d)) n *= (size_t)size_of(ev, d);
  return n;
}

int64_t stride_of(const eval *ev, gs_dims dims, int d) {
  if (!has(dims, d)) return 0;
  int64_t s = 1;
  for (int k = d + 1; k < ev->g->ndims; k++)
    if (has(dims, k)) s *= size_of(ev, k);
  return s;
}

int axes_of(const eval *ev, gs_dims over, gs_dims of, axis *ax) {
  int n = 0;
  for (int d = 0; d < ev->g->ndims; d++)
    if (has(over, d)) ax[n++] = (axis){size_of(ev, d), 1, stride_of(ev, of, d), 0};
  return n;
}

size_t *offsets(const eval *ev, const axis *ax, int n, size_t base) {
  size_t count = 1;
  for (int k = 0; k < n; k++) count *= (size_t)ax[k].size;
  size_t *out = malloc(sizeof *out * (count ? count : 1));
  if (!out) {
    no_memory(ev, count);
    return NULL;
  }
  if (count == 0) return out;
  size_t filled = 1;
  out[0] = base;
  for (int k = n - 1; k >= 0; k--) {
    for (int64_t i = 1; i < ax[k].size; i++) {
      size_t step = (size_t)((i / ax[k].div) * ax[k].high + (i % ax[k].div) * ax[k].low);
      size_t *row = out + (size_t)i * filled;
      for (size_t j = 0; j < filled; j++) row[j] = out[j] + step;
    }
    filled *= (size_t)ax[k].size;
  }
  return out;
}

/* ---- leaves ---- */

static gs_status eval_input(eval *ev, gs_id id) {
  const gs_node *n = node_at(ev->g, id);
  const gs_tensor *t = &ev->g->tensors[n->index];
  value *y = &ev->of[id];
  const double *data = ev->env->tensor[n->index];
  if (!data) return gs_fail(ev->err, GS_ERR_USE, "no values are given for the tensor %s", t->name);
  axis ax[GS_MAX_DIMS];
  bool in_order = true;
  for (int k = 1; k < t->ndims; k++) in_order &= t->dim[k] > t->dim[k - 1];
  if (in_order) {
    y->v = data;
    return GS_OK;
  }
  int count = 0;
  for (int d = 0; d < ev->g->ndims; d++) {
    if (!has(n->dims, d)) continue;
    int64_t stride = 1;
    for (int k = t->ndims - 1; k >= 0 && t->dim[k] != d; k--) stride *= size_of(ev, t->dim[k]);
    ax[count++] = (axis){size_of(ev, d), 1, stride, 0};
  }
  size_t *at = offsets(ev, ax, count, 0);
  if (!at) return GS_ERR_MEMORY;
  for (size_t i = 0; i < y->count; i++) y->own_v[i] = data[at[i]];
  free(at);
  return GS_OK;
}

static gs_status eval_leaf(eval *ev, gs_id id) {
  const gs_node *n = node_at(ev->g, id);
  value *y = &ev->of[id];
  switch (n->op) {
  case GS_OP_INPUT:
  case GS_OP_SCALAR: return eval_input(ev, id);
  case GS_OP_INDEX:
    for (size_t i = 0; i < y->count; i++) y->own_v[i] = (double)i;
    return GS_OK;
  case GS_OP_SIZE: y->own_v[0] = (double)size_of(ev, n->dim[0]); return GS_OK;
  default: y->own_v[0] = n->value; break;
  }
  double off = isfinite(n->value) ? fabs(n->value - (double)(float)n->value) : 0;
  if (n->type != GS_F32 || off == 0) return GS_OK;
  y->own_e = malloc(sizeof(double));
  if (!y->own_e) return no_memory(ev, 1);
  y->own_e[0] = off;
  return GS_OK;
}

/* ---- order and memory ---- */

static void release(value *y) {
  free(y->own_v);
  free(y->own_e);
  *y = (value){0};
}

/* Drops the errors when all are zero: later operations are cheaper on exact arrays. */
static void settle(value *y) {
  if (y->own_v && !y->v) y->v = y->own_v;
  if (y->own_e) {
    bool exact = true;
    for (size_t i = 0; i < y->count && exact; i++) exact = y->own_e[i] == 0;
    if (exact) {
      free(y->own_e);
      y->own_e = NULL;
    }
  }
  y->e = y->own_e;
}

static gs_status eval_node(eval *ev, gs_id id) {
  const gs_node *n = node_at(ev->g, id);
  value *y = &ev->of[id];
  gs_status status = GS_OK;
  y->dims = n->dims;
  y->count = count_of(ev, n->dims);
  y->own_v = malloc(sizeof(double) * (y->count ? y->count : 1));
  if (!y->own_v) return no_memory(ev, y->count);
  switch (row_of(n->op)->kind) {
  case KIND_LEAF: status = eval_leaf(ev, id); break;
  case KIND_MAP: status = eval_map(ev, id); break;
  case KIND_REDUCE: status = eval_reduce(ev, id); break;
  case KIND_VIEW: status = eval_view(ev, id); break;
  case KIND_GATHER: status = eval_gather(ev, id); break;
  }
  settle(y);
  return status;
}

static gs_status copy_out(const eval *ev, gs_id id, gs_array *out) {
  const value *y = &ev->of[id];
  size_t bytes = sizeof(double) * (y->count ? y->count : 1);
  *out = (gs_array){.dims = y->dims, .count = y->count, .v = malloc(bytes), .err = malloc(bytes)};
  if (!out->v || !out->err) return no_memory(ev, y->count);
  if (y->count) memcpy(out->v, y->v, sizeof(double) * y->count);
  for (size_t i = 0; i < y->count; i++) out->err[i] = y->e ? y->e[i] : 0;
  return GS_OK;
}

static gs_status run(eval *ev, const id_list *list, int *readers) {
  for (int i = 0; i < list->n; i++) {
    gs_id id = list->id[i];
    const gs_node *n = node_at(ev->g, id);
    gs_status status = eval_node(ev, id);
    if (status != GS_OK) return status;
    for (int k = 0; k < n->nargs; k++)
      if (--readers[n->arg[k]] == 0) release(&ev->of[n->arg[k]]);
  }
  return GS_OK;
}

gs_status gs_eval(const gs_graph *g, const gs_id *roots, int n, const gs_env *env, gs_array *out,
                  gs_error *err) {
  gs_arena *a = gs_arena_new();
  id_list list = reachable(g, roots, n, a);
  eval ev = {g, env, GS_NEW_N(a, value, g->count), err};
  int *readers = GS_NEW_N(a, int, g->count);
  for (int i = 0; i < n; i++) out[i] = (gs_array){0};
  for (int i = 0; i < list.n; i++) {
    const gs_node *node = node_at(g, list.id[i]);
    for (int k = 0; k < node->nargs; k++) readers[node->arg[k]]++;
  }
  for (int i = 0; i < n; i++) readers[roots[i]]++;
  gs_status status = run(&ev, &list, readers);
  for (int i = 0; i < n && status == GS_OK; i++) status = copy_out(&ev, roots[i], &out[i]);
  for (int i = 0; i < list.n; i++) release(&ev.of[list.id[i]]);
  if (status != GS_OK)
    for (int i = 0; i < n; i++) gs_array_free(&out[i]);
  gs_arena_free(a);
  return status;
}

void gs_array_free(gs_array *a) {
  free(a->v);
  free(a->err);
  *a = (gs_array){0};
}
