/* eval_ops.c: one node of the evaluation: its values in float64, and how far the f32 kernel may be
 * from them: errors of the arguments propagated, plus the operation's own rounding. */
#include "graph/eval.h"

#include "base/half.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gs_status need_errors(eval *ev, value *y) {
  y->own_e = malloc(sizeof(double) * (y->count ? y->count : 1));
  return y->own_e ? GS_OK : no_memory(ev, y->count);
}

/* Offsets of a walk over `over` through argument a; NULL in *at when it is the identity. */
static gs_status walk(const eval *ev, gs_dims over, const value *a, size_t **at) {
  axis ax[GS_MAX_DIMS];
  *at = NULL;
  if (over == a->dims) return GS_OK;
  *at = offsets(ev, ax, axes_of(ev, over, a->dims, ax), 0);
  return *at ? GS_OK : GS_ERR_MEMORY;
}

/* ---- rounding ---- */

typedef struct storage {
  int digits, least; /* of precision; exponent of the least normal number */
  double overflow;   /* the magnitude from which it rounds to infinity, or saturates */
  bool saturates;
} storage;

static storage storage_of(gs_type t) {
  switch (t) {
  case GS_BF16: return (storage){8, -126, 0x1.ffp127, false};
  case GS_F16: return (storage){11, -14, 65520, false};
  case GS_E4M3: return (storage){4, -6, 448, true};
  case GS_E5M2: return (storage){3, -14, 57344, true};
  default: return (storage){24, -126, F32_MAX, false};
  }
}

/* Half an ulp of a storage type at magnitude m, subnormals included; where it saturates, how far m
 * lies outside. E8M0 goes up to the next power of two. */
static double half_ulp(gs_type t, double m) {
  int e;
  if (t == GS_E8M0) return m + 0x1p-127;
  storage s = storage_of(t);
  double outside = s.saturates && m > s.overflow ? m - s.overflow : 0;
  if (isnan(m) || (!s.saturates && m >= s.overflow)) return INFINITY;
  frexp(fmin(m, s.overflow), &e);
  if (m == 0 || e - 1 < s.least) e = s.least + 1;
  return fmax(ldexp(1, e - 1 - s.digits), outside);
}

static double round_error(gs_type t, double y, double err) {
  if (err != 0) return t == GS_F32 ? 0 : half_ulp(t, fabs(y) + err);
  float stored; /* room for any type */
  gs_store_f64(&stored, t, 0, y);
  double r = gs_load_f64(&stored, t, 0);
  return r == y ? 0 : fabs(r - y);
}

/* To a neighbour, whichever: one ulp, and none where the type holds the value. */
static double round_rand_error(gs_type t, double y, double err) {
  return err == 0 && round_error(t, y, 0) == 0 ? 0 : 2 * half_ulp(t, fabs(y) + err);
}

/* The operation's own rounding at value y, whose arguments contribute err. */
static double own_rounding(const gs_node *n, const op_row *row, double y, double err) {
  double m = fabs(y) + err;
  if (n->op == GS_OP_ROUND) return round_error(n->to, y, err);
  if (n->op == GS_OP_ROUND_RAND) return round_rand_error(n->to, y, err);
  if (n->op == GS_OP_REAL) return m > 0x1p24 ? UNIT * m : 0;
  if (row->info.ulps == 0 || n->type != GS_F32) return 0;
  bool plain = n->op == GS_OP_ADD || n->op == GS_OP_SUB || n->op == GS_OP_MUL;
  if (plain && err == 0 && (double)(float)y == y) return 0;
  if (!(m <= F32_MAX)) return INFINITY;
  double own = row->info.ulps * UNIT * m;
  if (m < F32_MIN) own += row->info.cost >= 8 ? F32_MIN : row->info.ulps * 0x1p-150;
  return own;
}

/* ---- element by element ---- */

void map_bound(const gs_graph *g, const gs_node *n, const double *x, const double *e, bool exact,
               double *v, double *err) {
  bool hands_on = !exact || n->op == GS_OP_EXP; /* exp rounds an exact argument, too */
  double y = map_value(g, n, x), bound = hands_on ? map_error(g, n, x, e, y) : 0;
  bound += own_rounding(n, row_of(n->op), y, bound);
  *v = y;
  *err = isnan(bound) || isnan(y) ? INFINITY : bound;
}

