/* verify.c: holds a graph against its own rules, computed here a second time and independently of
 * the constructors: arguments come first, types and dims follow from the arguments. */
#include "graph/internal.h"
#include "graph/ops.h"

static gs_dims union_of_args(const gs_graph *g, const gs_node *n) {
  gs_dims s = 0;
  for (int k = 0; k < n->nargs; k++) s |= node_at(g, n->arg[k])->dims;
  return s;
}

static gs_dims expected_dims(const gs_graph *g, const gs_node *n) {
  gs_dims s = union_of_args(g, n), out = 0;
  const int *d = n->dim;
  switch (n->op) {
  case GS_OP_INPUT:
  case GS_OP_SCALAR:
    for (int k = 0; k < g->tensors[n->index].ndims; k++) out |= bit(g->tensors[n->index].dim[k]);
    return out;
  case GS_OP_INDEX: return bit(d[0]);
  case GS_OP_SUM:
  case GS_OP_RMAX:
  case GS_OP_RMIN:
  case GS_OP_LOGSUMEXP:
  case GS_OP_FOLD: return s & ~n->rdims;
  case GS_OP_SPLIT: return (s & ~bit(d[0])) | bit(d[1]) | bit(d[2]);
  case GS_OP_MERGE: return (s & ~(bit(d[1]) | bit(d[2]))) | bit(d[0]);
  case GS_OP_PICK:
  case GS_OP_AT: return s & ~bit(d[0]);
  case GS_OP_SLICE:
  case GS_OP_RENAME:
  case GS_OP_SUM_BY: return (s & ~bit(d[0])) | bit(d[1]);
  case GS_OP_JOIN: return s | bit(d[0]);
  default: return s;
  }
}

/* What the arguments from..nargs must all be, by the rule. */
static bool args_are(const gs_graph *g, const gs_node *n, int from, gs_type t) {
  for (int k = from; k < n->nargs; k++)
    if (node_at(g, n->arg[k])->type != t) return false;
  return true;
}

static bool types_hold(const gs_graph *g, const gs_node *n) {
  gs_type t = n->type;
  switch (row_of(n->op)->rule) {
  case RULE_REAL: return t == GS_F32 && (n->op == GS_OP_REAL || args_are(g, n, 0, GS_F32));
  case RULE_NUMBER: return (t == GS_F32 || t == GS_I64) && args_are(g, n, 0, t);
  case RULE_COMPARE:
    return t == GS_BOOL && (args_are(g, n, 0, GS_F32) || args_are(g, n, 0, GS_I64));
  case RULE_LOGIC: return t == GS_BOOL && args_are(g, n, 0, GS_BOOL);
  case RULE_SELECT: return node_at(g, n->arg[0])->type == GS_BOOL && args_are(g, n, 1, t);
  case RULE_INTEGER: return t == GS_I64 && args_are(g, n, 0, GS_I64);
  case RULE_COUNT: return t == GS_I64 && args_are(g, n, 0, GS_F32);
  case RULE_PLACE: return t == GS_F32 && args_are(g, n, 0, GS_I64);
  case RULE_SAME: return args_are(g, n, 0, t);
  case RULE_OWN: break;
  }
  if (n->op == GS_OP_JOIN) return args_are(g, n, 0, t);
  if (n->op == GS_OP_SUM_BY)
    return t == GS_F32 && node_at(g, n->arg[0])->type == GS_F32 &&
           node_at(g, n->arg[1])->type == GS_I64;
  if (n->op == GS_OP_AT)
    return node_at(g, n->arg[0])->type == t && node_at(g, n->arg[1])->type == GS_I64 &&
           args_are(g, n, 2, GS_BOOL);
  return t == GS_F32 || t == GS_I64 || t == GS_BOOL;
}

static const char *fault_of(const gs_graph *g, gs_id id) {
  const gs_node *n = node_at(g, id);
  if (n->op <= GS_OP_NONE || n->op >= GS_OP_COUNT) return "is no operation";
  const op_row *row = row_of(n->op);
  if (row->info.arity >= 0 && n->nargs != row->info.arity) return "has a wrong number of arguments";
  for (int k = 0; k < n->nargs; k++)
    if (n->arg[k] <= 0 || n->arg[k] >= id) return "has an argument that does not come before it";
  for (int k = 0; k < row->ndims; k++)
    if (n->dim[k] < 0 || n->dim[k] >= g->ndims) return "names a dim that does not exist";
  bool tensor = n->op == GS_OP_INPUT || n->op == GS_OP_SCALAR;
  if (tensor && (n->index < 0 || n->index >= g->ntensors)) return "reads no tensor";
  if (n->op == GS_OP_FOLD && (n->index < 0 || n->index >= g->nfolds || n->dim[0] < 0 ||
                              n->dim[0] >= g->folds[n->index].nstate))
    return "is a part of no fold";
  bool table = n->op == GS_OP_BUCKET || n->op == GS_OP_LOOKUP;
  if (table && (n->index < 0 || n->index >= g->ntables)) return "reads no table";
  gs_dims strange = n->op == GS_OP_FOLD ? 0 : n->rdims & ~union_of_args(g, n);
  if (row->kind == KIND_REDUCE && (!n->rdims || strange))
    return "reduces over dims that its argument lacks";
  if (n->op == GS_OP_JOIN && n->nargs != inner_size(g, n->dim[0]))
    return "joins another number of values than its dim has";
  if (n->dims != expected_dims(g, n)) return "has dims that do not follow from its arguments";
  if (!types_hold(g, n)) return "has types that do not follow from its arguments";
  return NULL;
}

gs_status gs_verify(const gs_graph *g, const gs_id *roots, int n, gs_error *err) {
  for (int i = 0; i < n; i++)
    if (roots[i] <= 0 || roots[i] >= g->count)
      return gs_fail(err, GS_ERR_CHECK, "root %d is %%%d, which is no node", i, (int)roots[i]);
  gs_status status = GS_OK;
  gs_arena *a = gs_arena_new();
  id_list list = reachable(g, roots, n, a);
  for (int i = 0; i < list.n && status == GS_OK; i++) {
    const gs_node *node = node_at(g, list.id[i]);
    const char *fault = fault_of(g, list.id[i]);
    bool known = node->op > GS_OP_NONE && node->op < GS_OP_COUNT;
    if (fault)
      status = gs_fail(err, GS_ERR_CHECK, "node %%%d (%s, line %d) %s", (int)list.id[i],
                       known ? row_of(node->op)->info.name : "?", node->line, fault);
  }
  gs_arena_free(a);
  return status;
}
