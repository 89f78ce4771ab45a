/* uses: gs_graph */
/* The adjoint against central differences in float64, on random graphs over all operations. */
#include "graph_case.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

typedef struct probe {
  graph_case *c;
  gs_id root, frozen; /* frozen: STOP is held at the base point */
  double *up;         /* upstream, over the dims of the root */
  long checked, skipped;
} probe;

/* Sum of upstream times output. */
static double objective(probe *p) {
  gs_array y;
  gs_env env = case_env(p->c);
  if (gs_eval(p->c->g, &p->frozen, 1, &env, &y, NULL) != GS_OK) return NAN;
  gs_dims up_dims = gs_graph_node(p->c->g, p->root)->dims;
  cr_assert(y.dims == up_dims);
  double s = 0;
  for (size_t i = 0; i < y.count; i++) s += p->up[i] * y.v[i];
  gs_array_free(&y);
  return s;
}

/* Replaces every STOP below the root by a tensor that holds its value at the base point. */
static void freeze_stops(probe *p) {
  graph_case *c = p->c;
  gs_id from[POOL], to[POOL];
  int n = 0;
  gs_id size = gs_graph_size(c->g);
  for (gs_id id = 1; id < size && n < POOL; id++) {
    const gs_node *s = gs_graph_node(c->g, id);
    if (s->op != GS_OP_STOP || gs_graph_ntensors(c->g) == TENSORS - 2) continue;
    gs_array y;
    gs_env env = case_env(c);
    if (gs_eval(c->g, &id, 1, &env, &y, NULL) != GS_OK) continue;
    gs_tensor t = {.name = "stopped", .type = GS_F32};
    for (int d = 0; d < gs_graph_ndims(c->g); d++)
      if (s->dims >> d & 1) t.dim[t.ndims++] = d;
    int i = gs_graph_tensor(c->g, &t);
    c->data[i] = y.v;
    free(y.err);
    from[n] = id;
    to[n++] = gs_input(c->g, i);
  }
  p->frozen = p->root;
  gs_substitute(c->g, from, to, n, &p->frozen, 1);
}

/* got: the adjoint's element; unsure: its error bound in f32, large where a tie hangs by a bit. */
static void check_element(probe *p, double *x, double got, double unsure, const char *what) {
  double base = *x, h = 2e-4, d[2], here = objective(p), scale = fabs(here), bend = 0;
  for (int k = 0; k < 2; k++, h /= 2) {
    *x = base + h;
    double high = objective(p);
    *x = base - h;
    double low = objective(p);
    d[k] = (high - low) / (2 * h);
    bend = fmax(bend, fabs(high + low - 2 * here) / h); /* of order one at a kink or a jump */
  }
  *x = base;
  double want = (4 * d[1] - d[0]) / 3, doubt = fabs(d[1] - d[0]) + 1e-11 * scale;
  bool usable = isfinite(want) && isfinite(got) && doubt < 1e-3 * (1 + fabs(want)) &&
                bend < 0.05 * (1 + fabs(want)) && unsure < 0.05 * (1 + fabs(want));
  if (!usable) {
    p->skipped++;
    return;
  }
  p->checked++;
  if (fabs(got - want) <= 1e-6 * (1 + fabs(want)) + 2 * doubt) return;
  case_print(p->c, p->root);
  cr_fail("derivative by %s: adjoint %.12g, central difference %.12g", what, got, want);
}

/* Where the element of a gradient, possibly broadcast, that belongs to element i of tensor t is. */
static size_t gradient_at(graph_case *c, const gs_tensor *t, const gs_array *d, size_t i) {
  size_t o = 0, step = 1;
  int64_t at[GS_MAX_DIMS] = {0};
  for (int k = t->ndims - 1; k >= 0; k--) {
    at[t->dim[k]] = (int64_t)(i % (size_t)c->sizes[t->dim[k]]);
    i /= (size_t)c->sizes[t->dim[k]];
  }
  for (int k = gs_graph_ndims(c->g) - 1; k >= 0; k--) {
    if (!(d->dims >> k & 1)) continue;
    o += step * (size_t)at[k];
    step *= (size_t)c->sizes[gs_graph_dim_root(c->g, k)];
  }
  return o;
}

