/* math.c: the closed form against the adjoint and against central differences, in float64. Saved
 * values stand for their forward expressions; `stop` is held at the base point. A forward that the
 * adjoint cannot pass, for a reduction by the author's own step, is held against differences alone.
 * What backward can make again of an output is held against the forward's expression. */
#include "check/case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GRADS = 32, LEAST_POINTS = 1, DIFFERENCE_POINTS = 12, STEPS = 5 };

/* What central differences may compute of one case: some seconds, whatever the sizes asked for. */
#define MOST_WORK 2e8

typedef struct maths {
  gs_case *c;
  gs_graph *g;
  int n;                 /* gradients */
  int tensor[MAX_GRADS]; /* the input that each belongs to */
  gs_id closed[MAX_GRADS], adjoint[MAX_GRADS];
  bool has_adjoint;
  int nagain; /* outputs that backward can make again */
  gs_id again[MAX_GRADS];
  int ny;
  gs_id y[MAX_GRADS], dy[MAX_GRADS];
} maths;

static int tensor_named(const gs_graph *g, const char *name) {
  for (int t = 0; t < gs_graph_ntensors(g); t++)
    if (strcmp(gs_graph_tensor_at(g, t)->name, name) == 0) return t;
  return -1;
}

static void unsave(maths *m) {
  gs_id from[GS_MAX_DIMS], to[GS_MAX_DIMS];
  int n = 0;
  for (int t = 0; t < m->c->ntensors && n < GS_MAX_DIMS; t++) {
    gs_role role = gs_graph_tensor_at(m->g, t)->role;
    if (role != GS_ROLE_SAVED && role != GS_ROLE_OUTPUT) continue;
    from[n] = gs_input(m->g, t);
    to[n++] = m->c->i->saved_expr[t];
  }
  /* A saved expression may itself be written in terms of an output: replace until none is left. */
  for (int k = 0; k < 3 && n; k++) {
    gs_substitute(m->g, from, to, n, m->closed, m->n);
    gs_substitute(m->g, from, to, n, m->again, m->nagain);
  }
}

/* Whether the graph has a reduction that the adjoint cannot pass. */
static bool has_fold(const gs_graph *g) {
  for (gs_id id = 1; id < gs_graph_size(g); id++)
    if (gs_graph_node(g, id)->op == GS_OP_FOLD) return true;
  return false;
}

static gs_status collect(maths *m, gs_error *err) {
  const gs_instance *i = m->c->i;
  for (int k = 0; k < i->nbackward && m->n < MAX_GRADS; k++) {
    m->tensor[m->n] = tensor_named(m->g, i->backward[k].name + 1);
    m->closed[m->n++] = i->backward[k].expr;
  }
  for (int k = 0; k < i->nforward && m->ny < MAX_GRADS; k++) {
    char name[128];
    snprintf(name, sizeof name, "d%s", i->forward[k].name);
    int t = tensor_named(m->g, name);
    if (i->forward[k].is_saved || t < 0) continue;
    m->y[m->ny] = i->forward[k].expr;
    m->dy[m->ny++] = gs_input(m->g, t);
  }
  for (int k = 0; k < i->nrecomputed && m->nagain < MAX_GRADS; k++)
    m->again[m->nagain++] = i->recomputed[k].expr;
  unsave(m);
  gs_id x[MAX_GRADS];
  for (int k = 0; k < m->n; k++) x[k] = gs_input(m->g, m->tensor[k]);
  gs_status st = gs_adjoint(m->g, m->y, m->dy, m->ny, x, m->n, m->adjoint, err);
  m->has_adjoint = st == GS_OK;
  return st != GS_OK && has_fold(m->g) ? GS_OK : st;
}

/* The first place at which two arrays differ by more than float64 explains. */
typedef struct difference {
  bool found;
  int64_t at;
  double a, b, bound;
  int points; /* compared */
} difference;

