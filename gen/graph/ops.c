/* ops.c: the table of operations. One row says everything about an operation: name, arity, emitted
 * text, cost and error of the f32 operation, the rule for types, the float64 value, the propagated
 * error and the derivative. Above the table stand the small functions that rows name. */
#include "graph/ops.h"

#include "base/random.h"

#include <math.h>

/* ---- values ---- */

static double v_neg(const double *x) {
  return -x[0];
}
static double v_abs(const double *x) {
  return fabs(x[0]);
}
static double v_exp(const double *x) {
  return exp(x[0]);
}
static double v_log(const double *x) {
  return log(x[0]);
}
static double v_sqrt(const double *x) {
  return sqrt(x[0]);
}
static double v_rsqrt(const double *x) {
  return 1 / sqrt(x[0]);
}
static double v_tanh(const double *x) {
  return tanh(x[0]);
}
static double v_sin(const double *x) {
  return sin(x[0]);
}
static double v_cos(const double *x) {
  return cos(x[0]);
}
static double v_erf(const double *x) {
  return erf(x[0]);
}
static double v_log1p(const double *x) {
  return log1p(x[0]);
}
static double v_expm1(const double *x) {
  return expm1(x[0]);
}
static double v_softplus(const double *x) {
  return fmax(x[0], 0) + log1p(exp(-fabs(x[0])));
}
static double v_floor(const double *x) {
  return floor(x[0]);
}
static double v_not(const double *x) {
  return x[0] == 0;
}
static double v_same(const double *x) {
  return x[0];
}
static double v_add(const double *x) {
  return x[0] + x[1];
}
static double v_sub(const double *x) {
  return x[0] - x[1];
}
static double v_mul(const double *x) {
  return x[0] * x[1];
}
static double v_div(const double *x) {
  return x[0] / x[1];
}
static double v_pow(const double *x) {
  return pow(x[0], x[1]);
}
static double v_min(const double *x) {
  return x[1] < x[0] ? x[1] : x[0];
}
static double v_max(const double *x) {
  return x[1] > x[0] ? x[1] : x[0];
}
static double v_lt(const double *x) {
  return x[0] < x[1];
}
static double v_le(const double *x) {
  return x[0] <= x[1];
}
static double v_gt(const double *x) {
  return x[0] > x[1];
}
static double v_ge(const double *x) {
  return x[0] >= x[1];
}
static double v_eq(const double *x) {
  return x[0] == x[1];
}
static double v_ne(const double *x) {
  return x[0] != x[1];
}
static double v_and(const double *x) {
  return x[0] != 0 && x[1] != 0;
}
static double v_or(const double *x) {
  return x[0] != 0 || x[1] != 0;
}
static double v_where(const double *x) {
  return x[0] != 0 ? x[1] : x[2];
}

/* Within what an i64 holds; 0 for NaN. */
static double v_integer(const double *x) {
  return isnan(x[0]) ? 0 : fmin(fmax(floor(x[0]), -0x1p63), 0x1p63);
}
static double v_quotient(const double *x) {
  return x[1] > 0 ? floor(x[0] / x[1]) : 0;
}
static double v_remainder(const double *x) {
  double r = x[1] > 0 ? fmod(x[0], x[1]) : 0;
  return r < 0 ? r + x[1] : r;
}
static double v_rand(const double *x) {
  return (double)gs_random_at((int64_t)x[0], (int64_t)x[1], (int64_t)x[2]);
}

static double v_sigmoid(const double *x) {
  double t = exp(-fabs(x[0]));
  return x[0] >= 0 ? 1 / (1 + t) : t / (1 + t);
}

/* ---- propagated errors: rigorous over the interval x +- e ---- */

/* An infinite e says that anything may have come before, NaN included: it stays infinite, also
 * through functions with a bounded range. 0 times infinity is NaN, which the caller takes as
 * infinite. */
static double bounded(double e, double change, double range) {
  return isinf(e) ? INFINITY : fmin(change, range);
}

/* The point of the interval closest to zero, where even bell-shaped derivatives are largest. */
static double nearest(double x, double e) {
  return fmax(fabs(x) - e, 0);
}

