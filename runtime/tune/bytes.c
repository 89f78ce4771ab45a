/* bytes.c: what a pass must move, from its bindings and from the gathers of its graph. */
#include "tune/bytes.h"

#include <string.h>

static double count_of(const gs_graph *g, const int64_t *sizes, const int *dim, int ndims) {
  double n = 1;
  for (int k = 0; k < ndims; k++) {
    int64_t inner = gs_graph_dim_at(g, dim[k])->size;
    n *= (double)(inner >= 0 ? inner : sizes[dim[k]]);
  }
  return n;
}

/* Elements of a tensor that is only gathered from: one for each point of the gathers; else -1. */
static double gathered(const gs_launch_list *l, const char *name, const int64_t *sizes) {
  double points = 0;
  for (gs_id id = 1; id < gs_graph_size(l->g); id++) {
    const gs_node *n = gs_graph_node(l->g, id);
    for (int k = 0; k < n->nargs; k++) {
      const gs_node *a = gs_graph_node(l->g, n->arg[k]);
      if (a->op != GS_OP_INPUT) continue;
      if (strcmp(gs_graph_tensor_at(l->g, (int)a->index)->name, name) != 0) continue;
      if (n->op != GS_OP_AT || k != 0) return -1;
      int dim[GS_MAX_DIMS], ndims = 0;
      for (int d = 0; d < GS_MAX_DIMS; d++)
        if (n->dims >> d & 1) dim[ndims++] = d;
      points += count_of(l->g, sizes, dim, ndims);
    }
  }
  return points > 0 ? points : -1;
}

/* Of a tensor that is gathered from and smaller for it; else -1. */
static double elements_gathered(const gs_launch_list *l, const gs_binding *b,
                                const int64_t *sizes) {
  double all = count_of(l->g, sizes, b->dim, b->ndims);
  double some = b->is_result ? -1 : gathered(l, b->name, sizes);
  return some >= 0 && some < all ? some : -1;
}

double gs_bytes_of(const gs_launch_list *l, const gs_binding *b, const int64_t *sizes) {
  double some = elements_gathered(l, b, sizes);
  return (some >= 0 ? some : count_of(l->g, sizes, b->dim, b->ndims)) *
         (double)gs_type_size(b->type);
}

/* A result that lies in another's memory is written with that. */
static bool is_in_memory(const gs_launch_list *l, const gs_binding *b) {
  bool joined = b->is_result && b->inplace >= 0 && l->bindings[b->inplace].is_result;
  return b->role != GS_ROLE_SCALAR && !joined;
}

double gs_bytes_fewest(const gs_launch_list *l, const int64_t *sizes) {
  double bytes = 0;
  for (int k = 0; k < l->nbindings; k++)
    if (is_in_memory(l, &l->bindings[k])) bytes += gs_bytes_of(l, &l->bindings[k], sizes);
  return bytes;
}

void gs_bytes_formula(const gs_launch_list *l, const int64_t *sizes, gs_text *out) {
  bool first = true;
  for (int k = 0; k < l->nbindings; k++) {
    const gs_binding *b = &l->bindings[k];
    if (!is_in_memory(l, b)) continue;
    double some = elements_gathered(l, b, sizes);
    gs_text_printf(out, "%s%zu", first ? "" : " + ", gs_type_size(b->type));
    if (some >= 0) gs_text_printf(out, "*%.0f gathered", some);
    for (int i = 0; i < b->ndims && some < 0; i++)
      gs_text_printf(out, "*%s", gs_graph_dim_at(l->g, b->dim[i])->name);
    gs_text_printf(out, " %s", b->name);
    first = false;
  }
}
