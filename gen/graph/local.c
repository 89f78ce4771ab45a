/* local.c: simplification of one node on construction: constants, identities, signs, order.
 *
 * requires: a checked node whose arguments are simplified. keeps: the value bit for bit in f32
 * (signs of zero and products of zero with infinity aside), so that the same formula made twice,
 * or substituted into another, computes the same. What holds only in the reals is simplify.c. */
#include "graph/internal.h"
#include "graph/ops.h"

#include "base/half.h"

#include <math.h>

static gs_id neg(gs_graph *g, gs_id a) {
  return gs_op1(g, GS_OP_NEG, a);
}

static gs_id fold(gs_graph *g, const gs_node *n) {
  const op_row *row = row_of(n->op);
  double x[GS_MAX_ARGS] = {0};
  if (row->kind != KIND_MAP || n->op == GS_OP_ROUND || n->op == GS_OP_ROUND_RAND) return 0;
  for (int k = 0; k < n->nargs; k++) {
    if (!is_const(g, n->arg[k])) return 0;
    x[k] = value_at(g, n->arg[k]);
  }
  return const_of(g, map_value(g, n, x), n->type);
}

/* Commutative operations: constants last, else the older node first. */
static void put_in_order(const gs_graph *g, gs_node *n) {
  if (!row_of(n->op)->commutes) return;
  bool c0 = is_const(g, n->arg[0]), c1 = is_const(g, n->arg[1]);
  bool swap = c0 != c1 ? c0 : n->arg[0] > n->arg[1];
  if (!swap) return;
  gs_id t = n->arg[0];
  n->arg[0] = n->arg[1];
  n->arg[1] = t;
}

static bool is_neg(const gs_graph *g, gs_id id) {
  return op_at(g, id) == GS_OP_NEG;
}

static gs_id local_neg(gs_graph *g, gs_node *n) {
  gs_id a = n->arg[0];
  if (is_neg(g, a)) return arg_at(g, a, 0);
  if (op_at(g, a) == GS_OP_SUB) return gs_op2(g, GS_OP_SUB, arg_at(g, a, 1), arg_at(g, a, 0));
  bool scaled = op_at(g, a) == GS_OP_MUL && is_const(g, arg_at(g, a, 1));
  if (scaled) return gs_op2(g, GS_OP_MUL, arg_at(g, a, 0), neg(g, arg_at(g, a, 1)));
  return 0;
}

static gs_id local_add(gs_graph *g, gs_node *n) {
  gs_id a = n->arg[0], b = n->arg[1];
  if (is_value(g, b, 0)) return a;
  if (is_neg(g, b)) return gs_op2(g, GS_OP_SUB, a, arg_at(g, b, 0));
  if (is_neg(g, a)) return gs_op2(g, GS_OP_SUB, b, arg_at(g, a, 0));
  return 0;
}

static gs_id local_sub(gs_graph *g, gs_node *n) {
  gs_id a = n->arg[0], b = n->arg[1];
  if (a == b) return const_of(g, 0, n->type);
  if (is_value(g, a, 0)) return neg(g, b);
  if (is_const(g, b)) return gs_op2(g, GS_OP_ADD, a, const_of(g, -value_at(g, b), n->type));
  if (is_neg(g, b)) return gs_op2(g, GS_OP_ADD, a, arg_at(g, b, 0));
  if (is_neg(g, a)) return neg(g, gs_op2(g, GS_OP_ADD, arg_at(g, a, 0), b));
  return 0;
}

static gs_id local_mul(gs_graph *g, gs_node *n) {
  gs_id a = n->arg[0], b = n->arg[1];
  if (is_value(g, b, 0)) return b;
  if (is_value(g, b, 1)) return a;
  if (is_value(g, b, -1)) return neg(g, a);
  if (is_neg(g, a) && is_const(g, b)) return gs_op2(g, GS_OP_MUL, arg_at(g, a, 0), neg(g, b));
  if (is_neg(g, a)) return neg(g, gs_op2(g, GS_OP_MUL, arg_at(g, a, 0), b));
  if (is_neg(g, b)) return neg(g, gs_op2(g, GS_OP_MUL, a, arg_at(g, b, 0)));
  return 0;
}

static gs_id local_div(gs_graph *g, gs_node *n) {
  gs_id a = n->arg[0], b = n->arg[1];
  int exponent;
  if (is_value(g, a, 0)) return a;
  if (is_const(g, b)) {
    double v = value_at(g, b);
    bool power_of_two = fabs(frexp(v, &exponent)) == 0.5 && exponent > -100 && exponent < 100;
    if (power_of_two) return gs_op2(g, GS_OP_MUL, a, gs_const(g, 1 / v));
  }
  if (is_neg(g, a)) return neg(g, gs_op2(g, GS_OP_DIV, arg_at(g, a, 0), b));
  if (is_neg(g, b)) return neg(g, gs_op2(g, GS_OP_DIV, a, arg_at(g, b, 0)));
  return 0;
}