static double e_same(const double *x, const double *e, double y) {
  (void)x, (void)y;
  return e[0];
}
/* Besides its own ulps one more rounding of the argument: where it is made as a power of two. */
static double e_exp(const double *x, const double *e, double y) {
  double off = e[0] + fabs(x[0]) * 0x1p-24;
  return y > 0 ? y * expm1(off) : exp(x[0] + off); /* of what is hidden, far below, too */
}
static double e_log(const double *x, const double *e, double y) {
  (void)y;
  return x[0] > e[0] ? -log1p(-e[0] / x[0]) : INFINITY;
}
static double e_sqrt(const double *x, const double *e, double y) {
  return x[0] >= e[0] ? e[0] / (y + sqrt(x[0] - e[0])) : INFINITY;
}
static double e_rsqrt(const double *x, const double *e, double y) {
  return x[0] > e[0] ? y * expm1(-0.5 * log1p(-e[0] / x[0])) : INFINITY;
}
static double e_tanh(const double *x, const double *e, double y) {
  (void)y;
  double c = cosh(nearest(x[0], e[0]));
  return bounded(e[0], e[0] / (c * c), 2);
}
static double e_sigmoid(const double *x, const double *e, double y) {
  (void)y;
  double m = nearest(x[0], e[0]), s = v_sigmoid(&m), r = exp(-m) * s;
  return bounded(e[0], e[0] * s * r, 1);
}
static double e_sin(const double *x, const double *e, double y) {
  (void)y;
  return bounded(e[0], e[0] * (fabs(cos(x[0])) + e[0] / 2), 2);
}
static double e_cos(const double *x, const double *e, double y) {
  (void)y;
  return bounded(e[0], e[0] * (fabs(sin(x[0])) + e[0] / 2), 2);
}
static double e_erf(const double *x, const double *e, double y) {
  (void)y;
  double m = nearest(x[0], e[0]);
  return bounded(e[0], e[0] * M_2_SQRTPI * exp(-m * m), 2);
}
static double e_log1p(const double *x, const double *e, double y) {
  (void)y;
  return 1 + x[0] > e[0] ? -log1p(-e[0] / (1 + x[0])) : INFINITY;
}
static double e_expm1(const double *x, const double *e, double y) {
  (void)y;
  return exp(x[0]) * expm1(e[0]);
}
static double e_softplus(const double *x, const double *e, double y) {
  (void)y;
  double far = x[0] + e[0];
  return e[0] * v_sigmoid(&far);
}
static double e_floor(const double *x, const double *e, double y) {
  return fmax(floor(x[0] + e[0]) - y, y - floor(x[0] - e[0]));
}
static double e_add(const double *x, const double *e, double y) {
  (void)x, (void)y;
  return e[0] + e[1];
}
static double e_mul(const double *x, const double *e, double y) {
  (void)y;
  return fabs(x[0]) * e[1] + fabs(x[1]) * e[0] + e[0] * e[1];
}
static double e_div(const double *x, const double *e, double y) {
  double least = fabs(x[1]) - e[1];
  return least > 0 ? (e[0] + fabs(y) * e[1]) / least : INFINITY;
}
static double e_pow(const double *x, const double *e, double y) {
  double a = x[0], b = x[1];
  if (a > e[0]) {
    double el = -log1p(-e[0] / a), l = fabs(log(a));
    return fabs(y) * expm1(fabs(b) * el + e[1] * (l + el));
  }
  if (e[1] != 0 || b <= 0) return INFINITY;
  if (b == floor(b)) return pow(fabs(a) + e[0], b) - pow(fabs(a), b);
  return a >= 0 && e[0] == 0 ? 0 : INFINITY;
}
static double e_min(const double *x, const double *e, double y) {
  return fmax(y - fmin(x[0] - e[0], x[1] - e[1]), fmin(x[0] + e[0], x[1] + e[1]) - y);
}
static double e_max(const double *x, const double *e, double y) {
  return fmax(fmax(x[0] + e[0], x[1] + e[1]) - y, y - fmax(x[0] - e[0], x[1] - e[1]));
}
/* Of truth values the error is 0 when certain, 1 when rounding may flip them. */
static double e_compare(const double *x, const double *e, double y) {
  (void)y;
  return fabs(x[0] - x[1]) > e[0] + e[1] ? 0 : 1;
}
static double e_and(const double *x, const double *e, double y) {
  (void)y;
  bool settled = (x[0] == 0 && e[0] == 0) || (x[1] == 0 && e[1] == 0);
  return settled ? 0 : 1;
}
static double e_or(const double *x, const double *e, double y) {
  (void)y;
  bool settled = (x[0] != 0 && e[0] == 0) || (x[1] != 0 && e[1] == 0);
  return settled ? 0 : 1;
}
static double e_integer(const double *x, const double *e, double y) {
  double high = x[0] + e[0], low = x[0] - e[0];
  return fmax(v_integer(&high) - y, y - v_integer(&low));
}
static double e_quotient(const double *x, const double *e, double y) {
  if (e[1] != 0 || !(x[1] > 0)) return INFINITY;
  return fmax(floor((x[0] + e[0]) / x[1]) - y, y - floor((x[0] - e[0]) / x[1]));
}
static double e_remainder(const double *x, const double *e, double y) {
  return e[1] != 0 ? INFINITY : fmax(x[1] - 1 - y, y);
}
static double e_rand(const double *x, const double *e, double y) {
  (void)x, (void)e, (void)y;
  return 1;
}
static double e_where(const double *x, const double *e, double y) {
  if (e[0] == 0) return x[0] != 0 ? e[1] : e[2];
  double other = x[0] != 0 ? x[2] : x[1], gap = other == y ? 0 : fabs(other - y);
  double e_other = x[0] != 0 ? e[2] : e[1], e_own = x[0] != 0 ? e[1] : e[2];
  return fmax(e_own, gap + e_other);
}