static void check_root(graph_case *c, gs_id root, bool simplify, long *checked, long *skipped) {
  probe p = {.c = c, .root = root};
  gs_error err = {0};
  gs_tensor up = {.name = "dy", .role = GS_ROLE_UPSTREAM, .type = GS_F32};
  size_t count = 1;
  gs_dims dims = gs_graph_node(c->g, root)->dims;
  if (__builtin_popcountll(dims) > GS_MAX_RANK) return;
  for (int d = 0; d < gs_graph_ndims(c->g); d++)
    if (dims >> d & 1) {
      up.dim[up.ndims++] = d;
      count *= (size_t)c->sizes[gs_graph_dim_root(c->g, d)];
    }
  if (gs_graph_ntensors(c->g) >= TENSORS - 2) return;
  int ui = gs_graph_tensor(c->g, &up);
  p.up = c->data[ui] = malloc(sizeof(double) * count);
  for (size_t i = 0; i < count; i++) p.up[i] = 2 * uniform(c) - 1;
  gs_id dy = gs_input(c->g, ui), d[4];
  cr_assert(eq(int, gs_adjoint(c->g, &root, &dy, 1, c->x, c->nx, d, &err), GS_OK));
  if (simplify) gs_simplify(c->g, d, c->nx);
  if (gs_verify(c->g, d, c->nx, &err) != GS_OK) cr_fail("%s", err.message);
  freeze_stops(&p);
  gs_array grad[4];
  gs_env env = case_env(c);
  if (gs_eval(c->g, d, c->nx, &env, grad, &err) != GS_OK) cr_fail("%s", err.message);
  for (int j = 0; j < c->nx; j++) {
    int ti = (int)gs_graph_node(c->g, c->x[j])->index;
    const gs_tensor t = *gs_graph_tensor_at(c->g, ti);
    for (int d2 = 0; d2 < gs_graph_ndims(c->g); d2++) /* no dims beyond the input's */
      if (grad[j].dims >> d2 & 1) {
        bool found = false;
        for (int k = 0; k < t.ndims; k++) found |= t.dim[k] == d2;
        cr_assert(found, "d%s depends on a dim that %s lacks", t.name, t.name);
      }
    for (size_t i = 0; i < tensor_count(c, &t); i++) {
      size_t o = gradient_at(c, &t, &grad[j], i);
      check_element(&p, &c->data[ti][i], grad[j].v[o], grad[j].err[o], t.name);
    }
    gs_array_free(&grad[j]);
  }
  *checked += p.checked;
  *skipped += p.skipped;
}

static void random_adjoints(bool simplify, int rounds) {
  long checked = 0, skipped = 0;
  for (int k = 0; k < rounds; k++) {
    graph_case c;
    case_begin(&c, fresh_seed(k), true);
    case_grow(&c, 35);
    int n = c.n;
    for (int i = 0; i < 4 && n > 6; i++)
      check_root(&c, c.pool[n - 1 - i], simplify, &checked, &skipped);
    case_end(&c);
  }
  cr_assert(checked > 20 * rounds && skipped < checked / 5, "%ld checked, %ld skipped", checked,
            skipped);
}

Test(adjoint, agrees_with_central_differences) {
  random_adjoints(false, 60);
}
Test(adjoint, agrees_when_simplified) {
  random_adjoints(true, 60);
}

/* One view or operation after another, alone, so that none hides behind chance. */
Test(adjoint, each_operation_alone) {
  long checked = 0, skipped = 0;
  for (int k = 0; k < 12; k++) {
    graph_case c;
    case_begin(&c, fresh_seed(k), true);
    for (int step = 0; step < 40; step++) {
      int before = c.n;
      keep(&c, step % 4 == 0   ? case_view(&c)
               : step % 4 == 1 ? case_gather(&c)
               : step % 4 == 2 ? case_reduce(&c)
                               : case_where(&c));
      if (c.n > before) check_root(&c, c.pool[c.n - 1], false, &checked, &skipped);
      c.n = before; /* the next starts from the inputs again */
    }
    case_end(&c);
  }
  cr_assert(checked > 400, "%ld checked, %ld skipped", checked, skipped);
}

typedef struct small {
  gs_arena *a;
  gs_graph *g;
  int T, H;
  gs_id x, y;
} small;

static small small_begin(void) {
  small s = {.a = gs_arena_new()};
  s.g = gs_graph_new(s.a);
  s.T = gs_graph_dim(s.g, "T", -1);
  s.H = gs_graph_dim(s.g, "H", 3);
  gs_tensor t = {.name = "x", .type = GS_F32, .ndims = 2, .dim = {s.T, s.H}};
  s.x = gs_input(s.g, gs_graph_tensor(s.g, &t));
  return s;
}

