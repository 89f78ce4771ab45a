/* simplify.c: the pass: every rule, bottom-up, until nothing changes.
 *
 * requires: a verified graph. keeps: values in the reals (not bits), dims (a value may come to
 * depend on fewer), STOP and ROUND. Rules look at a node and what is below it, never at who uses
 * it: equal expressions become equal ones wherever they stand. */
#include "graph/algebra.h"
#include "graph/ops.h"

#define MOST_ROUNDS 24
#define MOST_STEPS 16  /* of one node in one round */
#define LEVELS_KNOWN 6 /* levels through which a condition is known */
#define DEEPEST 12     /* levels that a view looks through */

/* ---- functions ---- */

static gs_id rewrite_sqrt(gs_graph *g, const gs_node *n) {
  const gs_node *e = node_at(g, n->arg[0]);
  bool root = n->op == GS_OP_SQRT;
  if (root && e->op == GS_OP_MUL && e->arg[0] == e->arg[1]) return gs_op1(g, GS_OP_ABS, e->arg[0]);
  if (e->op == GS_OP_DIV && is_value(g, e->arg[0], 1))
    return gs_op1(g, root ? GS_OP_RSQRT : GS_OP_SQRT, e->arg[1]);
  return 0;
}

static bool is_nonnegative(const gs_graph *g, gs_id id) {
  const gs_node *n = node_at(g, id);
  switch (n->op) {
  case GS_OP_EXP:
  case GS_OP_SQRT:
  case GS_OP_RSQRT:
  case GS_OP_SIGMOID:
  case GS_OP_SOFTPLUS:
  case GS_OP_RAND:
  case GS_OP_BUCKET:
  case GS_OP_ABS:
  case GS_OP_INDEX:
  case GS_OP_SIZE: return true;
  case GS_OP_CONST: return n->value >= 0;
  case GS_OP_REAL: return node_at(g, n->arg[0])->type == GS_BOOL || is_nonnegative(g, n->arg[0]);
  case GS_OP_MUL: return n->arg[0] == n->arg[1];
  default: return false;
  }
}

/* 1/(exp(-x) + 1) */
static gs_id find_sigmoid(gs_graph *g, const gs_node *n) {
  if (n->op != GS_OP_DIV || !is_value(g, n->arg[0], 1)) return 0;
  const gs_node *sum = node_at(g, n->arg[1]);
  if (sum->op != GS_OP_ADD || !is_value(g, sum->arg[1], 1)) return 0;
  const gs_node *e = node_at(g, sum->arg[0]);
  if (e->op != GS_OP_EXP || op_at(g, e->arg[0]) != GS_OP_NEG) return 0;
  return gs_op1(g, GS_OP_SIGMOID, arg_at(g, e->arg[0], 0));
}

/* The opposite of a comparison, or 0. */
static gs_id opposite_of(gs_graph *g, gs_id c) {
  static const gs_op opposite[] = {GS_OP_GE, GS_OP_GT, GS_OP_LE, GS_OP_LT, GS_OP_NE, GS_OP_EQ};
  const gs_node *e = node_at(g, c);
  if (e->op < GS_OP_LT || e->op > GS_OP_NE) return 0;
  return gs_op2(g, opposite[e->op - GS_OP_LT], e->arg[0], e->arg[1]);
}

/* What a tensor of that storage type holds is already rounded to it. */
static gs_id rewrite_round(gs_graph *g, const gs_node *n) {
  gs_id e = n->arg[0];
  while (row_of(op_at(g, e))->kind == KIND_VIEW && op_at(g, e) != GS_OP_JOIN) e = arg_at(g, e, 0);
  const gs_node *leaf = node_at(g, e);
  bool stored = leaf->op == GS_OP_INPUT && g->tensors[leaf->index].type == n->to;
  return stored ? n->arg[0] : 0;
}

/* ---- conditions ---- */

/* MAX or MIN of the two values that a comparison, known to hold or not, puts in order; or 0. */
static gs_id known_extreme(const gs_node *n, const gs_node *cond, bool truth) {
  if (n->op != GS_OP_MAX && n->op != GS_OP_MIN) return 0;
  if (cond->op < GS_OP_LT || cond->op > GS_OP_GE) return 0;
  gs_id p = cond->arg[0], q = cond->arg[1];
  bool same = (n->arg[0] == p && n->arg[1] == q) || (n->arg[0] == q && n->arg[1] == p);
  bool above = (cond->op == GS_OP_GT || cond->op == GS_OP_GE) == truth;
  if (!same) return 0;
  return above == (n->op == GS_OP_MAX) ? p : q;
}