/* ---- tables ---- */

static double bucket_of(const gs_table *t, double x) {
  int n = 0;
  while (n < t->count && t->value[n] < x) n++;
  return n;
}

static double clamped(const gs_table *t, double i) {
  return i >= t->count ? t->count - 1 : i > 0 ? floor(i) : 0;
}

/* The largest distance to what stands at indices that may be meant. */
static double lookup_error(const gs_table *t, double i, double e, double y) {
  double far = 0;
  for (double k = clamped(t, i - e); k <= clamped(t, i + e); k++)
    far = fmax(far, fabs(t->value[(int)k] - y));
  return far;
}

double map_value(const gs_graph *g, const gs_node *n, const double *x) {
  if (n->op == GS_OP_BUCKET) return bucket_of(&g->tables[n->index], x[0]);
  if (n->op != GS_OP_LOOKUP) return row_of(n->op)->value(x);
  const gs_table *t = &g->tables[n->index];
  return t->value[(int)clamped(t, x[0])];
}

double map_error(const gs_graph *g, const gs_node *n, const double *x, const double *e, double y) {
  const gs_table *t = gs_graph_table_at(g, (int)n->index);
  if (n->op == GS_OP_LOOKUP) return lookup_error(t, x[0], e[0], y);
  if (n->op != GS_OP_BUCKET) return row_of(n->op)->error(x, e, y);
  return fmax(bucket_of(t, x[0] + e[0]) - y, y - bucket_of(t, x[0] - e[0]));
}

/* ---- derivatives ---- */

static gs_id arg(const gs_graph *g, gs_id y, int k) {
  return node_at(g, y)->arg[k];
}
static gs_id mul(gs_graph *g, gs_id a, gs_id b) {
  return gs_op2(g, GS_OP_MUL, a, b);
}
static gs_id scale(gs_graph *g, gs_id a, double c) {
  return mul(g, a, gs_const(g, c));
}
static gs_id zero(gs_graph *g) {
  return gs_const(g, 0);
}

