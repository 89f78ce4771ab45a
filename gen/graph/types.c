/* types.c: which arguments an operation takes, the type and dims of its value.
 *
 * requires: op, args and attributes filled. keeps: args may be wrapped in REAL or made integer
 * constants; nothing else changes. Messages say what is wrong and what would be legal. */
#include "graph/internal.h"
#include "graph/ops.h"

#include <inttypes.h>
#include <math.h>

static const char *kind_name(gs_type t) {
  return t == GS_BOOL ? "a truth value" : t == GS_I64 ? "an integer" : "a real number";
}

gs_id to_real(gs_graph *g, gs_id id) {
  const gs_node *n = node_at(g, id);
  if (n->type == GS_F32) return id;
  if (n->op == GS_OP_CONST) return gs_const(g, n->value);
  gs_node r = {.op = GS_OP_REAL, .type = GS_F32, .nargs = 1, .arg = {id}, .dim = {-1, -1, -1}};
  r.dims = n->dims;
  r.line = n->line;
  return intern(g, &r);
}

/* The argument as an integer, or 0. */
static gs_id to_int(gs_graph *g, gs_id id) {
  const gs_node *n = node_at(g, id);
  if (n->type == GS_I64) return id;
  bool integral = n->op == GS_OP_CONST && n->type == GS_F32 && n->value == floor(n->value) &&
                  fabs(n->value) < 9e15;
  return integral ? const_of(g, n->value, GS_I64) : 0;
}

static gs_status want_int(gs_graph *g, gs_node *n, int k, const char *what, gs_error *err);

static gs_type type_at(const gs_graph *g, gs_id id) {
  return node_at(g, id)->type;
}

/* Brings arguments from..nargs to one type: integers when all can be, else reals. */
static gs_type unify(gs_graph *g, gs_node *n, int from) {
  bool any_int = false, all_int = true;
  for (int k = from; k < n->nargs; k++) {
    any_int |= type_at(g, n->arg[k]) == GS_I64;
    all_int &= to_int(g, n->arg[k]) != 0;
  }
  for (int k = from; k < n->nargs; k++)
    n->arg[k] = any_int && all_int ? to_int(g, n->arg[k]) : to_real(g, n->arg[k]);
  return any_int && all_int ? GS_I64 : GS_F32;
}

static bool all_bool(const gs_graph *g, const gs_node *n, int from) {
  for (int k = from; k < n->nargs; k++)
    if (type_at(g, n->arg[k]) != GS_BOOL) return false;
  return true;
}

static gs_status want_bool(const gs_graph *g, const gs_node *n, int k, gs_error *err) {
  if (type_at(g, n->arg[k]) == GS_BOOL) return GS_OK;
  return gs_fail(err, GS_ERR_USE,
                 "argument %d of %s is %s, but it must be a truth value, as a comparison gives",
                 k + 1, row_of(n->op)->info.name, kind_name(type_at(g, n->arg[k])));
}

static gs_dims arg_dims(const gs_graph *g, const gs_node *n) {
  gs_dims s = 0;
  for (int k = 0; k < n->nargs; k++) s |= node_at(g, n->arg[k])->dims;
  return s;
}

static gs_status apply_rule(gs_graph *g, gs_node *n, gs_error *err) {
  switch (row_of(n->op)->rule) {
  case RULE_REAL:
    for (int k = 0; k < n->nargs; k++) n->arg[k] = to_real(g, n->arg[k]);
    n->type = GS_F32;
    break;
  case RULE_NUMBER: n->type = unify(g, n, 0); break;
  case RULE_COMPARE:
    unify(g, n, 0);
    n->type = GS_BOOL;
    break;
  case RULE_LOGIC:
    for (int k = 0; k < n->nargs; k++)
      if (want_bool(g, n, k, err) != GS_OK) return GS_ERR_USE;
    n->type = GS_BOOL;
    break;
  case RULE_SELECT:
    if (want_bool(g, n, 0, err) != GS_OK) return GS_ERR_USE;
    n->type = all_bool(g, n, 1) ? GS_BOOL : unify(g, n, 1);
    break;
  case RULE_INTEGER:
  case RULE_PLACE:
    for (int k = 0; k < n->nargs; k++)
      if (want_int(g, n, k, k == 0 ? "first argument" : "second argument", err) != GS_OK)
        return GS_ERR_USE;
    n->type = row_of(n->op)->rule == RULE_PLACE ? GS_F32 : GS_I64;
    break;
  case RULE_COUNT:
    for (int k = 0; k < n->nargs; k++) n->arg[k] = to_real(g, n->arg[k]);
    n->type = GS_I64;
    break;
  case RULE_SAME: n->type = type_at(g, n->arg[0]); break;
  case RULE_OWN: break;
  }
  n->dims = arg_dims(g, n) & ~n->rdims;
  return GS_OK;
}

