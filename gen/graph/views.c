/* views.c: simplification on construction of views, gathers and reductions: a dim that the value
 * does not have, views that undo each other, views of an index.
 *
 * requires: a checked node. keeps: the value bit for bit. */
#include "graph/internal.h"
#include "graph/ops.h"

#include <math.h>

static gs_id index_node(gs_graph *g, int d) {
  return make(g, &(gs_node){.op = GS_OP_INDEX, .dim = {d}});
}
static gs_id int_const(gs_graph *g, int64_t v) {
  return const_of(g, (double)v, GS_I64);
}

static bool same_dims(const gs_node *a, const gs_node *b) {
  return a->dim[0] == b->dim[0] && a->dim[1] == b->dim[1] && a->dim[2] == b->dim[2];
}

/* The index along dim[0] of what a split gives. */
static gs_id split_index(gs_graph *g, const gs_node *n) {
  gs_id high =
      gs_op2(g, GS_OP_MUL, index_node(g, n->dim[1]), int_const(g, inner_size(g, n->dim[2])));
  return gs_op2(g, GS_OP_ADD, high, index_node(g, n->dim[2]));
}

gs_id mask_tail(gs_graph *g, const gs_node *n, gs_id e) {
  if (divides(g, n)) return e;
  gs_id size = make(g, &(gs_node){.op = GS_OP_SIZE, .dim = {n->dim[0]}});
  gs_id inside = gs_op2(g, GS_OP_LT, split_index(g, n), size);
  return gs_where(g, inside, e, const_of(g, 0, node_at(g, e)->type));
}

static gs_id view_split(gs_graph *g, const gs_node *n) {
  const gs_node *e = node_at(g, n->arg[0]);
  if (is_value(g, n->arg[0], 0)) return n->arg[0];
  if (!has(e->dims, n->dim[0])) return mask_tail(g, n, n->arg[0]);
  if (e->op == GS_OP_MERGE && same_dims(n, e)) return mask_tail(g, n, e->arg[0]);
  return e->op == GS_OP_INDEX ? mask_tail(g, n, split_index(g, n)) : 0;
}

static gs_id view_merge(gs_graph *g, const gs_node *n) {
  const gs_node *e = node_at(g, n->arg[0]);
  if (!(e->dims & (bit(n->dim[1]) | bit(n->dim[2])))) return n->arg[0];
  return e->op == GS_OP_SPLIT && same_dims(n, e) ? e->arg[0] : 0;
}

static gs_id view_pick(gs_graph *g, const gs_node *n) {
  const gs_node *e = node_at(g, n->arg[0]);
  int d = n->dim[0];
  if (!has(e->dims, d)) return n->arg[0];
  if (e->op == GS_OP_INDEX) return int_const(g, n->index);
  if (e->op == GS_OP_JOIN && e->dim[0] == d) return e->arg[n->index];
  if (e->op == GS_OP_SLICE && e->dim[1] == d)
    return view1(g, GS_OP_PICK, e->arg[0], e->dim[0], -1, n->index + e->index);
  if (e->op == GS_OP_RENAME && e->dim[1] == d)
    return view1(g, GS_OP_PICK, e->arg[0], e->dim[0], -1, n->index);
  return 0;
}

static gs_id view_slice(gs_graph *g, const gs_node *n) {
  const gs_node *e = node_at(g, n->arg[0]);
  int from = n->dim[0], to = n->dim[1];
  if (!has(e->dims, from)) return n->arg[0];
  if (inner_size(g, from) == inner_size(g, to))
    return view1(g, GS_OP_RENAME, n->arg[0], from, to, 0);
  if (e->op == GS_OP_INDEX) return gs_op2(g, GS_OP_ADD, index_node(g, to), int_const(g, n->index));
  if (e->op == GS_OP_SLICE && e->dim[1] == from)
    return view1(g, GS_OP_SLICE, e->arg[0], e->dim[0], to, n->index + e->index);
  return 0;
}

static gs_id view_rename(gs_graph *g, const gs_node *n) {
  const gs_node *e = node_at(g, n->arg[0]);
  int from = n->dim[0], to = n->dim[1];
  if (!has(e->dims, from) || from == to) return n->arg[0];
  if (e->op == GS_OP_INDEX) return index_node(g, to);
  if (e->op == GS_OP_RENAME && e->dim[1] == from)
    return view1(g, GS_OP_RENAME, e->arg[0], e->dim[0], to, 0);
  return 0;
}

/* All parts the same, or the picks of one value in order. */
static gs_id view_join(gs_graph *g, const gs_node *n) {
  bool same = true, picks = true;
  const gs_node *first = node_at(g, n->arg[0]);
  for (int k = 0; k < n->nargs; k++) {
    const gs_node *e = node_at(g, n->arg[k]);
    same &= n->arg[k] == n->arg[0];
    picks &= e->op == GS_OP_PICK && e->dim[0] == n->dim[0] && e->index == k &&
             e->arg[0] == first->arg[0];
  }
  if (same) return n->arg[0];
  return picks ? first->arg[0] : 0;
}