static gs_array small_grad(small *s, gs_id y, const double *x) {
  gs_id dy = gs_const(s->g, 1), d;
  gs_array out;
  int64_t sizes[] = {2, 3};
  const double *tensors[] = {x};
  gs_env env = {sizes, tensors};
  gs_error err = {0};
  cr_assert(eq(int, gs_adjoint(s->g, &y, &dy, 1, &s->x, 1, &d, &err), GS_OK));
  cr_assert(eq(int, gs_eval(s->g, &d, 1, &env, &out, &err), GS_OK));
  return out;
}

Test(adjoint, extremes_share_among_ties) {
  small s = small_begin();
  double x[] = {2, 5, 5, 7, 7, 7};
  gs_array d = small_grad(&s, gs_reduce(s.g, GS_OP_RMAX, s.x, (gs_dims)1 << s.H), x);
  double want[] = {0, 0.5, 0.5, 1. / 3, 1. / 3, 1. / 3};
  for (int i = 0; i < 6; i++) cr_assert(ieee_ulp_eq(dbl, d.v[i], want[i], 4));
  gs_array_free(&d);
  d = small_grad(&s, gs_op2(s.g, GS_OP_MAX, s.x, gs_const(s.g, 5)), x);
  double half[] = {0, 0.5, 0.5, 1, 1, 1};
  for (int i = 0; i < 6; i++) cr_assert(eq(dbl, d.v[i], half[i]));
  gs_array_free(&d);
  gs_arena_free(s.a);
}

Test(adjoint, broadcast_upstream_counts_every_element) {
  small s = small_begin();
  double x[] = {1, 2, 3, 4, 5, 6};
  gs_id mean = gs_op2(s.g, GS_OP_DIV, gs_reduce(s.g, GS_OP_SUM, s.x, (gs_dims)3), gs_const(s.g, 6));
  gs_id y = gs_op2(s.g, GS_OP_MUL, gs_op1(s.g, GS_OP_STOP, s.x), mean); /* [T, H] */
  gs_array d = small_grad(&s, y, x);
  for (size_t i = 0; i < d.count; i++) cr_assert(ieee_ulp_eq(dbl, d.v[i], 21. / 6, 8));
  gs_array_free(&d);
  gs_id through = gs_op1(s.g, GS_OP_FLOOR, s.x);
  d = small_grad(&s, through, x);
  cr_assert(d.count == 1 && d.v[0] == 0);
  gs_array_free(&d);
  gs_arena_free(s.a);
}

/* An output of more dims than its value is constant along them: join({ a, a }, "j") is a. */
Test(adjoint, an_upstream_of_more_dims_is_summed) {
  small s = small_begin();
  gs_id y = gs_reduce(s.g, GS_OP_SUM, s.x, (gs_dims)1 << s.H), d;
  gs_id want = gs_reduce(s.g, GS_OP_SUM, s.x, (gs_dims)1 << s.H);
  cr_assert(eq(int, gs_adjoint(s.g, &y, &s.x, 1, &s.x, 1, &d, NULL), GS_OK));
  cr_expect(eq(int, d, want)); /* dy, here x itself, summed over H */
  gs_arena_free(s.a);
}

/* The gradient of a gather is a sum by key, not a comparison over the whole table. */
Test(adjoint, embedding_becomes_a_sum_by_key) {
  gs_arena *a = gs_arena_new();
  gs_graph *g = gs_graph_new(a);
  int T = gs_graph_dim(g, "T", -1), V = gs_graph_dim(g, "V", 11), H = gs_graph_dim(g, "H", 3);
  gs_tensor te = {.name = "E", .type = GS_BF16, .ndims = 2, .dim = {V, H}};
  gs_tensor ti = {.name = "id", .type = GS_I32, .ndims = 1, .dim = {T}};
  gs_tensor td = {.name = "dy", .type = GS_BF16, .ndims = 2, .dim = {T, H}};
  gs_id e = gs_input(g, gs_graph_tensor(g, &te)), i = gs_input(g, gs_graph_tensor(g, &ti));
  gs_id dy = gs_input(g, gs_graph_tensor(g, &td)), d;
  gs_node at = {.op = GS_OP_AT, .nargs = 2, .arg = {e, i}, .dim = {V}};
  gs_id y = gs_apply(g, &at, NULL);
  cr_assert(eq(int, gs_adjoint(g, &y, &dy, 1, &e, 1, &d, NULL), GS_OK));
  gs_text t = {0};
  gs_print_expr(g, d, &t);
  cr_assert(eq(str, t.s, "sum_by(dy, id, T, V)"));
  gs_text_free(&t);
  gs_arena_free(a);
}