static void map_loop(const gs_graph *g, const gs_node *n, const value *const *a, size_t *const *at,
                     value *y) {
  double x[3] = {0}, e[3] = {0};
  for (size_t i = 0; i < y->count; i++) {
    bool exact = true;
    for (int k = 0; k < n->nargs && a[k]; k++) {
      size_t o = at[k] ? at[k][i] : i;
      x[k] = a[k]->v[o];
      e[k] = a[k]->e ? a[k]->e[o] : 0;
      exact &= e[k] == 0;
    }
    map_bound(g, n, x, e, exact, &y->own_v[i], &y->own_e[i]);
  }
}

gs_status eval_map(eval *ev, gs_id id) {
  const gs_node *n = node_at(ev->g, id);
  value *y = &ev->of[id];
  const value *a[3] = {0};
  size_t *at[3] = {0};
  gs_status status = need_errors(ev, y);
  for (int k = 0; k < n->nargs && status == GS_OK; k++) {
    a[k] = &ev->of[n->arg[k]];
    status = walk(ev, n->dims, a[k], &at[k]);
  }
  if (status == GS_OK) map_loop(ev->g, n, a, at, y);
  for (int k = 0; k < 3; k++) free(at[k]);
  return status;
}

/* ---- reductions ---- */

/* The header's bound on the tree of a sum of n terms. */
static double tree_factor(size_t n) {
  double d = (double)(n ? n : 1);
  return ceil(log2(d)) + d / 256 + 8;
}

typedef struct terms {
  const double *v, *e; /* of the argument, from its first term */
  const size_t *at;    /* offsets of the terms */
  size_t n;
} terms;

static void sum_terms(const terms *t, double *v, double *err) {
  double sum = 0, magnitude = 0, e = 0;
  for (size_t j = 0; j < t->n; j++) {
    double x = t->v[t->at[j]], ex = t->e ? t->e[t->at[j]] : 0;
    sum += x;
    magnitude += fabs(x) + ex;
    e += ex;
  }
  *v = sum;
  *err = magnitude > F32_MAX ? INFINITY : e + tree_factor(t->n) * UNIT * magnitude;
}

static void extreme_terms(const terms *t, double sign, double *v, double *err) {
  double m = -INFINITY, high = -INFINITY, low = -INFINITY;
  for (size_t j = 0; j < t->n; j++) {
    double x = sign * t->v[t->at[j]], ex = t->e ? t->e[t->at[j]] : 0;
    m = fmax(m, x);
    high = fmax(high, x + ex);
    low = fmax(low, x - ex);
  }
  *v = sign * m;
  *err = high == low ? 0 : fmax(high - m, m - low);
}

/* As the maximum plus the log of a sum of exponentials of differences, possibly rescaled on the
 * way; p are the shares of the terms. */
static void logsumexp_terms(const terms *t, double *v, double *err) {
  double m = -INFINITY, s = 0, from_terms = 0, from_exp = 0;
  for (size_t j = 0; j < t->n; j++) m = fmax(m, t->v[t->at[j]]);
  if (isinf(m)) {
    *v = m;
    *err = t->e || m > 0 ? INFINITY : 0;
    return;
  }
  for (size_t j = 0; j < t->n; j++) s += exp(t->v[t->at[j]] - m);
  double exp_ulps = row_of(GS_OP_EXP)->info.ulps, log_ulps = row_of(GS_OP_LOG)->info.ulps;
  for (size_t j = 0; j < t->n; j++) {
    double x = t->v[t->at[j]], p = exp(x - m) / s, ex = t->e ? t->e[t->at[j]] : 0;
    if (p == 0 && !(ex > 0)) continue;
    from_terms += p * expm1(ex);
    from_exp += p * (m - x);
  }
  double rescaled = (exp_ulps + 2) * (log2((double)t->n) + 2);
  double own = 2 * from_exp + rescaled + tree_factor(t->n) + log_ulps * fabs(log(s));
  *v = m + log(s);
  *err = log1p(from_terms) + UNIT * (own + 2 * fabs(m) + fabs(*v)); /* m, perhaps by powers of two */
}

static void reduce_terms(gs_op op, const terms *t, double *v, double *err) {
  switch (op) {
  case GS_OP_SUM: sum_terms(t, v, err); break;
  case GS_OP_RMAX: extreme_terms(t, 1, v, err); break;
  case GS_OP_RMIN: extreme_terms(t, -1, v, err); break;
  default: logsumexp_terms(t, v, err); break;
  }
  if (isnan(*err) || isnan(*v)) *err = INFINITY;
}