/* ---- leaves ---- */

static gs_status check_leaf(gs_graph *g, gs_node *n, gs_error *err) {
  if (n->op == GS_OP_CONST) {
    if (n->type != GS_I64 && n->type != GS_BOOL) n->type = GS_F32;
    return GS_OK;
  }
  if (n->op == GS_OP_INDEX || n->op == GS_OP_SIZE) {
    n->type = GS_I64;
    if (n->op == GS_OP_INDEX) n->dims = bit(n->dim[0]);
    if (n->op == GS_OP_SIZE) n->dim[0] = gs_graph_dim_root(g, n->dim[0]);
    return GS_OK;
  }
  if (n->op == GS_OP_STATE || n->op == GS_OP_ELEMENT) {
    if (n->type != GS_I64) n->type = GS_F32;
    bool known = n->index >= 0 && n->index < (n->op == GS_OP_STATE ? GS_MAX_FOLD : GS_MAX_ARGS);
    return known ? GS_OK : gs_fail(err, GS_ERR_USE, "a fold has no part %" PRId64, n->index);
  }
  if (n->index < 0 || n->index >= g->ntensors)
    return gs_fail(err, GS_ERR_USE, "no tensor has number %" PRId64, n->index);
  const gs_tensor *t = &g->tensors[n->index];
  bool integer = t->type == GS_I32 || t->type == GS_I64 || t->type == GS_U8 || t->type == GS_I8;
  n->type = integer ? GS_I64 : GS_F32;
  for (int k = 0; k < t->ndims; k++) n->dims |= bit(t->dim[k]);
  return GS_OK;
}

/* ---- views ---- */

/* A view gives dim d to a value that must not have it yet. */
static gs_status want_new(const gs_graph *g, const gs_node *n, gs_dims left, int d, gs_error *err) {
  if (!has(left, d)) return GS_OK;
  char text[256];
  dims_text(g, left, text, sizeof text);
  return gs_fail(err, GS_ERR_USE,
                 "%s would make the dim %s, but the value already has it beside (%s): use another "
                 "name",
                 row_of(n->op)->info.name, g->dims[d].name, text);
}

static gs_status want_inner(const gs_graph *g, const gs_node *n, int count, gs_error *err) {
  for (int k = 0; k < count; k++)
    if (inner_size(g, n->dim[k]) < 0)
      return gs_fail(err, GS_ERR_USE,
                     "%s of the dim %s, whose size is known only at launch: only inner dims can",
                     row_of(n->op)->info.name, g->dims[n->dim[k]].name);
  return GS_OK;
}

/* dim[1] must be the blocks of dim[0], of size(dim[2]) each, the last possibly not full. */
static gs_status check_blocks(const gs_graph *g, const gs_node *n, gs_error *err) {
  const char *what = row_of(n->op)->info.name, *name = g->dims[n->dim[0]].name;
  int64_t s0 = inner_size(g, n->dim[0]), s1 = inner_size(g, n->dim[1]);
  int64_t s2 = inner_size(g, n->dim[2]);
  if (s2 < 1)
    return gs_fail(err, GS_ERR_USE, "%s of %s: the size of %s, the faster dim, must be known", what,
                   name, g->dims[n->dim[2]].name);
  if (s0 < 0) {
    int blocks = find_blocks(g, n->dim[0], s2);
    if (blocks >= 0 && blocks == gs_graph_dim_root(g, n->dim[1])) return GS_OK;
    return gs_fail(err, GS_ERR_USE,
                   "%s of %s, whose size is known only at launch, in blocks of %" PRId64
                   ": the dim %s must be declared as \"ceil(%s/%" PRId64 ")\"",
                   what, name, s2, g->dims[n->dim[1]].name, name, s2);
  }
  if (s1 == s0 / s2 + (s0 % s2 != 0)) return GS_OK;
  return gs_fail(err, GS_ERR_USE,
                 "%s of %s (%" PRId64 ") as %s (%" PRId64 ") times %s (%" PRId64
                 "): the sizes must multiply to %" PRId64,
                 what, name, s0, g->dims[n->dim[1]].name, s1, g->dims[n->dim[2]].name, s2, s0);
}