/* Exponents with a cheaper and more exact operation. */
static gs_id local_pow(gs_graph *g, gs_node *n) {
  gs_id a = n->arg[0], b = n->arg[1];
  if (is_value(g, a, 1)) return a;
  if (!is_const(g, b)) return 0;
  double v = value_at(g, b);
  if (v == 0) return gs_const(g, 1);
  if (v == 1) return a;
  if (v == 2) return gs_op2(g, GS_OP_MUL, a, a);
  if (v == 3) return gs_op2(g, GS_OP_MUL, gs_op2(g, GS_OP_MUL, a, a), a);
  if (v == -1) return gs_op2(g, GS_OP_DIV, gs_const(g, 1), a);
  if (v == -2) return gs_op2(g, GS_OP_DIV, gs_const(g, 1), gs_op2(g, GS_OP_MUL, a, a));
  if (v == 0.5) return gs_op1(g, GS_OP_SQRT, a);
  if (v == -0.5) return gs_op1(g, GS_OP_RSQRT, a);
  return 0;
}

static gs_id local_logic(gs_graph *g, gs_node *n) {
  gs_id a = n->arg[0], b = n->arg[1];
  bool is_and = n->op == GS_OP_AND;
  if (a == b) return a;
  if (!is_const(g, b)) return 0;
  bool truth = value_at(g, b) != 0;
  return truth == is_and ? a : b;
}

/* The least and the largest value of an integer, as far as its form tells. */
typedef struct range {
  double low, high;
} range;

static range range_of(const gs_graph *g, gs_id id, int depth) {
  const gs_node *n = node_at(g, id);
  range all = {-INFINITY, INFINITY};
  if (n->op == GS_OP_CONST) return (range){n->value, n->value};
  if (n->op == GS_OP_SIZE) return (range){0, INFINITY};
  if (n->op == GS_OP_BUCKET) return (range){0, g->tables[n->index].count};
  if (n->op == GS_OP_INDEX) {
    int64_t size = inner_size(g, n->dim[0]);
    return (range){0, size < 0 ? INFINITY : (double)size - 1};
  }
  if (depth == 0 || n->nargs != 2) return all;
  range a = range_of(g, n->arg[0], depth - 1), b = range_of(g, n->arg[1], depth - 1);
  double c = is_const(g, n->arg[1]) ? value_at(g, n->arg[1]) : 0;
  if (n->op == GS_OP_ADD) return (range){a.low + b.low, a.high + b.high};
  if (n->op == GS_OP_SUB) return (range){a.low - b.high, a.high - b.low};
  if (n->op == GS_OP_MUL && c > 0) return (range){a.low * c, a.high * c};
  if (n->op == GS_OP_QUOTIENT && c > 0) return (range){floor(a.low / c), floor(a.high / c)};
  if (n->op == GS_OP_REMAINDER && c > 0) return (range){0, fmin(c - 1, a.low >= 0 ? a.high : c)};
  return all;
}

/* A comparison of integers that holds everywhere, or nowhere, by their ranges. */
static gs_id decided(gs_graph *g, const gs_node *n) {
  if (node_at(g, n->arg[0])->type != GS_I64) return 0;
  range a = range_of(g, n->arg[0], 6), b = range_of(g, n->arg[1], 6);
  bool below = a.high<b.low, above = a.low> b.high;
  bool at_most = a.high <= b.low, at_least = a.low >= b.high;
  bool yes = false, no = false;
  switch (n->op) {
  case GS_OP_LT: yes = below, no = at_least; break;
  case GS_OP_LE: yes = at_most, no = above; break;
  case GS_OP_GT: yes = above, no = at_most; break;
  case GS_OP_GE: yes = at_least, no = below; break;
  case GS_OP_EQ: no = below || above; break;
  default: yes = below || above; break;
  }
  return yes || no ? const_of(g, yes, GS_BOOL) : 0;
}

static gs_id local_compare(gs_graph *g, gs_node *n) {
  if (n->arg[0] != n->arg[1]) return decided(g, n);
  bool holds = n->op == GS_OP_LE || n->op == GS_OP_GE || n->op == GS_OP_EQ;
  return const_of(g, holds, GS_BOOL);
}