static gs_id d_same(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)g, (void)y, (void)k;
  return dy;
}
static gs_id d_first(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)g, (void)y;
  return k == 0 ? dy : 0;
}
static gs_id d_neg(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)y, (void)k;
  return gs_op1(g, GS_OP_NEG, dy);
}
static gs_id d_abs(gs_graph *g, gs_id y, int k, gs_id dy) {
  gs_id x = arg(g, y, k), minus = gs_op1(g, GS_OP_NEG, dy);
  gs_id below = gs_where(g, gs_op2(g, GS_OP_LT, x, zero(g)), minus, zero(g));
  return gs_where(g, gs_op2(g, GS_OP_GT, x, zero(g)), dy, below);
}
static gs_id d_exp(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)k;
  return mul(g, dy, y);
}
static gs_id d_log(gs_graph *g, gs_id y, int k, gs_id dy) {
  return gs_op2(g, GS_OP_DIV, dy, arg(g, y, k));
}
static gs_id d_sqrt(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)k;
  return gs_op2(g, GS_OP_DIV, scale(g, dy, 0.5), y);
}
static gs_id d_rsqrt(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)k;
  return scale(g, mul(g, dy, mul(g, y, mul(g, y, y))), -0.5);
}
static gs_id d_tanh(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)k;
  return mul(g, dy, gs_op2(g, GS_OP_SUB, gs_const(g, 1), mul(g, y, y)));
}
static gs_id d_sigmoid(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)k;
  return mul(g, dy, mul(g, y, gs_op2(g, GS_OP_SUB, gs_const(g, 1), y)));
}
static gs_id d_sin(gs_graph *g, gs_id y, int k, gs_id dy) {
  return mul(g, dy, gs_op1(g, GS_OP_COS, arg(g, y, k)));
}
static gs_id d_cos(gs_graph *g, gs_id y, int k, gs_id dy) {
  return gs_op1(g, GS_OP_NEG, mul(g, dy, gs_op1(g, GS_OP_SIN, arg(g, y, k))));
}
static gs_id d_erf(gs_graph *g, gs_id y, int k, gs_id dy) {
  gs_id x = arg(g, y, k), bell = gs_op1(g, GS_OP_EXP, gs_op1(g, GS_OP_NEG, mul(g, x, x)));
  return mul(g, dy, scale(g, bell, M_2_SQRTPI));
}
static gs_id d_log1p(gs_graph *g, gs_id y, int k, gs_id dy) {
  return gs_op2(g, GS_OP_DIV, dy, gs_op2(g, GS_OP_ADD, arg(g, y, k), gs_const(g, 1)));
}
static gs_id d_expm1(gs_graph *g, gs_id y, int k, gs_id dy) {
  return mul(g, dy, gs_op1(g, GS_OP_EXP, arg(g, y, k)));
}
static gs_id d_softplus(gs_graph *g, gs_id y, int k, gs_id dy) {
  return mul(g, dy, gs_op1(g, GS_OP_SIGMOID, arg(g, y, k)));
}
static gs_id d_sub(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)y;
  return k == 0 ? dy : gs_op1(g, GS_OP_NEG, dy);
}
static gs_id d_mul(gs_graph *g, gs_id y, int k, gs_id dy) {
  return mul(g, dy, arg(g, y, 1 - k));
}
static gs_id d_div(gs_graph *g, gs_id y, int k, gs_id dy) {
  gs_id part = gs_op2(g, GS_OP_DIV, dy, arg(g, y, 1));
  return k == 0 ? part : gs_op1(g, GS_OP_NEG, mul(g, part, y));
}
static gs_id d_pow(gs_graph *g, gs_id y, int k, gs_id dy) {
  gs_id a = arg(g, y, 0), b = arg(g, y, 1);
  if (k == 1) return mul(g, mul(g, dy, y), gs_op1(g, GS_OP_LOG, a));
  gs_id less = gs_op2(g, GS_OP_SUB, b, gs_const(g, 1));
  return mul(g, mul(g, dy, b), gs_op2(g, GS_OP_POW, a, less));
}
/* At a tie each side gets half, so that the order of the arguments does not matter. */
static gs_id d_extreme(gs_graph *g, gs_id y, int k, gs_id dy) {
  gs_id own = arg(g, y, k), other = arg(g, y, 1 - k);
  gs_op wins = node_at(g, y)->op == GS_OP_MAX ? GS_OP_GT : GS_OP_LT;
  gs_id tie = gs_where(g, gs_op2(g, GS_OP_EQ, own, other), scale(g, dy, 0.5), zero(g));
  return gs_where(g, gs_op2(g, wins, own, other), dy, tie);
}
static gs_id d_where(gs_graph *g, gs_id y, int k, gs_id dy) {
  gs_id c = arg(g, y, 0);
  if (k == 0) return 0;
  return k == 1 ? gs_where(g, c, dy, zero(g)) : gs_where(g, c, zero(g), dy);
}

