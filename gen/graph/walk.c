/* walk.c: what roots reach, substitution, and the count of flops. */
#include "graph/internal.h"
#include "graph/ops.h"

id_list reachable(const gs_graph *g, const gs_id *roots, int n, gs_arena *a) {
  char *seen = GS_NEW_N(a, char, g->count);
  gs_id top = 0;
  for (int i = 0; i < n; i++) {
    if (roots[i] <= 0 || roots[i] >= g->count) continue;
    seen[roots[i]] = 1;
    if (roots[i] > top) top = roots[i];
  }
  int count = 0;
  for (gs_id id = top; id > 0; id--) {
    if (!seen[id]) continue;
    const gs_node *node = node_at(g, id);
    for (int k = 0; k < node->nargs; k++) seen[node->arg[k]] = 1;
    count++;
  }
  id_list list = {.id = GS_NEW_N(a, gs_id, count + 1)};
  for (gs_id id = 1; id <= top; id++)
    if (seen[id]) list.id[list.n++] = id;
  return list;
}

gs_id rebuild(gs_graph *g, gs_id id, const gs_id *map) {
  const gs_node *old = node_at(g, id);
  gs_node n = *old;
  bool changed = false;
  for (int k = 0; k < n.nargs; k++) {
    n.arg[k] = map[old->arg[k]];
    changed |= n.arg[k] != old->arg[k];
  }
  return changed ? make(g, &n) : id;
}

void gs_substitute(gs_graph *g, const gs_id *from, const gs_id *to, int n, gs_id *roots,
                   int nroots) {
  gs_arena *a = gs_arena_new();
  id_list list = reachable(g, roots, nroots, a);
  gs_id *map = GS_NEW_N(a, gs_id, g->count);
  for (int i = 0; i < list.n; i++) {
    gs_id id = list.id[i], replacement = 0;
    for (int k = 0; k < n; k++)
      if (from[k] == id) replacement = to[k];
    map[id] = replacement ? replacement : rebuild(g, id, map);
  }
  for (int i = 0; i < nroots; i++)
    if (roots[i] > 0) roots[i] = map[roots[i]];
  gs_arena_free(a);
}

double points(const gs_graph *g, gs_dims dims, const int64_t *sizes) {
  double p = 1;
  for (int d = 0; d < g->ndims; d++) {
    if (!has(dims, d)) continue;
    int64_t size = inner_size(g, d);
    p *= (double)(size >= 0 ? size : sizes[gs_graph_dim_root(g, d)]);
  }
  return p;
}

gs_dims work_dims(const gs_graph *g, const gs_node *n) {
  gs_dims dims = n->dims | n->rdims;
  if (n->op == GS_OP_SUM_BY) dims = node_at(g, n->arg[0])->dims | node_at(g, n->arg[1])->dims;
  return dims;
}

int op_cost(const gs_node *n) {
  return n->op == GS_OP_ROUND && n->to == GS_F32 ? 0 : row_of(n->op)->info.cost;
}

/* Of a fold: one step of its component. */
static double cost_of(const gs_graph *g, const gs_node *n, gs_arena *a) {
  if (n->op != GS_OP_FOLD) return op_cost(n);
  id_list list = reachable(g, &g->folds[n->index].step[n->dim[0]], 1, a);
  double cost = 0;
  for (int i = 0; i < list.n; i++) cost += op_cost(node_at(g, list.id[i]));
  return cost;
}

double gs_flops(const gs_graph *g, const gs_id *roots, int n, const int64_t *sizes) {
  gs_arena *a = gs_arena_new();
  id_list list = reachable(g, roots, n, a);
  double flops = 0;
  for (int i = 0; i < list.n; i++) {
    const gs_node *node = node_at(g, list.id[i]);
    flops += cost_of(g, node, a) * points(g, work_dims(g, node), sizes);
  }
  gs_arena_free(a);
  return flops;
}