static gs_status check_split(const gs_graph *g, gs_node *n, gs_error *err) {
  bool split = n->op == GS_OP_SPLIT;
  if (n->dim[1] == n->dim[2] || n->dim[0] == n->dim[1] || n->dim[0] == n->dim[2])
    return gs_fail(err, GS_ERR_USE, "%s needs three different dims", row_of(n->op)->info.name);
  if (check_blocks(g, n, err) != GS_OK) return GS_ERR_USE;
  gs_dims from = split ? bit(n->dim[0]) : bit(n->dim[1]) | bit(n->dim[2]);
  gs_dims to = split ? bit(n->dim[1]) | bit(n->dim[2]) : bit(n->dim[0]);
  gs_dims left = n->dims & ~from;
  for (int k = 0; k < 3; k++)
    if (has(to, n->dim[k]) && want_new(g, n, left, n->dim[k], err) != GS_OK) return GS_ERR_USE;
  if (n->dims & from) n->dims = left | to;
  return GS_OK;
}

static gs_status check_pick(const gs_graph *g, gs_node *n, gs_error *err) {
  int64_t size = inner_size(g, n->dim[0]);
  if (n->index < 0 || (size >= 0 && n->index >= size))
    return gs_fail(err, GS_ERR_USE,
                   "pick of index %" PRId64 " along %s, whose size is %" PRId64
                   ": an index from 0 to %" PRId64 " is legal",
                   n->index, g->dims[n->dim[0]].name, size, size - 1);
  n->dims &= ~bit(n->dim[0]);
  return GS_OK;
}

static gs_status check_slice(const gs_graph *g, gs_node *n, gs_error *err) {
  if (want_inner(g, n, 2, err) != GS_OK) return GS_ERR_USE;
  int64_t s0 = inner_size(g, n->dim[0]), s1 = inner_size(g, n->dim[1]);
  if (n->index < 0 || n->index + s1 > s0)
    return gs_fail(err, GS_ERR_USE,
                   "slice of %s (%" PRId64 ") from %" PRId64 " to %" PRId64
                   ": it must lie within 0 to %" PRId64,
                   g->dims[n->dim[0]].name, s0, n->index, n->index + s1, s0);
  gs_dims left = n->dims & ~bit(n->dim[0]);
  if (want_new(g, n, left, n->dim[1], err) != GS_OK) return GS_ERR_USE;
  if (has(n->dims, n->dim[0])) n->dims = left | bit(n->dim[1]);
  return GS_OK;
}

static gs_status check_rename(const gs_graph *g, gs_node *n, gs_error *err) {
  int from = n->dim[0], to = n->dim[1];
  int64_t s0 = inner_size(g, from), s1 = inner_size(g, to);
  bool same = s0 < 0 ? gs_graph_dim_root(g, from) == gs_graph_dim_root(g, to) : s0 == s1;
  if (!same)
    return gs_fail(err, GS_ERR_USE,
                   "rename of %s to %s: their sizes are not known to be the same; rename to a new "
                   "name, or to a dim of the same size",
                   g->dims[from].name, g->dims[to].name);
  gs_dims left = n->dims & ~bit(from);
  if (want_new(g, n, left, to, err) != GS_OK) return GS_ERR_USE;
  if (has(n->dims, from)) n->dims = left | bit(to);
  return GS_OK;
}

static gs_status check_join(gs_graph *g, gs_node *n, gs_error *err) {
  int64_t size = inner_size(g, n->dim[0]);
  if (n->nargs < 1 || n->nargs > GS_MAX_ARGS || n->nargs != size)
    return gs_fail(err, GS_ERR_USE,
                   "join of %d values along %s, whose size is %" PRId64
                   ": they must agree, and %d is the most",
                   n->nargs, g->dims[n->dim[0]].name, size, GS_MAX_ARGS);
  n->type = all_bool(g, n, 0) ? GS_BOOL : unify(g, n, 0);
  n->dims = arg_dims(g, n);
  if (want_new(g, n, n->dims, n->dim[0], err) != GS_OK) return GS_ERR_USE;
  n->dims |= bit(n->dim[0]);
  return GS_OK;
}