/* Shared equally among the elements that attain the extreme. */
static gs_id d_rmax(gs_graph *g, gs_id y, int k, gs_id dy) {
  gs_id hit = gs_op2(g, GS_OP_EQ, arg(g, y, k), y);
  gs_id ties = sum_over(g, hit, node_at(g, y)->rdims);
  return gs_where(g, hit, gs_op2(g, GS_OP_DIV, dy, ties), zero(g));
}
static gs_id d_logsumexp(gs_graph *g, gs_id y, int k, gs_id dy) {
  return mul(g, dy, gs_op1(g, GS_OP_EXP, gs_op2(g, GS_OP_SUB, arg(g, y, k), y)));
}

static gs_id d_split(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)k;
  const int *d = node_at(g, y)->dim;
  return view2(g, GS_OP_MERGE, dy, d[0], d[1], d[2]);
}
static gs_id d_merge(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)k;
  const int *d = node_at(g, y)->dim;
  return view2(g, GS_OP_SPLIT, dy, d[0], d[1], d[2]);
}
static gs_id index_of(gs_graph *g, int d) {
  return make(g, &(gs_node){.op = GS_OP_INDEX, .dim = {d}});
}
static gs_id int_const(gs_graph *g, int64_t v) {
  return const_of(g, (double)v, GS_I64);
}

static gs_id d_pick(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)k;
  const gs_node *n = node_at(g, y);
  gs_id hit = gs_op2(g, GS_OP_EQ, index_of(g, n->dim[0]), int_const(g, n->index));
  return gs_where(g, hit, dy, zero(g));
}
static gs_id d_slice(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)k;
  const gs_node *n = node_at(g, y);
  gs_id i = index_of(g, n->dim[0]), from = int_const(g, n->index);
  gs_id end = int_const(g, n->index + inner_size(g, n->dim[1]));
  gs_id ok = gs_op2(g, GS_OP_AND, gs_op2(g, GS_OP_GE, i, from), gs_op2(g, GS_OP_LT, i, end));
  return gather(g, dy, gs_op2(g, GS_OP_SUB, i, from), ok, n->dim[1]);
}
static gs_id d_rename(gs_graph *g, gs_id y, int k, gs_id dy) {
  (void)k;
  const int *d = node_at(g, y)->dim;
  return view1(g, GS_OP_RENAME, dy, d[1], d[0], 0);
}
static gs_id d_join(gs_graph *g, gs_id y, int k, gs_id dy) {
  return view1(g, GS_OP_PICK, dy, node_at(g, y)->dim[0], -1, k);
}
int key_dim(const gs_graph *g, const gs_node *n) {
  gs_dims away = n->dims & ~node_at(g, n->arg[0])->dims & node_at(g, n->arg[1])->dims;
  if (!away || (away & (away - 1)) != 0) return -1;
  int t = 0;
  while (bit(t) != away) t++;
  return t;
}
/* Where one dim is summed away and the index depends on it, a sum by key; else a comparison. */
static gs_id d_at(gs_graph *g, gs_id y, int k, gs_id dy) {
  if (k != 0) return 0;
  const gs_node *n = node_at(g, y);
  gs_id i = n->arg[1];
  gs_id in = n->nargs == 3 ? gs_where(g, n->arg[2], dy, zero(g)) : dy;
  int t = key_dim(g, n);
  if (t >= 0)
    return make(g,
                &(gs_node){.op = GS_OP_SUM_BY, .nargs = 2, .arg = {in, i}, .dim = {t, n->dim[0]}});
  return gs_where(g, gs_op2(g, GS_OP_EQ, index_of(g, n->dim[0]), i), in, zero(g));
}
static gs_id d_sum_by(gs_graph *g, gs_id y, int k, gs_id dy) {
  if (k != 0) return 0;
  const gs_node *n = node_at(g, y);
  gs_id key = n->arg[1], size = make(g, &(gs_node){.op = GS_OP_SIZE, .dim = {n->dim[1]}});
  gs_id ok = gs_op2(g, GS_OP_AND, gs_op2(g, GS_OP_GE, key, int_const(g, 0)),
                    gs_op2(g, GS_OP_LT, key, size));
  return gather(g, dy, key, ok, n->dim[1]);
}

/* ---- the table ---- */

/* Columns: {name, arity, text, cost, ulps}, kind, type rule, commutes, dims used, value, error,
 * derivative. ulps are above what the CUDA guide states and what the emulator's prelude reaches. */