static gs_status find_difference(const gs_case *c, const gs_array *x, const gs_array *y,
                                 const int *dim, int ndims, difference *d, gs_error *err) {
  int64_t n = gs_case_count(c, dim, ndims);
  double *a = gs_case_order(c, x, x->v, dim, ndims), *b = gs_case_order(c, y, y->v, dim, ndims);
  double *ea = gs_case_order(c, x, x->err, dim, ndims);
  double *eb = gs_case_order(c, y, y->err, dim, ndims);
  gs_status st = a && b && ea && eb ? GS_OK : gs_fail(err, GS_ERR_MEMORY, "check: out of memory");
  *d = (difference){.points = 0};
  for (int64_t i = 0; st == GS_OK && i < n && !d->found; i++) {
    /* err bounds f32 arithmetic (2^-24); float64 is 2^-29 of that, with room for the order of sums.
     */
    double bound = 0x1p-26 * (ea[i] + eb[i]) + 1e-300;
    if (!isfinite(bound) || !isfinite(b[i])) continue;
    d->points++;
    if (fabs(a[i] - b[i]) <= bound) continue;
    *d = (difference){true, i, a[i], b[i], bound, d->points};
  }
  free(a);
  free(b);
  free(ea);
  free(eb);
  return st;
}

static gs_status wrong(const maths *m, int k, int64_t at, const char *against, double closed,
                       double other, double bound, gs_error *err) {
  const gs_tensor *x = gs_graph_tensor_at(m->g, m->tensor[k]);
  char index[128];
  gs_case_index(m->c, x->dim, x->ndims, at, index, sizeof index);
  return gs_fail(err, GS_ERR_CHECK,
                 "%s: gradient d%s is wrong at [%s]: the closed form gives %.10g, %s %.10g "
                 "(float64, allowed difference %.2g); sizes %s",
                 gs_layer_declaration(m->c->i->layer)->name, x->name, index, closed, against, other,
                 bound, m->c->label);
}

static gs_status compare(const maths *m, int k, const gs_array *closed, const gs_array *adjoint,
                         gs_check_report *rep, gs_error *err) {
  const gs_tensor *x = gs_graph_tensor_at(m->g, m->tensor[k]);
  difference d;
  gs_status st = find_difference(m->c, closed, adjoint, x->dim, x->ndims, &d, err);
  if (st == GS_OK && d.found) st = wrong(m, k, d.at, "the adjoint", d.a, d.b, d.bound, err);
  rep->math_points += d.points;
  return st;
}

/* What backward makes again of an output must be that output. */
static gs_status compare_again(const maths *m, int k, const gs_env *env, gs_check_report *rep,
                               gs_error *err) {
  const gs_result *r = &m->c->i->recomputed[k], *f = NULL;
  for (int j = 0; j < m->c->i->nforward; j++)
    if (strcmp(m->c->i->forward[j].name, r->name) == 0) f = &m->c->i->forward[j];
  if (!f) return gs_fail(err, GS_ERR_CHECK, "'%s' is no output to make again", r->name);
  gs_id roots[2] = {m->again[k], f->expr};
  gs_array arrays[2] = {0};
  difference d = {.points = 0};
  gs_status st = gs_eval(m->g, roots, 2, env, arrays, err);
  if (st == GS_OK) st = find_difference(m->c, &arrays[0], &arrays[1], r->dim, r->ndims, &d, err);
  if (st == GS_OK && d.found) {
    char index[128];
    gs_case_index(m->c, r->dim, r->ndims, d.at, index, sizeof index);
    st = gs_fail(err, GS_ERR_CHECK,
                 "%s: what backward makes again of '%s' is wrong at [%s]: %.10g, but the forward "
                 "gives %.10g (float64, allowed difference %.2g); sizes %s",
                 gs_layer_declaration(m->c->i->layer)->name, r->name, index, d.a, d.b, d.bound,
                 m->c->label);
  }
  rep->math_points += d.points;
  for (int j = 0; j < 2; j++) gs_array_free(&arrays[j]);
  return st;
}

/* ---- central differences ---- */