/* ---- gathers ---- */

static gs_status want_int(gs_graph *g, gs_node *n, int k, const char *what, gs_error *err) {
  gs_id i = to_int(g, n->arg[k]);
  if (!i)
    return gs_fail(err, GS_ERR_USE, "the %s of %s is %s, but it must be an integer", what,
                   row_of(n->op)->info.name, kind_name(type_at(g, n->arg[k])));
  n->arg[k] = i;
  return GS_OK;
}

static gs_status check_at(gs_graph *g, gs_node *n, gs_error *err) {
  if (n->nargs != 2 && n->nargs != 3)
    return gs_fail(err, GS_ERR_USE, "at takes a value, an index and possibly a guard");
  if (want_int(g, n, 1, "index", err) != GS_OK) return GS_ERR_USE;
  if (n->nargs == 3 && want_bool(g, n, 2, err) != GS_OK) return GS_ERR_USE;
  gs_dims rest = node_at(g, n->arg[1])->dims;
  if (n->nargs == 3) rest |= node_at(g, n->arg[2])->dims;
  if (has(rest, n->dim[0]))
    return gs_fail(err, GS_ERR_USE,
                   "the index or guard of at depends on %s, the dim that it indexes: rename one",
                   g->dims[n->dim[0]].name);
  n->type = type_at(g, n->arg[0]);
  n->dims = (node_at(g, n->arg[0])->dims & ~bit(n->dim[0])) | rest;
  return GS_OK;
}

static gs_status check_sum_by(gs_graph *g, gs_node *n, gs_error *err) {
  if (want_int(g, n, 1, "key", err) != GS_OK) return GS_ERR_USE;
  n->arg[0] = to_real(g, n->arg[0]);
  n->type = GS_F32;
  n->dims = arg_dims(g, n) & ~bit(n->dim[0]);
  if (n->dim[0] == n->dim[1])
    return gs_fail(err, GS_ERR_USE, "sum_by over %s to the same dim: the result needs another",
                   g->dims[n->dim[0]].name);
  if (want_new(g, n, n->dims, n->dim[1], err) != GS_OK) return GS_ERR_USE;
  n->dims |= bit(n->dim[1]);
  return GS_OK;
}

/* ---- tables, folds, rounding ---- */

/* Programs of a fold are made of its leaves, numbers and elementwise operations. */
static gs_status check_programs(const gs_graph *g, const gs_fold *f, gs_error *err) {
  gs_id roots[2 * GS_MAX_FOLD];
  gs_status status = GS_OK;
  gs_arena *a = gs_arena_new();
  for (int k = 0; k < f->nstate; k++) {
    roots[2 * k] = f->step[k];
    roots[2 * k + 1] = f->merge[k];
  }
  id_list list = reachable(g, roots, 2 * f->nstate, a);
  for (int i = 0; i < list.n && status == GS_OK; i++) {
    const gs_node *n = node_at(g, list.id[i]);
    bool leaf = n->op == GS_OP_CONST || n->op == GS_OP_STATE || n->op == GS_OP_ELEMENT;
    bool tensor = n->op == GS_OP_INPUT || n->op == GS_OP_SCALAR;
    if (leaf || row_of(n->op)->kind == KIND_MAP) continue;
    status = gs_fail(err, GS_ERR_USE,
                     "step and merge of a fold may use the state, the element and numbers alone, "
                     "but they use %s: make it an element",
                     tensor ? g->tensors[n->index].name : row_of(n->op)->info.name);
  }
  gs_arena_free(a);
  return status;
}

static gs_status check_fold(gs_graph *g, gs_node *n, gs_error *err) {
  const gs_fold *f = gs_graph_fold_at(g, (int)n->index);
  if (!f || n->nargs != f->nelements || n->dim[0] < 0 || n->dim[0] >= f->nstate)
    return gs_fail(err, GS_ERR_USE, "the fold does not exist, or has other parts");
  for (int d = 0; d < g->ndims; d++)
    if (has(n->rdims, d) && inner_size(g, d) < 0)
      return gs_fail(err, GS_ERR_USE,
                     "a fold over the dim %s, whose size is known only at launch: it goes over "
                     "inner dims only",
                     g->dims[d].name);
  if (check_programs(g, f, err) != GS_OK) return GS_ERR_USE;
  for (int k = 0; k < n->nargs; k++)
    if (type_at(g, n->arg[k]) == GS_BOOL) n->arg[k] = to_real(g, n->arg[k]);
  n->type = f->type[n->dim[0]];
  n->dims = arg_dims(g, n) & ~n->rdims;
  return GS_OK;
}