/* id where the condition c is known to be `truth`, seen through a few levels of element-by-element
 * operations. */
static gs_id assume(gs_graph *g, gs_id id, gs_id c, bool truth, int depth) {
  const gs_node *n = node_at(g, id), *cond = node_at(g, c);
  if (id == c) return const_of(g, truth, GS_BOOL);
  bool equal = (truth && cond->op == GS_OP_EQ) || (!truth && cond->op == GS_OP_NE);
  gs_id extreme = known_extreme(n, cond, truth);
  if (extreme) return extreme;
  if (equal && id == cond->arg[0] && is_const(g, cond->arg[1])) return cond->arg[1];
  if (depth == 0 || row_of(n->op)->kind != KIND_MAP) return id;
  if (n->op == GS_OP_WHERE && n->arg[0] == c)
    return assume(g, n->arg[truth ? 1 : 2], c, truth, depth - 1);
  gs_node m = *n;
  bool changed = false;
  for (int k = 0; k < n->nargs; k++) {
    m.arg[k] = assume(g, n->arg[k], c, truth, depth - 1);
    changed |= m.arg[k] != n->arg[k];
  }
  return changed ? make(g, &m) : id;
}

/* Is c one of the conditions that all says? */
static bool says(const gs_graph *g, gs_id all, gs_id c, int depth) {
  if (all == c) return true;
  return depth > 0 && op_at(g, all) == GS_OP_AND &&
         (says(g, arg_at(g, all, 0), c, depth - 1) || says(g, arg_at(g, all, 1), c, depth - 1));
}

/* where(c, e at i, 0) -> e at i guarded by c. */
static gs_id guard_gather(gs_graph *g, const gs_node *n) {
  const gs_node *at = node_at(g, n->arg[1]);
  gs_id c = n->arg[0], ok = at->nargs == 3 ? at->arg[2] : c;
  if (node_at(g, c)->dims & ~at->dims) return 0;
  if (has(node_at(g, c)->dims, at->dim[0])) return 0;
  if (!says(g, ok, c, LEVELS_KNOWN)) ok = gs_op2(g, GS_OP_AND, ok, c);
  return gather(g, at->arg[0], at->arg[1], ok, at->dim[0]);
}

/* Where all else is 0: signs go outside, conditions together. */
static gs_id rewrite_mask(gs_graph *g, const gs_node *n) {
  gs_op inner = op_at(g, n->arg[1]);
  if (inner == GS_OP_AT) return guard_gather(g, n);
  if (inner != GS_OP_NEG) return 0;
  gs_id plus = gs_where(g, n->arg[0], arg_at(g, n->arg[1], 0), n->arg[2]);
  return gs_op1(g, GS_OP_NEG, plus);
}

static gs_id rewrite_where(gs_graph *g, const gs_node *n) {
  bool zero = is_value(g, n->arg[2], 0);
  gs_id masked = zero ? rewrite_mask(g, n) : 0;
  if (masked) return masked;
  gs_id a = assume(g, n->arg[1], n->arg[0], true, LEVELS_KNOWN);
  gs_id b = assume(g, n->arg[2], n->arg[0], false, LEVELS_KNOWN);
  return a != n->arg[1] || b != n->arg[2] ? gs_where(g, n->arg[0], a, b) : 0;
}

/* ---- views ---- */

/* Does the view, moved through the element-by-element operations below id, meet what undoes it? */
static bool meets_inverse(const gs_graph *g, const gs_node *view, gs_id id, int depth) {
  const gs_node *e = node_at(g, id);
  if (depth > DEEPEST ||
      !(e->dims & (bit(view->dim[0]) |
                   (view->op == GS_OP_MERGE ? bit(view->dim[1]) | bit(view->dim[2]) : 0))))
    return false;
  bool three = view->op == GS_OP_SPLIT || view->op == GS_OP_MERGE;
  if (three && (e->op == GS_OP_SPLIT || e->op == GS_OP_MERGE))
    return e->op != view->op && e->dim[0] == view->dim[0] && e->dim[1] == view->dim[1] &&
           e->dim[2] == view->dim[2];
  if (view->op == GS_OP_PICK && (e->op == GS_OP_JOIN || e->op == GS_OP_INDEX))
    return e->dim[0] == view->dim[0];
  if (view->op == GS_OP_SLICE && e->op == GS_OP_INDEX) return e->dim[0] == view->dim[0];
  if (row_of(e->op)->kind != KIND_MAP) return false;
  for (int k = 0; k < e->nargs; k++)
    if (meets_inverse(g, view, e->arg[k], depth + 1)) return true;
  return false;
}