/* A gather at index(r) + from, with all of r inside: a slice. */
static gs_id slice_at(gs_graph *g, const gs_node *n, gs_id e, gs_id i) {
  const gs_node *in = node_at(g, i);
  int64_t from = 0, size = inner_size(g, n->dim[0]);
  if (in->op == GS_OP_ADD && is_const(g, in->arg[1])) {
    from = (int64_t)node_at(g, in->arg[1])->value;
    in = node_at(g, in->arg[0]);
  }
  if (in->op != GS_OP_INDEX || has(node_at(g, e)->dims, in->dim[0])) return 0;
  int r = in->dim[0];
  if (size < 0) {
    bool same = gs_graph_dim_root(g, r) == gs_graph_dim_root(g, n->dim[0]);
    return same && from == 0 ? view1(g, GS_OP_RENAME, e, n->dim[0], r, 0) : 0;
  }
  int64_t length = inner_size(g, r);
  if (length < 0 || from < 0 || from + length > size) return 0;
  return view1(g, GS_OP_SLICE, e, n->dim[0], r, from);
}

static gs_id gather_at(gs_graph *g, gs_node *n) {
  gs_id e = n->arg[0], i = n->arg[1], ok = n->nargs == 3 ? n->arg[2] : 0;
  gs_id zero = const_of(g, 0, n->type);
  if (ok && is_value(g, ok, 0)) return zero;
  if (ok && is_const(g, ok)) return gather(g, e, i, 0, n->dim[0]);
  if (!has(node_at(g, e)->dims, n->dim[0])) return ok ? gs_where(g, ok, e, zero) : e;
  const gs_node *in = node_at(g, i);
  int64_t size = inner_size(g, n->dim[0]);
  gs_id along = slice_at(g, n, e, i);
  if (along) return ok ? gs_where(g, ok, along, zero) : along;
  if (in->op != GS_OP_CONST || size < 0 || in->value < 0 || in->value >= (double)size) return 0;
  gs_id picked = view1(g, GS_OP_PICK, e, n->dim[0], -1, (int64_t)in->value);
  return ok ? gs_where(g, ok, picked, zero) : picked;
}

/* Dims that the value lacks: it is the same along them. */
static gs_id reduce(gs_graph *g, gs_node *n) {
  gs_id e = n->arg[0];
  if (n->op == GS_OP_FOLD) return 0; /* elements count, also those that do not vary */
  gs_dims own = n->rdims & node_at(g, e)->dims, extra = n->rdims & ~own;
  if (!own && !extra) return e;
  if (!extra) return 0;
  gs_id r = own ? gs_reduce(g, n->op, e, own) : e;
  if (n->op == GS_OP_RMAX || n->op == GS_OP_RMIN) return r;
  gs_id size = gs_const(g, 1);
  for (int d = 0; d < g->ndims; d++)
    if (has(extra, d)) size = gs_op2(g, GS_OP_MUL, size, size_real(g, d));
  if (n->op == GS_OP_SUM) return gs_op2(g, GS_OP_MUL, r, size);
  return gs_op2(g, GS_OP_ADD, r, gs_op1(g, GS_OP_LOG, size));
}

/* A key that is one for all of the summed dim needs no grouping. */
static gs_id sum_by(gs_graph *g, gs_node *n) {
  gs_id e = n->arg[0], key = n->arg[1];
  const gs_node *k = node_at(g, key);
  if (is_value(g, e, 0)) return e;
  if (k->op == GS_OP_INDEX &&
      k->dim[0] == n->dim[0]) { /* result[v] = e[v], where e reaches so far */
    gs_id v = index_node(g, n->dim[1]);
    gs_id size = make(g, &(gs_node){.op = GS_OP_SIZE, .dim = {n->dim[0]}});
    return gather(g, e, v, gs_op2(g, GS_OP_LT, v, size), n->dim[0]);
  }
  if (has(k->dims, n->dim[0])) return 0;
  gs_id hit = gs_op2(g, GS_OP_EQ, index_node(g, n->dim[1]), key);
  return gs_where(g, hit, sum_over(g, e, bit(n->dim[0])), gs_const(g, 0));
}

gs_id simplify_view(gs_graph *g, gs_node *n) {
  switch (n->op) {
  case GS_OP_SPLIT: return view_split(g, n);
  case GS_OP_MERGE: return view_merge(g, n);
  case GS_OP_PICK: return view_pick(g, n);
  case GS_OP_SLICE: return view_slice(g, n);
  case GS_OP_RENAME: return view_rename(g, n);
  case GS_OP_JOIN: return view_join(g, n);
  case GS_OP_AT: return gather_at(g, n);
  case GS_OP_SUM_BY: return sum_by(g, n);
  default: return reduce(g, n);
  }
}