static gs_status check_table(const gs_graph *g, const gs_node *n, gs_error *err) {
  const gs_table *t = gs_graph_table_at(g, (int)n->index);
  if (!t || t->count < 1)
    return gs_fail(err, GS_ERR_USE, "%s of a table without elements", row_of(n->op)->info.name);
  for (int k = 1; n->op == GS_OP_BUCKET && k < t->count; k++)
    if (!(t->value[k - 1] < t->value[k]))
      return gs_fail(err, GS_ERR_USE,
                     "the table of bucket must ascend, but its element %d is %.9g and number %d, "
                     "counted from 0, is %.9g",
                     k - 1, t->value[k - 1], k, t->value[k]);
  return GS_OK;
}

static gs_status check_round(const gs_node *n, gs_error *err) {
  gs_type t = n->to;
  bool rand = n->op == GS_OP_ROUND_RAND;
  if (t == GS_F32 || t == GS_BF16 || t == GS_F16 || t == GS_E4M3 || t == GS_E5M2) return GS_OK;
  if (t == GS_E8M0 && !rand) return GS_OK;
  return gs_fail(err, GS_ERR_USE, "%s to %s: the type must be f32, bf16, f16, e4m3%s e5m2%s",
                 rand ? "random rounding" : "round", gs_type_name(t), rand ? " or" : ",",
                 rand ? "" : " or e8m0");
}

static gs_status check_divisor(const gs_graph *g, const gs_node *n, gs_error *err) {
  const gs_node *b = node_at(g, n->arg[1]);
  if (b->op != GS_OP_CONST || b->value > 0) return GS_OK;
  return gs_fail(err, GS_ERR_USE, "%s by %.0f: the divisor must be above zero",
                 row_of(n->op)->info.name, b->value);
}

/* ---- all ---- */

static gs_status check_own(gs_graph *g, gs_node *n, gs_error *err) {
  switch (n->op) {
  case GS_OP_SPLIT:
  case GS_OP_MERGE: return check_split(g, n, err);
  case GS_OP_PICK: return check_pick(g, n, err);
  case GS_OP_SLICE: return check_slice(g, n, err);
  case GS_OP_RENAME: return check_rename(g, n, err);
  case GS_OP_JOIN: return check_join(g, n, err);
  case GS_OP_AT: return check_at(g, n, err);
  case GS_OP_SUM_BY: return check_sum_by(g, n, err);
  case GS_OP_FOLD: return check_fold(g, n, err);
  case GS_OP_BUCKET:
  case GS_OP_LOOKUP: return check_table(g, n, err);
  case GS_OP_QUOTIENT:
  case GS_OP_REMAINDER: return check_divisor(g, n, err);
  case GS_OP_ROUND:
  case GS_OP_ROUND_RAND: return check_round(n, err);
  default: return GS_OK;
  }
}

gs_status check_types(gs_graph *g, gs_node *n, gs_error *err) {
  const op_row *row = row_of(n->op);
  if (n->nargs > GS_MAX_ARGS)
    return gs_fail(err, GS_ERR_USE, "%s of %d values: %d is the most", row->info.name, n->nargs,
                   GS_MAX_ARGS);
  for (int k = 0; k < n->nargs; k++)
    if (n->arg[k] <= 0 || n->arg[k] >= g->count)
      return gs_fail(err, GS_ERR_USE, "argument %d of %s is missing", k + 1, row->info.name);
  for (int k = 0; k < row->ndims; k++)
    if (n->dim[k] < 0 || n->dim[k] >= g->ndims)
      return gs_fail(err, GS_ERR_USE, "%s of a dim that does not exist", row->info.name);
  if (row->kind == KIND_LEAF) return check_leaf(g, n, err);
  if (apply_rule(g, n, err) != GS_OK) return GS_ERR_USE;
  return check_own(g, n, err);
}