/* L = sum over everything of dy*y, with every `stop` replaced by its value at the base point. */
static gs_status objective(maths *m, gs_id *root, double ***tensor, gs_error *err) {
  gs_id sum = gs_const(m->g, 0);
  for (int k = 0; k < m->ny; k++) {
    gs_id p = gs_op2(m->g, GS_OP_MUL, m->y[k], m->dy[k]);
    gs_dims dims = gs_graph_node(m->g, p)->dims;
    if (dims) p = gs_reduce(m->g, GS_OP_SUM, p, dims);
    sum = gs_op2(m->g, GS_OP_ADD, sum, p);
  }
  *root = sum;
  int total = m->c->ntensors + 64, used = m->c->ntensors;
  *tensor = calloc((size_t)total, sizeof **tensor);
  if (!*tensor) return gs_fail(err, GS_ERR_MEMORY, "check: out of host memory");
  memcpy(*tensor, m->c->tensor, sizeof **tensor * (size_t)m->c->ntensors);
  gs_env env = {m->c->sizes, (const double *const *)*tensor};
  for (gs_id id = 1; id < gs_graph_size(m->g) && used < total; id++) {
    gs_node n = *gs_graph_node(m->g, id);
    if (n.op != GS_OP_STOP) continue;
    gs_tensor held = {.name = "stop", .role = GS_ROLE_INPUT, .type = GS_F32};
    for (int d = 0; d < GS_MAX_DIMS && held.ndims < GS_MAX_RANK; d++)
      if (n.dims >> d & 1) held.dim[held.ndims++] = d;
    gs_array a;
    gs_status st = gs_eval(m->g, &id, 1, &env, &a, err);
    if (st != GS_OK) return st;
    while (gs_graph_ntensors(m->g) < used) gs_graph_tensor(m->g, &held);
    int t = gs_graph_tensor(m->g, &held);
    (*tensor)[t] = a.v;
    free(a.err);
    used = t + 1;
    gs_id to = gs_input(m->g, t);
    gs_substitute(m->g, &id, &to, 1, root, 1);
  }
  return GS_OK;
}

static double value_at(const maths *m, gs_id root, double *const *tensor, double *x, double to) {
  gs_env env = {m->c->sizes, (const double *const *)tensor};
  gs_array a;
  double kept = *x, v = NAN;
  *x = to;
  if (gs_eval(m->g, &root, 1, &env, &a, NULL) == GS_OK) {
    v = a.v[0];
    gs_array_free(&a);
  }
  *x = kept;
  return v;
}

/* Values that one evaluation of `root` computes. Arguments stand before what reads them. */
static double work_of(const maths *m, gs_id root) {
  bool *read = calloc((size_t)root + 1, sizeof *read);
  int64_t sizes[GS_MAX_DIMS];
  double work = 0;
  if (!read) return INFINITY;
  memcpy(sizes, m->c->sizes, sizeof sizes);
  gs_graph_sizes(m->g, sizes); /* also of dims that the objective has brought */
  read[root] = true;
  for (gs_id id = root; id >= 1; id--) {
    if (!read[id]) continue;
    const gs_node *n = gs_graph_node(m->g, id);
    double count = 1;
    for (int k = 0; k < n->nargs; k++) read[n->arg[k]] = true;
    for (int d = 0; d < GS_MAX_DIMS; d++)
      if (n->dims >> d & 1) count *= (double)sizes[d];
    work += count;
  }
  free(read);
  return work;
}

/* Points of each gradient: fewer where one evaluation is long. */
static int points_of(const maths *m, gs_id root) {
  double n = MOST_WORK / (work_of(m, root) * STEPS * m->n);
  return (int)fmax(LEAST_POINTS, fmin(DIFFERENCE_POINTS, n));
}

/* Richardson's extrapolation from steps h and 2h; *spread estimates its error. A kink within 2h at
 * distance p makes it J*p/4h, and the second differences disagree by J*(1 - 3p/2h): one of the two
 * shows it wherever it lies, also where it is right at the point. */
