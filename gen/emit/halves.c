/* halves.c: reductions over a dim that a result joins from parts, made over the parts; so are sums
 * over rows that keep such a dim.
 *
 * A result such as join(a*c - b*s, b*c + a*s) of the halves a and b of a row is stored half by
 * half. A sum over that row is then the sum over one half of a's and b's terms: the loop of the sum
 * reads what the loop of the stores reads, at the same places, and both may be kept on the chip;
 * and a value that is itself such a join needs no choice of a part at each element. Changes the
 * order of sums, the same in every pass of a layer that joins so; keeps values as reals. */
#include "emit/emit.h"

#define MOST_PARTS 4

static bool *mark_all(emit *e) {
  bool *seen = GS_NEW_N(e->a, bool, gs_graph_size(e->g) + 1);
  gs_id top = 0;
  for (int i = 0; i < e->pass->nresults; i++) {
    seen[e->results[i].expr] = true;
    if (e->results[i].expr > top) top = e->results[i].expr;
  }
  for (gs_id id = top; id > 0; id--) {
    const gs_node *n = gs_graph_node(e->g, id);
    for (int i = 0; seen[id] && i < n->nargs; i++) seen[n->arg[i]] = true;
  }
  return seen;
}

/* The dim among m's two that its value joins, few enough; or -1. */
static int parts_of(const emit *e, const gs_node *m) {
  if (m->op != GS_OP_MERGE || dim_is_outer(e, m->dim[0])) return -1;
  int join = joined_dim(e, m);
  if (join < 0 || dim_size(e, join) < 2 || dim_size(e, join) > MOST_PARTS) return -1;
  bool whole = dim_size(e, m->dim[1]) * dim_size(e, m->dim[2]) == dim_size(e, m->dim[0]);
  return whole ? join : -1;
}

static gs_id part_of(emit *e, gs_id parts, int join, int64_t i, int line) {
  gs_node pick = {.op = GS_OP_PICK,
                  .nargs = 1,
                  .arg = {parts},
                  .dim = {join, -1, -1},
                  .index = i,
                  .line = line};
  return gs_apply(e->g, &pick, e->err);
}

/* The reduction n over m's merged dim, over the rest of each part; 0 where it can't be. */
static gs_id over_parts(emit *e, const gs_node *n, const gs_node *m, int join) {
  gs_node split = {.op = GS_OP_SPLIT,
                   .nargs = 1,
                   .arg = {n->arg[0]},
                   .dim = {m->dim[0], m->dim[1], m->dim[2]},
                   .line = n->line};
  gs_id parts = gs_apply(e->g, &split, e->err), all = 0;
  gs_op add = n->op == GS_OP_SUM ? GS_OP_ADD : n->op == GS_OP_RMAX ? GS_OP_MAX : GS_OP_MIN;
  for (int64_t i = 0; parts > 0 && i < dim_size(e, join); i++) {
    gs_id one = part_of(e, parts, join, i, n->line);
    if (one <= 0) return 0;
    all = all ? gs_op2(e->g, add, all, one) : one;
  }
  if (all <= 0) return 0;
  gs_dims rest = (gs_dims)1 << m->dim[1] | (gs_dims)1 << m->dim[2];
  rest &= ~((gs_dims)1 << join);
  gs_node sum = {.op = n->op,
                 .nargs = 1,
                 .arg = {all},
                 .rdims = (n->rdims & ~((gs_dims)1 << m->dim[0])) | rest,
                 .line = n->line};
  return gs_apply(e->g, &sum, e->err);
}

/* The sum n, which keeps m's merged dim: the join of the sums of its parts; 0 where it can't be. */
static gs_id by_parts(emit *e, const gs_node *n, const gs_node *m, int join) {
  gs_node split = {.op = GS_OP_SPLIT,
                   .nargs = 1,
                   .arg = {n->arg[0]},
                   .dim = {m->dim[0], m->dim[1], m->dim[2]},
                   .line = n->line};
  gs_id parts = gs_apply(e->g, &split, e->err);
  gs_node all = {.op = GS_OP_JOIN, .dim = {join, -1, -1}, .line = n->line};
  for (int64_t i = 0; parts > 0 && i < dim_size(e, join); i++) {
    gs_node sum = {.op = n->op,
                   .nargs = 1,
                   .arg = {part_of(e, parts, join, i, n->line)},
                   .rdims = n->rdims,
                   .line = n->line};
    all.arg[all.nargs++] = sum.arg[0] > 0 ? gs_apply(e->g, &sum, e->err) : 0;
    if (all.arg[i] <= 0) return 0;
  }
  gs_node merge = {.op = GS_OP_MERGE,
                   .nargs = 1,
                   .arg = {parts > 0 ? gs_apply(e->g, &all, e->err) : 0},
                   .dim = {m->dim[0], m->dim[1], m->dim[2]},
                   .line = n->line};
  return merge.arg[0] > 0 ? gs_apply(e->g, &merge, e->err) : 0;
}

/* Whether n is a sum over rows that keeps d, of values that merge `at` is in. */
static bool keeps_merged(emit *e, const gs_node *n, int d, gs_id at) {
  bool rows = false;
  for (int i = 0; i < gs_graph_ndims(e->g); i++) rows |= (n->rdims >> i & 1) && dim_is_outer(e, i);
  if (n->op != GS_OP_SUM || !rows || (n->rdims >> d & 1) || at > n->arg[0]) return false;
  if (!(n->dims >> d & 1)) return false;
  bool *seen = GS_NEW_N(e->a, bool, n->arg[0] + 1);
  seen[n->arg[0]] = true;
  for (gs_id id = n->arg[0]; id > at; id--) {
    const gs_node *x = gs_graph_node(e->g, id);
    if (!seen[id] || reduces_dims(x->op) || x->op == GS_OP_SUM_BY || x->op == GS_OP_AT) continue;
    for (int i = 0; i < x->nargs; i++) seen[x->arg[i]] = true;
  }
  return seen[at];
}

static bool is_over(const emit *e, const gs_node *n, int d) {
  bool plain = n->op == GS_OP_SUM || n->op == GS_OP_RMAX || n->op == GS_OP_RMIN;
  if (!plain || !(n->rdims >> d & 1) || !(gs_graph_node(e->g, n->arg[0])->dims >> d & 1))
    return false;
  for (int i = 0; i < gs_graph_ndims(e->g); i++)
    if ((n->rdims >> i & 1) && dim_is_outer(e, i)) return false;
  return true;
}

/* One reduction; false when there is none left. */
static bool halve_one(emit *e) {
  bool *seen = mark_all(e);
  gs_id size = gs_graph_size(e->g);
  for (gs_id at = 1; at < size; at++) {
    if (!seen[at]) continue;
    const gs_node m = *gs_graph_node(e->g, at);
    int join = parts_of(e, &m);
    for (gs_id id = 1; join >= 0 && id < size; id++) {
      const gs_node n = *gs_graph_node(e->g, id);
      if (!seen[id]) continue;
      bool over = is_over(e, &n, m.dim[0]);
      if (!over && !keeps_merged(e, &n, m.dim[0], at)) continue;
      gs_id to = over ? over_parts(e, &n, &m, join) : by_parts(e, &n, &m, join);
      if (to <= 0 || to == id) continue;
      replace_node(e, id, to);
      return true;
    }
  }
  return false;
}

void halve_reductions(emit *e) {
  for (int guard = 0; guard < 32 && halve_one(e);) guard++;
}