gs_status eval_reduce(eval *ev, gs_id id) {
  const gs_node *n = node_at(ev->g, id);
  if (n->op == GS_OP_FOLD) return eval_fold(ev, id);
  value *y = &ev->of[id];
  const value *a = &ev->of[n->arg[0]];
  axis ax[GS_MAX_DIMS];
  gs_status status = need_errors(ev, y);
  if (status != GS_OK) return status;
  size_t *kept = offsets(ev, ax, axes_of(ev, n->dims, a->dims, ax), 0);
  size_t *gone = offsets(ev, ax, axes_of(ev, n->rdims, a->dims, ax), 0);
  if (!kept || !gone) status = GS_ERR_MEMORY;
  size_t count = count_of(ev, n->rdims);
  for (size_t i = 0; i < y->count && status == GS_OK; i++) {
    terms t = {a->v + kept[i], a->e ? a->e + kept[i] : NULL, gone, count};
    reduce_terms(n->op, &t, &y->own_v[i], &y->own_e[i]);
  }
  free(kept);
  free(gone);
  return status;
}

/* ---- views ---- */

/* Copies through offsets, from element from[i] of a to element to[i] of y (NULL: i). */
static void copy_elements(const value *a, const size_t *from, value *y, const size_t *to,
                          size_t n) {
  for (size_t i = 0; i < n; i++) {
    size_t j = to ? to[i] : i;
    y->own_v[j] = a->v[from[i]];
    if (y->own_e) y->own_e[j] = a->e ? a->e[from[i]] : 0;
  }
}

/* The axis of dim d of the result of a view of an array of dims `of`. */
static axis view_axis(const eval *ev, const gs_node *n, gs_dims of, int d) {
  axis ax = {size_of(ev, d), 1, stride_of(ev, of, d), 0};
  int64_t s0 = stride_of(ev, of, n->dim[0]);
  if (n->op == GS_OP_SPLIT && d == n->dim[1]) ax.high = s0 * size_of(ev, n->dim[2]);
  if (n->op == GS_OP_SPLIT && d == n->dim[2]) ax.high = s0;
  if (n->op == GS_OP_MERGE && d == n->dim[0]) {
    ax.div = size_of(ev, n->dim[2]);
    ax.high = stride_of(ev, of, n->dim[1]);
    ax.low = stride_of(ev, of, n->dim[2]);
  }
  bool moved = n->op == GS_OP_SLICE || n->op == GS_OP_RENAME;
  if (moved && d == n->dim[1]) ax.high = s0;
  return ax;
}

/* Marks in *past (NULL: none) what a SPLIT with a rest has past the end, and makes the offsets of
 * such elements legal. */
static gs_status cut_tail(const eval *ev, const gs_node *n, size_t count, size_t *from,
                          size_t **past) {
  axis ax[GS_MAX_DIMS];
  *past = NULL;
  if (n->op != GS_OP_SPLIT) return GS_OK;
  int64_t size = size_of(ev, n->dim[0]), block = size_of(ev, n->dim[2]);
  if (size == size_of(ev, n->dim[1]) * block) return GS_OK;
  int k = 0;
  for (int d = 0; d < ev->g->ndims; d++) {
    int64_t step = d == n->dim[1] ? block : d == n->dim[2];
    if (has(n->dims, d)) ax[k++] = (axis){size_of(ev, d), 1, step, 0};
  }
  *past = offsets(ev, ax, k, 0);
  if (!*past) return GS_ERR_MEMORY;
  for (size_t i = 0; i < count; i++) {
    (*past)[i] = (*past)[i] >= (size_t)size;
    if ((*past)[i]) from[i] = 0;
  }
  return GS_OK;
}

static gs_status eval_join(eval *ev, gs_id id) {
  const gs_node *n = node_at(ev->g, id);
  value *y = &ev->of[id];
  axis ax[GS_MAX_DIMS];
  gs_dims rest = n->dims & ~bit(n->dim[0]);
  size_t step = (size_t)stride_of(ev, n->dims, n->dim[0]), count = count_of(ev, rest);
  gs_status status = need_errors(ev, y);
  for (int k = 0; k < n->nargs && status == GS_OK; k++) {
    const value *a = &ev->of[n->arg[k]];
    size_t *from = offsets(ev, ax, axes_of(ev, rest, a->dims, ax), 0);
    size_t *to = offsets(ev, ax, axes_of(ev, rest, n->dims, ax), (size_t)k * step);
    if (from && to)
      copy_elements(a, from, y, to, count);
    else
      status = GS_ERR_MEMORY;
    free(from);
    free(to);
  }
  return status;
}