static const op_row rows[GS_OP_COUNT] = {
    [GS_OP_NONE] = {{"none", 0, NULL, 0, 0}, KIND_LEAF, RULE_OWN, 0, 0, NULL, NULL, NULL},
    [GS_OP_CONST] = {{"const", 0, NULL, 0, 0}, KIND_LEAF, RULE_OWN, 0, 0, NULL, NULL, NULL},
    [GS_OP_INPUT] = {{"input", 0, NULL, 0, 0}, KIND_LEAF, RULE_OWN, 0, 0, NULL, NULL, NULL},
    [GS_OP_SCALAR] = {{"scalar", 0, NULL, 0, 0}, KIND_LEAF, RULE_OWN, 0, 0, NULL, NULL, NULL},
    [GS_OP_INDEX] = {{"index", 0, NULL, 0, 0}, KIND_LEAF, RULE_OWN, 0, 1, NULL, NULL, NULL},
    [GS_OP_SIZE] = {{"size", 0, NULL, 0, 0}, KIND_LEAF, RULE_OWN, 0, 1, NULL, NULL, NULL},

    [GS_OP_NEG] = {{"neg", 1, "(-$0)", 1, 0}, KIND_MAP, RULE_NUMBER, 0, 0, v_neg, e_same, d_neg},
    [GS_OP_ABS] =
        {{"abs", 1, "gs_abs($0)", 1, 0}, KIND_MAP, RULE_NUMBER, 0, 0, v_abs, e_same, d_abs},
    [GS_OP_EXP] = {{"exp", 1, "gs_exp($0)", 8, 6}, KIND_MAP, RULE_REAL, 0, 0, v_exp, e_exp, d_exp},
    [GS_OP_LOG] = {{"log", 1, "gs_log($0)", 8, 4}, KIND_MAP, RULE_REAL, 0, 0, v_log, e_log, d_log},
    [GS_OP_SQRT] =
        {{"sqrt", 1, "gs_sqrt($0)", 8, 2}, KIND_MAP, RULE_REAL, 0, 0, v_sqrt, e_sqrt, d_sqrt},
    [GS_OP_RSQRT] =
        {{"rsqrt", 1, "gs_rsqrt($0)", 8, 4}, KIND_MAP, RULE_REAL, 0, 0, v_rsqrt, e_rsqrt, d_rsqrt},
    [GS_OP_TANH] =
        {{"tanh", 1, "gs_tanh($0)", 8, 8}, KIND_MAP, RULE_REAL, 0, 0, v_tanh, e_tanh, d_tanh},
    [GS_OP_SIGMOID] = {{"sigmoid", 1, "gs_sigmoid($0)", 8, 10},
                       KIND_MAP,
                       RULE_REAL,
                       0,
                       0,
                       v_sigmoid,
                       e_sigmoid,
                       d_sigmoid},
    [GS_OP_SIN] = {{"sin", 1, "gs_sin($0)", 8, 4}, KIND_MAP, RULE_REAL, 0, 0, v_sin, e_sin, d_sin},
    [GS_OP_COS] = {{"cos", 1, "gs_cos($0)", 8, 4}, KIND_MAP, RULE_REAL, 0, 0, v_cos, e_cos, d_cos},
    [GS_OP_ERF] = {{"erf", 1, "gs_erf($0)", 8, 8}, KIND_MAP, RULE_REAL, 0, 0, v_erf, e_erf, d_erf},
    [GS_OP_LOG1P] =
        {{"log1p", 1, "gs_log1p($0)", 8, 4}, KIND_MAP, RULE_REAL, 0, 0, v_log1p, e_log1p, d_log1p},
    [GS_OP_EXPM1] =
        {{"expm1", 1, "gs_expm1($0)", 8, 4}, KIND_MAP, RULE_REAL, 0, 0, v_expm1, e_expm1, d_expm1},
    [GS_OP_SOFTPLUS] = {{"softplus", 1, "gs_softplus($0)", 18, 12},
                        KIND_MAP,
                        RULE_REAL,
                        0,
                        0,
                        v_softplus,
                        e_softplus,
                        d_softplus},
    [GS_OP_FLOOR] =
        {{"floor", 1, "gs_floor($0)", 1, 0}, KIND_MAP, RULE_REAL, 0, 0, v_floor, e_floor, NULL},
    [GS_OP_NOT] =
        {{"logical_not", 1, "(!$0)", 1, 0}, KIND_MAP, RULE_LOGIC, 0, 0, v_not, e_same, NULL},
    [GS_OP_REAL] =
        {{"real", 1, "(f32)($0)", 1, 0}, KIND_MAP, RULE_REAL, 0, 0, v_same, e_same, NULL},
    [GS_OP_ROUND] =
        {{"round", 1, "gs_round_$t($0)", 1, 0}, KIND_MAP, RULE_REAL, 0, 0, v_same, e_same, d_same},
    [GS_OP_INTEGER] = {{"integer", 1, "gs_integer($0)", 1, 0},
                       KIND_MAP,
                       RULE_COUNT,
                       0,
                       0,
                       v_integer,
                       e_integer,
                       NULL},
    [GS_OP_BUCKET] =
        {{"bucket", 1, "gs_bucket($T, $0)", 8, 0}, KIND_MAP, RULE_COUNT, 0, 0, NULL, NULL, NULL},
    [GS_OP_LOOKUP] =
        {{"lookup", 1, "gs_lookup($T, $0)", 1, 0}, KIND_MAP, RULE_PLACE, 0, 0, NULL, NULL, NULL},
    [GS_OP_STOP] = {{"stop", 1, "$0", 0, 0}, KIND_MAP, RULE_SAME, 0, 0, v_same, e_same, NULL},

    [GS_OP_ADD] =
        {{"add", 2, "($0 + $1)", 1, 1}, KIND_MAP, RULE_NUMBER, 1, 0, v_add, e_add, d_same},
    [GS_OP_SUB] = {{"sub", 2, "($0 - $1)", 1, 1}, KIND_MAP, RULE_NUMBER, 0, 0, v_sub, e_add, d_sub},
    [GS_OP_MUL] = {{"mul", 2, "($0 * $1)", 1, 1}, KIND_MAP, RULE_NUMBER, 1, 0, v_mul, e_mul, d_mul},
    [GS_OP_DIV] =
        {{"div", 2, "gs_div($0, $1)", 4, 2}, KIND_MAP, RULE_REAL, 0, 0, v_div, e_div, d_div},
    [GS_OP_POW] =
        {{"pow", 2, "gs_pow($0, $1)", 16, 32}, KIND_MAP, RULE_REAL, 0, 0, v_pow, e_pow, d_pow},
    [GS_OP_MIN] =
        {{"min", 2, "gs_min($0, $1)", 1, 0}, KIND_MAP, RULE_NUMBER, 1, 0, v_min, e_min, d_extreme},
    [GS_OP_MAX] =
        {{"max", 2, "gs_max($0, $1)", 1, 0}, KIND_MAP, RULE_NUMBER, 1, 0, v_max, e_max, d_extreme},
    [GS_OP_LT] =
        {{"lt", 2, "($0 < $1)", 1, 0}, KIND_MAP, RULE_COMPARE, 0, 0, v_lt, e_compare, NULL},
    [GS_OP_LE] =
        {{"le", 2, "($0 <= $1)", 1, 0}, KIND_MAP, RULE_COMPARE, 0, 0, v_le, e_compare, NULL},
    [GS_OP_GT] =
        {{"gt", 2, "($0 > $1)", 1, 0}, KIND_MAP, RULE_COMPARE, 0, 0, v_gt, e_compare, NULL},
    [GS_OP_GE] =
        {{"ge", 2, "($0 >= $1)", 1, 0}, KIND_MAP, RULE_COMPARE, 0, 0, v_ge, e_compare, NULL},
    [GS_OP_EQ] =
        {{"eq", 2, "($0 == $1)", 1, 0}, KIND_MAP, RULE_COMPARE, 1, 0, v_eq, e_compare, NULL},
    [GS_OP_NE] =
        {{"ne", 2, "($0 != $1)", 1, 0}, KIND_MAP, RULE_COMPARE, 1, 0, v_ne, e_compare, NULL},
    [GS_OP_AND] =
        {{"logical_and", 2, "($0 && $1)", 1, 0}, KIND_MAP, RULE_LOGIC, 1, 0, v_and, e_and, NULL},
    [GS_OP_OR] =
        {{"logical_or", 2, "($0 || $1)", 1, 0}, KIND_MAP, RULE_LOGIC, 1, 0, v_or, e_or, NULL},

    [GS_OP_QUOTIENT] = {{"quotient", 2, "gs_quotient($0, $1)", 4, 0},
                        KIND_MAP,
                        RULE_INTEGER,
                        0,
                        0,
                        v_quotient,
                        e_quotient,
                        NULL},
    [GS_OP_REMAINDER] = {{"remainder", 2, "gs_remainder($0, $1)", 4, 0},
                         KIND_MAP,
                         RULE_INTEGER,
                         0,
                         0,
                         v_remainder,
                         e_remainder,
                         NULL},
    [GS_OP_ROUND_RAND] = {{"round_rand", 2, "gs_round_rand_$t($0, $1)", 4, 0},
                          KIND_MAP,
                          RULE_REAL,
                          0,
                          0,
                          v_same,
                          e_same,
                          d_first},
    [GS_OP_RAND] = {{"rand", 3, "gs_rand($0, $1, $2)", 16, 0},
                    KIND_MAP,
                    RULE_PLACE,
                    0,
                    0,
                    v_rand,
                    e_rand,
                    NULL},

    [GS_OP_WHERE] = {{"where", 3, "($0 ? $1 : $2)", 1, 0},
                     KIND_MAP,
                     RULE_SELECT,
                     0,
                     0,
                     v_where,
                     e_where,
                     d_where},

    [GS_OP_SUM] = {{"sum", 1, NULL, 1, 0}, KIND_REDUCE, RULE_REAL, 0, 0, NULL, NULL, d_same},
    [GS_OP_RMAX] = {{"rmax", 1, NULL, 1, 0}, KIND_REDUCE, RULE_REAL, 0, 0, NULL, NULL, d_rmax},
    [GS_OP_RMIN] = {{"rmin", 1, NULL, 1, 0}, KIND_REDUCE, RULE_REAL, 0, 0, NULL, NULL, d_rmax},
    [GS_OP_LOGSUMEXP] =
        {{"logsumexp", 1, NULL, 10, 0}, KIND_REDUCE, RULE_REAL, 0, 0, NULL, NULL, d_logsumexp},

    [GS_OP_FOLD] = {{"fold", -1, NULL, 1, 0}, KIND_REDUCE, RULE_OWN, 0, 0, NULL, NULL, NULL},
    [GS_OP_STATE] = {{"state", 0, NULL, 0, 0}, KIND_LEAF, RULE_OWN, 0, 0, NULL, NULL, NULL},
    [GS_OP_ELEMENT] = {{"element", 0, NULL, 0, 0}, KIND_LEAF, RULE_OWN, 0, 0, NULL, NULL, NULL},

    [GS_OP_SPLIT] = {{"split", 1, NULL, 0, 0}, KIND_VIEW, RULE_SAME, 0, 3, NULL, NULL, d_split},
    [GS_OP_MERGE] = {{"merge", 1, NULL, 0, 0}, KIND_VIEW, RULE_SAME, 0, 3, NULL, NULL, d_merge},
    [GS_OP_PICK] = {{"pick", 1, NULL, 0, 0}, KIND_VIEW, RULE_SAME, 0, 1, NULL, NULL, d_pick},
    [GS_OP_SLICE] = {{"slice", 1, NULL, 0, 0}, KIND_VIEW, RULE_SAME, 0, 2, NULL, NULL, d_slice},
    [GS_OP_RENAME] = {{"rename", 1, NULL, 0, 0}, KIND_VIEW, RULE_SAME, 0, 2, NULL, NULL, d_rename},
    [GS_OP_JOIN] = {{"join", -1, NULL, 0, 0}, KIND_VIEW, RULE_OWN, 0, 1, NULL, NULL, d_join},
    [GS_OP_AT] = {{"at", -1, NULL, 1, 0}, KIND_GATHER, RULE_OWN, 0, 1, NULL, NULL, d_at},
    [GS_OP_SUM_BY] = {{"sum_by", 2, NULL, 1, 0}, KIND_GATHER, RULE_OWN, 0, 2, NULL, NULL, d_sum_by},
};

const op_row *row_of(gs_op op) {
  return &rows[op];
}

const gs_op_info *gs_op_row(gs_op op) {
  return op > GS_OP_NONE && op < GS_OP_COUNT ? &rows[op].info : NULL;
}