/* view(f(a, b)) -> f(view(a), view(b)), where that lets a view vanish. */
static gs_id push_view(gs_graph *g, const gs_node *n) {
  const gs_node *e = node_at(g, n->arg[0]);
  if (row_of(e->op)->kind != KIND_MAP || !meets_inverse(g, n, n->arg[0], 0)) return 0;
  bool tail = n->op == GS_OP_SPLIT && !divides(g, n);
  gs_node moved = *e;
  for (int k = 0; k < e->nargs; k++) {
    gs_node view = *n;
    view.arg[0] = e->arg[k];
    moved.arg[k] = make(g, &view);
  }
  gs_id all = make(g, &moved);
  return tail ? mask_tail(g, n, all) : all;
}

/* ---- the pass ---- */

static gs_id rewrite(gs_graph *g, gs_id id) {
  const gs_node *n = node_at(g, id);
  gs_id r;
  switch (n->op) {
  case GS_OP_MUL:
  case GS_OP_DIV: r = find_sigmoid(g, n); return r ? r : rewrite_product(g, id);
  case GS_OP_ADD:
  case GS_OP_SUB: return rewrite_sum(g, id);
  case GS_OP_SUM:
  case GS_OP_RMAX:
  case GS_OP_RMIN:
  case GS_OP_LOGSUMEXP: return rewrite_reduction(g, id);
  case GS_OP_EXP: return op_at(g, n->arg[0]) == GS_OP_LOG ? arg_at(g, n->arg[0], 0) : 0;
  case GS_OP_LOG: return op_at(g, n->arg[0]) == GS_OP_EXP ? arg_at(g, n->arg[0], 0) : 0;
  case GS_OP_SQRT:
  case GS_OP_RSQRT: return rewrite_sqrt(g, n);
  case GS_OP_ABS: return is_nonnegative(g, n->arg[0]) ? n->arg[0] : 0;
  case GS_OP_NOT: return opposite_of(g, n->arg[0]);
  case GS_OP_WHERE: return rewrite_where(g, n);
  case GS_OP_ROUND: return rewrite_round(g, n);
  case GS_OP_PICK:
  case GS_OP_SLICE:
  case GS_OP_SPLIT:
  case GS_OP_MERGE: return push_view(g, n);
  default: return 0;
  }
}

/* The node with its arguments simplified. Directly under a rounding an operation stays as the
 * author wrote it, bit for bit: only its arguments are simplified. */
static gs_id rebuild_as_written(gs_graph *g, gs_id id, gs_id *map) {
  const gs_node *n = node_at(g, id);
  bool rounds = n->op == GS_OP_ROUND || n->op == GS_OP_ROUND_RAND;
  gs_id a = n->arg[0];
  if (!rounds || row_of(op_at(g, a))->kind != KIND_MAP) return rebuild(g, id, map);
  gs_id simplified = map[a];
  map[a] = rebuild(g, a, map);
  gs_id r = rebuild(g, id, map);
  map[a] = simplified;
  return r;
}

/* One round; true when a root changed. */
static bool simplify_once(gs_graph *g, gs_id *roots, int n) {
  bool changed = false;
  gs_arena *a = gs_arena_new();
  id_list list = reachable(g, roots, n, a);
  gs_id *map = GS_NEW_N(a, gs_id, g->count);
  for (int i = 0; i < list.n; i++) {
    gs_id id = rebuild_as_written(g, list.id[i], map);
    for (int step = 0; step < MOST_STEPS; step++) {
      gs_id next = rewrite(g, id);
      if (!next || next == id) break;
      id = next;
    }
    map[list.id[i]] = id;
  }
  for (int i = 0; i < n; i++) {
    if (roots[i] <= 0) continue;
    changed |= map[roots[i]] != roots[i];
    roots[i] = map[roots[i]];
  }
  gs_arena_free(a);
  return changed;
}

void gs_simplify(gs_graph *g, gs_id *roots, int n) {
  for (int round = 0; round < MOST_ROUNDS; round++)
    if (!simplify_once(g, roots, n)) return;
}