gs_status eval_view(eval *ev, gs_id id) {
  const gs_node *n = node_at(ev->g, id);
  value *y = &ev->of[id];
  const value *a = &ev->of[n->arg[0]];
  if (n->op == GS_OP_JOIN) return eval_join(ev, id);
  if (n->op == GS_OP_PICK && n->index >= size_of(ev, n->dim[0]))
    return gs_fail(ev->err, GS_ERR_USE,
                   "pick of index %" PRId64 " along %s, whose size is %" PRId64, n->index,
                   ev->g->dims[n->dim[0]].name, size_of(ev, n->dim[0]));
  axis ax[GS_MAX_DIMS];
  int count = 0;
  for (int d = 0; d < ev->g->ndims; d++)
    if (has(n->dims, d)) ax[count++] = view_axis(ev, n, a->dims, d);
  bool offset = n->op == GS_OP_PICK || n->op == GS_OP_SLICE;
  size_t base = offset ? (size_t)(n->index * stride_of(ev, a->dims, n->dim[0])) : 0;
  gs_status status = a->e ? need_errors(ev, y) : GS_OK;
  size_t *from = status == GS_OK ? offsets(ev, ax, count, base) : NULL;
  size_t *past = NULL;
  status = from ? cut_tail(ev, n, y->count, from, &past) : GS_ERR_MEMORY;
  if (status == GS_OK) copy_elements(a, from, y, NULL, y->count);
  for (size_t i = 0; past && status == GS_OK && i < y->count; i++) {
    if (!past[i]) continue;
    y->own_v[i] = 0;
    if (y->own_e) y->own_e[i] = 0;
  }
  free(from);
  free(past);
  return status;
}

/* ---- gathers ---- */

static const char *tensor_name(const eval *ev, gs_id id) {
  const gs_node *n = node_at(ev->g, id);
  return n->op == GS_OP_INPUT ? ev->g->tensors[n->index].name : "the index";
}

/* "label[T=3] is 7, but ..." for element o of the index. */
static gs_status out_of_range(const eval *ev, const gs_node *n, size_t o, double v) {
  const value *i = &ev->of[n->arg[1]];
  char where[256] = "";
  size_t len = 0;
  for (int d = 0; d < ev->g->ndims && len + 1 < sizeof where; d++) {
    if (!has(i->dims, d)) continue;
    size_t at = o / (size_t)stride_of(ev, i->dims, d) % (size_t)size_of(ev, d);
    int put = snprintf(where + len, sizeof where - len, "%s%s=%zu", len ? ", " : "",
                       ev->g->dims[d].name, at);
    len += (size_t)put;
  }
  return gs_fail(ev->err, GS_ERR_INPUT,
                 "%s[%s] is %.0f, but along %s an index from 0 to %" PRId64 " is legal",
                 tensor_name(ev, n->arg[1]), where, v, ev->g->dims[n->dim[0]].name,
                 size_of(ev, n->dim[0]) - 1);
}

static double error_at(const value *a, size_t o) {
  return a->e ? a->e[o] : 0;
}

/* Element i of AT: offsets of the value (at index 0), the index, and the guard. */
static gs_status at_element(eval *ev, gs_id id, size_t i, const size_t *o, int64_t step) {
  const gs_node *n = node_at(ev->g, id);
  value *y = &ev->of[id];
  const value *e = &ev->of[n->arg[0]], *key = &ev->of[n->arg[1]];
  const value *ok = n->nargs == 3 ? &ev->of[n->arg[2]] : NULL;
  bool guard = !ok || ok->v[o[2]] != 0;
  bool sure = !ok || error_at(ok, o[2]) == 0;
  double index = key->v[o[1]];
  bool inside = index >= 0 && index < (double)size_of(ev, n->dim[0]);
  y->own_v[i] = y->own_e[i] = 0;
  if (!guard && sure) return GS_OK;
  if (!inside && guard) return out_of_range(ev, n, o[1], index);
  if (!inside) {
    y->own_e[i] = INFINITY;
    return GS_OK;
  }
  size_t from = o[0] + (size_t)((int64_t)index * step);
  double v = e->v[from], err = error_at(e, from);
  y->own_v[i] = guard ? v : 0;
  y->own_e[i] = error_at(key, o[1]) > 0 ? INFINITY : sure ? err : fabs(v) + err;
  return GS_OK;
}