static gs_id local_where(gs_graph *g, gs_node *n) {
  gs_id c = n->arg[0], a = n->arg[1], b = n->arg[2];
  if (is_const(g, c)) return value_at(g, c) != 0 ? a : b;
  if (a == b) return a;
  if (op_at(g, c) == GS_OP_NOT) return gs_where(g, arg_at(g, c, 0), b, a);
  if (op_at(g, a) == GS_OP_WHERE && arg_at(g, a, 0) == c) return gs_where(g, c, arg_at(g, a, 1), b);
  if (op_at(g, b) == GS_OP_WHERE && arg_at(g, b, 0) == c) return gs_where(g, c, a, arg_at(g, b, 2));
  if (n->type == GS_F32 && is_value(g, a, 1) && is_value(g, b, 0)) return gs_op1(g, GS_OP_REAL, c);
  if (n->type == GS_BOOL && is_value(g, a, 1) && is_value(g, b, 0)) return c;
  return 0;
}

/* To f32 it does nothing but keep the operation below it as written (simplify.c). */
static gs_id local_round(gs_graph *g, gs_node *n) {
  gs_id a = n->arg[0];
  gs_op inner = op_at(g, a);
  if (inner == GS_OP_ROUND && (n->to == GS_F32 || node_at(g, a)->to == n->to)) return a;
  if (n->to == GS_F32 && row_of(inner)->kind != KIND_MAP && inner != GS_OP_CONST) return a;
  if (!is_const(g, a)) return 0;
  uint64_t stored = 0; /* room for any storage type */
  gs_store_f64(&stored, n->to, 0, value_at(g, a));
  return gs_load_f64(&stored, n->to, 0) == value_at(g, a) ? a : 0;
}

/* Whole numbers beside each other: exact in i64, and f32 holds those of a small constant. */
static gs_id local_integer(gs_graph *g, gs_node *n) {
  gs_id a = n->arg[0];
  if (op_at(g, a) == GS_OP_FLOOR) return gs_op1(g, GS_OP_INTEGER, arg_at(g, a, 0));
  bool real = op_at(g, a) == GS_OP_REAL && node_at(g, arg_at(g, a, 0))->type == GS_I64;
  return real ? arg_at(g, a, 0) : 0;
}

static gs_id local_quotient(gs_graph *g, gs_node *n) {
  gs_id a = n->arg[0];
  if (!is_value(g, n->arg[1], 1)) return 0;
  return n->op == GS_OP_QUOTIENT ? a : const_of(g, 0, GS_I64);
}

static gs_id local_unary(gs_graph *g, gs_node *n) {
  gs_id a = n->arg[0];
  gs_op inner = op_at(g, a);
  switch (n->op) {
  case GS_OP_NEG: return local_neg(g, n);
  case GS_OP_ABS:
    if (inner == GS_OP_ABS) return a;
    return inner == GS_OP_NEG ? gs_op1(g, GS_OP_ABS, arg_at(g, a, 0)) : 0;
  case GS_OP_FLOOR: return inner == GS_OP_FLOOR || inner == GS_OP_REAL ? a : 0;
  case GS_OP_NOT: return inner == GS_OP_NOT ? arg_at(g, a, 0) : 0;
  case GS_OP_REAL: return node_at(g, a)->type == GS_F32 ? a : 0;
  case GS_OP_ROUND: return local_round(g, n);
  case GS_OP_INTEGER: return local_integer(g, n);
  case GS_OP_STOP: return inner == GS_OP_STOP || node_at(g, a)->type != GS_F32 ? a : 0;
  default: return 0;
  }
}

gs_id simplify_local(gs_graph *g, gs_node *n) {
  const op_row *row = row_of(n->op);
  if (n->op == GS_OP_SIZE) {
    int64_t size = inner_size(g, n->dim[0]);
    return size >= 0 ? const_of(g, (double)size, GS_I64) : 0;
  }
  if (row->kind == KIND_LEAF) return 0;
  if (row->kind != KIND_MAP) return simplify_view(g, n);
  gs_id folded = fold(g, n);
  if (folded) return folded;
  put_in_order(g, n);
  switch (n->op) {
  case GS_OP_ADD: return local_add(g, n);
  case GS_OP_SUB: return local_sub(g, n);
  case GS_OP_MUL: return local_mul(g, n);
  case GS_OP_DIV: return local_div(g, n);
  case GS_OP_POW: return local_pow(g, n);
  case GS_OP_MIN:
  case GS_OP_MAX: return n->arg[0] == n->arg[1] ? n->arg[0] : 0;
  case GS_OP_AND:
  case GS_OP_OR: return local_logic(g, n);
  case GS_OP_QUOTIENT:
  case GS_OP_REMAINDER: return local_quotient(g, n);
  case GS_OP_ROUND_RAND: return n->to == GS_F32 ? n->arg[0] : 0;
  case GS_OP_LT:
  case GS_OP_LE:
  case GS_OP_GT:
  case GS_OP_GE:
  case GS_OP_EQ:
  case GS_OP_NE: return local_compare(g, n);
  case GS_OP_WHERE: return local_where(g, n);
  default: return row->info.arity == 1 ? local_unary(g, n) : 0;
  }
}