static double slope(const maths *m, gs_id root, double *const *tensor, double *x, double *spread) {
  double h = 1e-4 * fmax(1, fabs(*x)), base = *x, v[STEPS];
  for (int k = 0; k < STEPS; k++) v[k] = value_at(m, root, tensor, x, base + (k - 2) * h);
  double d1 = (v[3] - v[1]) / (2 * h), d2 = (v[4] - v[0]) / (4 * h);
  double bend1 = (v[3] - 2 * v[2] + v[1]) / h, bend2 = (v[4] - 2 * v[2] + v[0]) / (2 * h);
  *spread = fabs(d1 - d2) + fabs(2 * bend1 - bend2);
  return d1 + (d1 - d2) / 3;
}

static gs_status differences(maths *m, int k, const gs_array *closed, gs_id root, double **tensor,
                             gs_rng *r, gs_check_report *rep, gs_error *err) {
  const gs_tensor *x = gs_graph_tensor_at(m->g, m->tensor[k]);
  int64_t n = gs_case_count(m->c, x->dim, x->ndims);
  double *a = gs_case_order(m->c, closed, closed->v, x->dim, x->ndims), scale = 0;
  gs_status st = a ? GS_OK : gs_fail(err, GS_ERR_MEMORY, "check: out of host memory");
  for (int64_t i = 0; a && i < n; i++) scale = fmax(scale, fabs(a[i]));
  double total = fabs(value_at(m, root, tensor, &tensor[m->tensor[k]][0], tensor[m->tensor[k]][0]));
  int points = points_of(m, root);
  for (int p = 0; st == GS_OK && p < points && p < n; p++) {
    int64_t i = n <= points ? p : gs_rng_below(r, n);
    double spread, d = slope(m, root, tensor, &tensor[m->tensor[k]][i], &spread);
    if (!isfinite(d) || spread > 1e-3 * (scale + 1e-30)) continue; /* a kink lies near */
    double bound = spread + 1e-6 * scale + 1e-10 * total + 1e-12;
    if (!(fabs(a[i] - d) <= bound)) st = wrong(m, k, i, "central differences", a[i], d, bound, err);
    rep->difference_points++;
  }
  free(a);
  return st;
}

/* ---- all of it ---- */

gs_status gs_check_math(gs_case *c, gs_rng *r, gs_check_report *rep, gs_error *err) {
  maths m = {.c = c, .g = c->i->g};
  gs_array arrays[2 * MAX_GRADS] = {0};
  double **tensor = NULL;
  gs_id root = 0, roots[2 * MAX_GRADS];
  if (c->i->nbackward == 0) return GS_OK;
  rep->has_gradient = true;
  gs_status st = collect(&m, err);
  if (st != GS_OK) return st;
  int narrays = m.has_adjoint ? 2 * m.n : m.n;
  rep->has_adjoint = m.has_adjoint;
  memcpy(roots, m.closed, sizeof *roots * (size_t)m.n);
  memcpy(roots + m.n, m.adjoint, sizeof *roots * (size_t)m.n);
  gs_env env = {c->sizes, (const double *const *)c->tensor};
  st = gs_eval(m.g, roots, narrays, &env, arrays, err);
  if (st != GS_OK) return st;
  for (int k = 0; st == GS_OK && m.has_adjoint && k < m.n; k++)
    st = compare(&m, k, &arrays[k], &arrays[m.n + k], rep, err);
  for (int k = 0; st == GS_OK && k < m.nagain; k++) st = compare_again(&m, k, &env, rep, err);
  if (st == GS_OK && c->mood == GS_MOOD_ORDINARY) st = objective(&m, &root, &tensor, err);
  for (int k = 0; st == GS_OK && root && k < m.n; k++)
    st = differences(&m, k, &arrays[k], root, tensor, r, rep, err);
  for (int t = c->ntensors; tensor && t < gs_graph_ntensors(m.g); t++) free(tensor[t]);
  free(tensor);
  for (int k = 0; k < narrays; k++) gs_array_free(&arrays[k]);
  return st;
}