static gs_status eval_at(eval *ev, gs_id id) {
  const gs_node *n = node_at(ev->g, id);
  value *y = &ev->of[id];
  axis ax[GS_MAX_DIMS];
  size_t *at[3] = {0};
  gs_status status = need_errors(ev, y);
  for (int k = 0; k < n->nargs && status == GS_OK; k++) {
    at[k] = offsets(ev, ax, axes_of(ev, n->dims, ev->of[n->arg[k]].dims, ax), 0);
    if (!at[k]) status = GS_ERR_MEMORY;
  }
  int64_t step = stride_of(ev, ev->of[n->arg[0]].dims, n->dim[0]);
  for (size_t i = 0; i < y->count && status == GS_OK && at[0] && at[1]; i++) {
    size_t o[3] = {at[0][i], at[1][i], at[2] ? at[2][i] : 0};
    status = at_element(ev, id, i, o, step);
  }
  for (int k = 0; k < 3; k++) free(at[k]);
  return status;
}

/* Adds every element to the place its key names; then turns magnitudes and counts into bounds. */
static void scatter(eval *ev, gs_id id, size_t *const *at, size_t n_terms, double *magnitude,
                    double *terms_of) {
  const gs_node *n = node_at(ev->g, id);
  value *y = &ev->of[id];
  const value *e = &ev->of[n->arg[0]], *key = &ev->of[n->arg[1]];
  double size = (double)size_of(ev, n->dim[1]);
  size_t step = (size_t)stride_of(ev, n->dims, n->dim[1]);
  for (size_t j = 0; j < n_terms; j++) {
    double k = key->v[at[1][j]];
    if (!(k >= 0 && k < size)) continue;
    size_t o = at[2][j] + (size_t)k * step;
    double x = e->v[at[0][j]], ex = error_at(e, at[0][j]);
    y->own_v[o] += x;
    y->own_e[o] += error_at(key, at[1][j]) > 0 ? INFINITY : ex;
    magnitude[o] += fabs(x) + ex;
    terms_of[o] += 1;
  }
  for (size_t o = 0; o < y->count; o++) {
    double factor = fmax(tree_factor((size_t)terms_of[o]), terms_of[o]);
    if (terms_of[o] > 1) y->own_e[o] += factor * UNIT * magnitude[o];
    if (magnitude[o] > F32_MAX || isnan(y->own_e[o])) y->own_e[o] = INFINITY;
  }
}

static gs_status eval_sum_by(eval *ev, gs_id id) {
  const gs_node *n = node_at(ev->g, id);
  value *y = &ev->of[id];
  axis ax[GS_MAX_DIMS];
  gs_dims space = work_dims(ev->g, n) | bit(n->dim[0]);
  gs_dims through[3] = {ev->of[n->arg[0]].dims, ev->of[n->arg[1]].dims, n->dims};
  size_t *at[3] = {0};
  double *magnitude = calloc(y->count + 1, sizeof *magnitude);
  double *terms_of = calloc(y->count + 1, sizeof *terms_of);
  gs_status status = need_errors(ev, y);
  if (!magnitude || !terms_of) status = no_memory(ev, y->count);
  for (int k = 0; k < 3 && status == GS_OK; k++) {
    at[k] = offsets(ev, ax, axes_of(ev, space, through[k], ax), 0);
    if (!at[k]) status = GS_ERR_MEMORY;
  }
  if (status == GS_OK) {
    memset(y->own_v, 0, sizeof(double) * y->count);
    memset(y->own_e, 0, sizeof(double) * y->count);
    scatter(ev, id, at, count_of(ev, space), magnitude, terms_of);
  }
  for (int k = 0; k < 3; k++) free(at[k]);
  free(magnitude);
  free(terms_of);
  return status;
}

gs_status eval_gather(eval *ev, gs_id id) {
  return node_at(ev->g, id)->op == GS_OP_AT ? eval_at(ev, id) : eval_sum_by(ev, id);
}