/* A fold's derivative is not known: an error that says where, unless nothing real flows through. */
Test(adjoint, folds_are_refused) {
  small s = small_begin();
  gs_id e = gs_apply(s.g, &(gs_node){.op = GS_OP_ELEMENT, .type = GS_F32}, NULL);
  gs_id st = gs_apply(s.g, &(gs_node){.op = GS_OP_STATE, .type = GS_F32}, NULL);
  gs_id count = gs_apply(s.g, &(gs_node){.op = GS_OP_STATE, .index = 1, .type = GS_I64}, NULL);
  gs_id other = gs_apply(s.g, &(gs_node){.op = GS_OP_ELEMENT, .index = 1, .type = GS_I64}, NULL);
  gs_id sum = gs_op2(s.g, GS_OP_ADD, st, e);
  gs_fold f = {1,
               2,
               {GS_F32, GS_I64},
               {0},
               {sum, gs_op2(s.g, GS_OP_ADD, count, gs_const(s.g, 1))},
               {sum, gs_op2(s.g, GS_OP_ADD, count, other)}};
  gs_node n = {.op = GS_OP_FOLD, .nargs = 1, .arg = {s.x}, .rdims = (gs_dims)1 << s.H, .line = 7};
  n.index = gs_graph_fold(s.g, &f);
  gs_id total = gs_apply(s.g, &n, NULL), one = gs_const(s.g, 1), d;
  n.dim[0] = 1;
  gs_id number = gs_op1(s.g, GS_OP_REAL, gs_apply(s.g, &n, NULL));
  gs_error err = {0};
  cr_assert(eq(int, gs_adjoint(s.g, &total, &one, 1, &s.x, 1, &d, &err), GS_ERR_USE));
  cr_assert(strstr(err.message, "line 7 has no derivative") != NULL, "%s", err.message);
  gs_id stopped = gs_op2(s.g, GS_OP_MUL, gs_op1(s.g, GS_OP_STOP, total), number);
  gs_id y = gs_op2(s.g, GS_OP_MUL, stopped, s.x);
  cr_assert(eq(int, gs_adjoint(s.g, &y, &one, 1, &s.x, 1, &d, &err), GS_OK));
  gs_simplify(s.g, &d, 1);
  cr_assert(eq(int, d, stopped));
  gs_arena_free(s.a);
}

/* Random rounding passes the gradient; integers, tables and random numbers do not. */
Test(adjoint, rounding_passes_and_integers_do_not) {
  small s = small_begin();
  double x[] = {0.5, 1, 2, -3, 4, 5}, cuts[] = {0, 1};
  gs_id i = gs_op1(s.g, GS_OP_INTEGER, s.x);
  gs_node lookup = {.op = GS_OP_LOOKUP, .nargs = 1, .arg = {i}};
  gs_node bucket = {.op = GS_OP_BUCKET, .nargs = 1, .arg = {s.x}};
  lookup.index = bucket.index = gs_graph_table(s.g, cuts, 2);
  gs_id r = gs_apply(s.g, &(gs_node){.op = GS_OP_RAND, .nargs = 3, .arg = {i, i, i}}, NULL);
  gs_id flat[] = {gs_op1(s.g, GS_OP_REAL, i), gs_apply(s.g, &lookup, NULL), r,
                  gs_op1(s.g, GS_OP_REAL, gs_apply(s.g, &bucket, NULL))};
  for (int k = 0; k < 4; k++) {
    gs_array d = small_grad(&s, flat[k], x);
    for (size_t j = 0; j < d.count; j++) cr_assert(d.v[j] == 0);
    gs_array_free(&d);
  }
  gs_node round = {.op = GS_OP_ROUND_RAND, .nargs = 2, .arg = {s.x, r}, .to = GS_BF16};
  gs_array d = small_grad(&s, gs_apply(s.g, &round, NULL), x);
  for (size_t j = 0; j < d.count; j++) cr_assert(d.v[j] == 1);
  gs_array_free(&d);
  gs_arena_free(s.a);
}
