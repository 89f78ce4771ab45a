/* uses: gs_graph */
/* Simplification: each rule by what it prints, and values kept on random graphs. */
#include "graph_case.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

typedef struct fixture {
  gs_arena *a;
  gs_graph *g;
  int T, H, D, two, h;
  gs_id x, y, w, r, c, q;
} fixture;

static gs_id input(fixture *f, const char *name, int n, int d0, int d1) {
  gs_tensor t = {.name = name, .type = GS_F32, .ndims = n, .dim = {d0, d1}};
  return gs_input(f->g, gs_graph_tensor(f->g, &t));
}

static fixture begin(void) {
  fixture f = {.a = gs_arena_new()};
  f.g = gs_graph_new(f.a);
  f.T = gs_graph_dim(f.g, "T", -1);
  f.H = gs_graph_dim(f.g, "H", 100);
  f.D = gs_graph_dim(f.g, "D", 10);
  f.two = gs_graph_dim(f.g, "two", 2);
  f.h = gs_graph_dim(f.g, "h", 5);
  f.x = input(&f, "x", 2, f.T, f.H);
  f.y = input(&f, "y", 2, f.T, f.H);
  f.w = input(&f, "w", 1, f.H, 0);
  f.r = input(&f, "r", 1, f.T, 0);
  f.c = input(&f, "c", 1, f.T, 0);
  f.q = input(&f, "q", 2, f.T, f.D);
  return f;
}

static gs_id add(fixture *f, gs_id a, gs_id b) {
  return gs_op2(f->g, GS_OP_ADD, a, b);
}
static gs_id sub(fixture *f, gs_id a, gs_id b) {
  return gs_op2(f->g, GS_OP_SUB, a, b);
}
static gs_id mul(fixture *f, gs_id a, gs_id b) {
  return gs_op2(f->g, GS_OP_MUL, a, b);
}
static gs_id quo(fixture *f, gs_id a, gs_id b) {
  return gs_op2(f->g, GS_OP_DIV, a, b);
}
static gs_id fun(fixture *f, gs_op op, gs_id a) {
  return gs_op1(f->g, op, a);
}
static gs_id num(fixture *f, double v) {
  return gs_const(f->g, v);
}
static gs_id sum(fixture *f, gs_id a, int d) {
  gs_node n = {.op = GS_OP_SUM, .nargs = 1, .arg = {a}, .rdims = (gs_dims)1 << d};
  return gs_apply(f->g, &n, NULL);
}

static void expect(fixture *f, gs_id id, const char *want) {
  gs_text t = {0};
  gs_simplify(f->g, &id, 1);
  gs_print_expr(f->g, id, &t);
  cr_expect(eq(str, t.s, (char *)want));
  gs_text_free(&t);
}

Test(simplify, identities) {
  fixture f = begin();
  gs_id x = f.x, y = f.y, one = num(&f, 1), zero = num(&f, 0);
  expect(&f, add(&f, mul(&f, x, one), zero), "x");
  expect(&f, add(&f, mul(&f, x, zero), y), "y");
  expect(&f, fun(&f, GS_OP_NEG, fun(&f, GS_OP_NEG, x)), "x");
  expect(&f, sub(&f, x, x), "0");
  expect(&f, quo(&f, x, x), "1");
  expect(&f, gs_op2(f.g, GS_OP_POW, x, num(&f, 2)), "x^2");
  expect(&f, gs_op2(f.g, GS_OP_POW, x, num(&f, -0.5)), "rsqrt(x)");
  expect(&f, gs_op2(f.g, GS_OP_POW, x, num(&f, 2.5)), "x^2.5");
  expect(&f, mul(&f, num(&f, 2), mul(&f, x, num(&f, 3))), "6*x");
  expect(&f, add(&f, add(&f, x, num(&f, 2)), add(&f, y, num(&f, 3))), "x + y + 5");
  expect(&f, sub(&f, add(&f, x, y), x), "y");
  expect(&f, add(&f, x, x), "2*x");
  expect(&f, mul(&f, fun(&f, GS_OP_NEG, x), fun(&f, GS_OP_NEG, y)), "x*y");
  expect(&f, sub(&f, x, fun(&f, GS_OP_NEG, y)), "x + y");
  expect(&f, fun(&f, GS_OP_EXP, fun(&f, GS_OP_LOG, x)), "x");
  expect(&f, fun(&f, GS_OP_LOG, fun(&f, GS_OP_EXP, x)), "x");
  expect(&f, fun(&f, GS_OP_SQRT, mul(&f, x, x)), "abs(x)");
  expect(&f, quo(&f, one, add(&f, one, fun(&f, GS_OP_EXP, fun(&f, GS_OP_NEG, x)))), "sigmoid(x)");
  gs_arena_free(f.a);
}

Test(simplify, powers) {
  fixture f = begin();
  gs_id r = fun(&f, GS_OP_RSQRT, f.c), s = fun(&f, GS_OP_SQRT, f.c);
  expect(&f, mul(&f, r, r), "1/c");
  expect(&f, mul(&f, s, s), "c");
  expect(&f, mul(&f, r, s), "1");
  expect(&f, mul(&f, f.c, r), "sqrt(c)");
  expect(&f, quo(&f, f.x, fun(&f, GS_OP_SQRT, f.c)), "x*rsqrt(c)");
  expect(&f, mul(&f, r, mul(&f, r, r)), "rsqrt(c)/c");
  /* what gains nothing stays: the square of a shared product */
  gs_id n = mul(&f, f.x, f.y), square = mul(&f, n, n), before = square;
  gs_simplify(f.g, &square, 1);
  cr_expect(eq(int, square, before));
  gs_arena_free(f.a);
}

Test(simplify, what_varies_less_comes_first) {
  fixture f = begin();
  expect(&f, mul(&f, mul(&f, f.x, f.r), f.c), "x*r*c");
  expect(&f, add(&f, mul(&f, f.x, f.r), mul(&f, f.y, f.r)), "r*(x + y)");
  gs_arena_free(f.a);
}

Test(simplify, sums) {
  fixture f = begin();
  expect(&f, sum(&f, f.r, f.H), "100*r");
  expect(&f, sum(&f, mul(&f, f.x, f.r), f.H), "r*sum(x, H)");
  expect(&f, sum(&f, quo(&f, f.x, f.r), f.H), "sum(x, H)/r");
  expect(&f, sum(&f, fun(&f, GS_OP_NEG, f.x), f.H), "-sum(x, H)");
  expect(&f, sum(&f, sub(&f, f.x, f.r), f.H), "sum(x, H) - 100*r");
  expect(&f, sum(&f, add(&f, f.x, f.y), f.H), "sum(x + y, H)");
  expect(&f, quo(&f, sum(&f, f.x, f.H), num(&f, 100)), "mean(x, H)");
  gs_id ok = gs_op2(f.g, GS_OP_GT, f.r, num(&f, 0));
  expect(&f, sum(&f, gs_where(f.g, ok, f.x, num(&f, 0)), f.H), "where(r > 0, sum(x, H), 0)");
  gs_arena_free(f.a);
}

Test(simplify, conditions) {
  fixture f = begin();
  gs_id zero = num(&f, 0), ok = gs_op2(f.g, GS_OP_GT, f.r, zero);
  gs_id no = fun(&f, GS_OP_NOT, ok), yes = gs_op2(f.g, GS_OP_LT, num(&f, 1), num(&f, 2));
  expect(&f, gs_where(f.g, yes, f.x, f.y), "x");
  expect(&f, gs_where(f.g, no, f.x, f.y), "where(r > 0, y, x)");
  expect(&f, no, "r <= 0");
  gs_id inner = gs_where(f.g, ok, f.x, zero);
  expect(&f, gs_where(f.g, ok, fun(&f, GS_OP_EXP, inner), zero), "where(r > 0, exp(x), 0)");
  expect(&f, add(&f, inner, gs_where(f.g, ok, f.y, zero)), "where(r > 0, x + y, 0)");
  gs_arena_free(f.a);
}

static gs_id view(fixture *f, gs_op op, gs_id a, int d0, int d1, int d2, int64_t index) {
  gs_node n = {.op = op, .nargs = 1, .arg = {a}, .dim = {d0, d1, d2}, .index = index};
  return gs_apply(f->g, &n, NULL);
}

Test(simplify, views) {
  fixture f = begin();
  gs_id s = view(&f, GS_OP_SPLIT, f.q, f.D, f.two, f.h, 0);
  gs_id a = view(&f, GS_OP_PICK, s, f.two, -1, -1, 0);
  gs_id b = view(&f, GS_OP_PICK, s, f.two, -1, -1, 1);
  gs_node jn = {.op = GS_OP_JOIN, .nargs = 2, .arg = {a, b}, .dim = {f.two}};
  gs_id same = gs_apply(f.g, &jn, NULL);
  expect(&f, same, "split(q, D, two, h)");
  expect(&f, view(&f, GS_OP_MERGE, same, f.D, f.two, f.h, 0), "q");
  jn.arg[0] = b;
  jn.arg[1] = a;
  gs_id swapped = gs_apply(f.g, &jn, NULL);
  expect(&f, view(&f, GS_OP_PICK, fun(&f, GS_OP_EXP, swapped), f.two, -1, -1, 0),
         "exp(split(q, D, two, h)[two=1])");
  gs_id merged = view(&f, GS_OP_MERGE, fun(&f, GS_OP_TANH, s), f.D, f.two, f.h, 0);
  expect(&f, merged, "tanh(q)");
  gs_arena_free(f.a);
}

Test(simplify, rotary_gradient_is_a_rotation) {
  fixture f = begin();
  gs_id c = input(&f, "cos", 2, f.T, f.h), s = input(&f, "sin", 2, f.T, f.h);
  gs_id dq = input(&f, "dq", 2, f.T, f.D), d;
  gs_id halves = view(&f, GS_OP_SPLIT, f.q, f.D, f.two, f.h, 0);
  gs_id a = view(&f, GS_OP_PICK, halves, f.two, -1, -1, 0);
  gs_id b = view(&f, GS_OP_PICK, halves, f.two, -1, -1, 1);
  gs_node j = {.op = GS_OP_JOIN, .nargs = 2, .dim = {f.two}};
  j.arg[0] = sub(&f, mul(&f, a, c), mul(&f, b, s));
  j.arg[1] = add(&f, mul(&f, b, c), mul(&f, a, s));
  gs_id y = view(&f, GS_OP_MERGE, gs_apply(f.g, &j, NULL), f.D, f.two, f.h, 0);
  cr_assert(eq(int, gs_adjoint(f.g, &y, &dq, 1, &f.q, 1, &d, NULL), GS_OK));
  gs_simplify(f.g, &d, 1);
  const gs_node *m = gs_graph_node(f.g, d);
  cr_expect(m->op == GS_OP_MERGE && gs_graph_node(f.g, m->arg[0])->op == GS_OP_JOIN);
  gs_arena_free(f.a);
}

Test(simplify, norm_gradient_is_as_short_as_by_hand) {
  fixture f = begin();
  gs_id mean = quo(&f, sum(&f, mul(&f, f.x, f.x), f.H), num(&f, 100)), d;
  gs_id rstd = fun(&f, GS_OP_RSQRT, add(&f, mean, num(&f, 1e-6)));
  gs_id y = mul(&f, f.w, mul(&f, f.x, rstd)), dy = f.y;
  cr_assert(eq(int, gs_adjoint(f.g, &y, &dy, 1, &f.x, 1, &d, NULL), GS_OK));
  gs_id g = mul(&f, dy, f.w);
  gs_id dot = quo(&f, sum(&f, mul(&f, f.x, g), f.H), num(&f, 100));
  gs_id by_hand = mul(&f, rstd, sub(&f, g, mul(&f, mul(&f, f.x, mul(&f, rstd, rstd)), dot)));
  int64_t sizes[GS_MAX_DIMS] = {1000};
  gs_simplify(f.g, &d, 1);
  double derived = gs_flops(f.g, &d, 1, sizes), hand = gs_flops(f.g, &by_hand, 1, sizes);
  cr_expect(derived <= hand, "%g flops beside %g", derived, hand);
  gs_arena_free(f.a);
}

Test(simplify, stored_types_make_rounding_needless) {
  fixture f = begin();
  gs_tensor t = {.name = "b", .type = GS_BF16, .ndims = 2, .dim = {f.T, f.D}};
  gs_id b = gs_input(f.g, gs_graph_tensor(f.g, &t));
  gs_node r = {.op = GS_OP_ROUND, .nargs = 1, .arg = {b}, .to = GS_BF16};
  expect(&f, gs_apply(f.g, &r, NULL), "b");
  r.arg[0] = f.x;
  gs_id once = gs_apply(f.g, &r, NULL);
  r.arg[0] = once;
  cr_expect(eq(int, gs_apply(f.g, &r, NULL), once));
  r.arg[0] = num(&f, 1.5);
  cr_expect(eq(int, gs_apply(f.g, &r, NULL), num(&f, 1.5)));
  r.arg[0] = num(&f, 0.1);
  cr_expect(ne(int, gs_apply(f.g, &r, NULL), num(&f, 0.1)));
  gs_arena_free(f.a);
}

/* A value used twice at each of many levels has far more paths than nodes. */
Test(simplify, shared_values_cost_no_more_than_their_nodes, .timeout = 20) {
  fixture f = begin();
  gs_id p = f.x, s = f.x, m = f.x;
  for (int i = 0; i < 50; i++) {
    p = mul(&f, p, p);
    s = add(&f, s, mul(&f, s, f.w));
    m = gs_op2(f.g, GS_OP_MAX, fun(&f, GS_OP_TANH, m), m);
  }
  gs_id roots[] = {p,
                   s,
                   m,
                   sum(&f, p, f.H),
                   sum(&f, s, f.H),
                   gs_where(f.g, gs_op2(f.g, GS_OP_LT, f.x, f.y), m, p)};
  gs_simplify(f.g, roots, 6);
  cr_assert(gs_graph_size(f.g) < 20000, "%d nodes", (int)gs_graph_size(f.g));
  gs_arena_free(f.a);
}

/* ---- conditions ---- */

static gs_id index_of(fixture *f, int d) {
  return gs_apply(f->g, &(gs_node){.op = GS_OP_INDEX, .dim = {d}}, NULL);
}
static gs_id integer(fixture *f, const char *name, int d) {
  gs_tensor t = {.name = name, .type = GS_I64, .ndims = 1, .dim = {d}};
  return gs_input(f->g, gs_graph_tensor(f->g, &t));
}
static gs_id masked(fixture *f, gs_id c, gs_id a) {
  return gs_where(f->g, c, a, num(f, 0));
}

Test(simplify, conditions_are_factors) {
  fixture f = begin();
  gs_id label = integer(&f, "label", f.T), ok = gs_op2(f.g, GS_OP_NE, label, num(&f, -100));
  gs_id hot = gs_op2(f.g, GS_OP_EQ, index_of(&f, f.H), label), e = fun(&f, GS_OP_EXP, f.x);
  gs_id d = masked(&f, ok, f.r);
  gs_id minus = masked(&f, hot, masked(&f, ok, fun(&f, GS_OP_NEG, f.r)));
  expect(&f, add(&f, minus, mul(&f, e, d)),
         "exp(x)*where(label != -100, r, 0) - where(label == index(H), where(label != -100, r, 0), "
         "0)");
  expect(&f, add(&f, masked(&f, ok, mul(&f, f.x, f.y)), mul(&f, masked(&f, ok, f.x), f.w)),
         "where(label != -100, x*(y + w), 0)");
  gs_id once = masked(&f, ok, mul(&f, f.x, f.y)); /* [c]*[c] is [c] */
  gs_id twice = mul(&f, masked(&f, ok, f.x), masked(&f, ok, f.y));
  expect(&f, sub(&f, twice, once), "0");
  gs_id seen = gs_op2(f.g, GS_OP_GT, f.y, f.r); /* what is infinite outside stays masked */
  expect(&f, mul(&f, e, masked(&f, seen, f.w)), "where(y > r, w*exp(x), 0)");
  expect(&f, mul(&f, masked(&f, ok, f.x), masked(&f, ok, f.x)), "where(label != -100, x, 0)^2");
  expect(&f, sub(&f, masked(&f, ok, f.x), masked(&f, hot, fun(&f, GS_OP_NEG, f.y))),
         "where(label != -100, x, 0) + where(label == index(H), y, 0)");
  gs_arena_free(f.a);
}

Test(simplify, conditions_are_known_inside) {
  fixture f = begin();
  gs_id zero = num(&f, 0), high = gs_op2(f.g, GS_OP_MAX, f.x, zero), g = mul(&f, f.y, high);
  gs_id above = gs_op2(f.g, GS_OP_GT, f.x, zero), tie = gs_op2(f.g, GS_OP_EQ, f.x, zero);
  expect(&f, gs_where(f.g, above, mul(&f, g, num(&f, 2)), masked(&f, tie, g)),
         "where(x > 0, 2*x*y, 0)");
  gs_id label = integer(&f, "label", f.T), ok = gs_op2(f.g, GS_OP_NE, label, num(&f, -100));
  gs_node at = {.op = GS_OP_AT, .nargs = 3, .arg = {f.x, label, ok}, .dim = {f.H}};
  expect(&f, masked(&f, ok, gs_apply(f.g, &at, NULL)), "at(x, H, label, label != -100)");
  at.nargs = 2;
  expect(&f, masked(&f, ok, gs_apply(f.g, &at, NULL)), "at(x, H, label, label != -100)");
  gs_arena_free(f.a);
}

/* gs.round(e, "f32") computes e as written, though a cheaper form is known. */
Test(simplify, what_is_rounded_stays_as_written) {
  fixture f = begin();
  gs_id q = quo(&f, f.x, mul(&f, f.r, f.c)), e = add(&f, mul(&f, f.x, f.y), mul(&f, f.x, f.w));
  expect(&f, e, "x*(y + w)");
  gs_node r = {.op = GS_OP_ROUND, .nargs = 1, .arg = {q}, .to = GS_F32};
  expect(&f, q, "x*1/(r*c)");
  expect(&f, gs_apply(f.g, &r, NULL), "round(x/(r*c), f32)");
  r.arg[0] = e;
  r.to = GS_BF16;
  expect(&f, gs_apply(f.g, &r, NULL), "round(x*w + x*y, bf16)");
  r.arg[0] = add(&f, e, num(&f, 1));
  expect(&f, gs_apply(f.g, &r, NULL), "round(x*(y + w) + 1, bf16)");
  gs_arena_free(f.a);
}

Test(simplify, sum_over_a_onehot_is_a_gather) {
  fixture f = begin();
  gs_id label = integer(&f, "label", f.T), ok = gs_op2(f.g, GS_OP_NE, label, num(&f, -100));
  gs_id hot = gs_op2(f.g, GS_OP_EQ, index_of(&f, f.H), label);
  const char *inside = "at(x, H, label, label < 100 and label >= 0)";
  expect(&f, sum(&f, masked(&f, hot, f.x), f.H), inside);
  expect(&f, sum(&f, mul(&f, fun(&f, GS_OP_REAL, hot), f.x), f.H), inside);
  expect(&f, sum(&f, masked(&f, gs_op2(f.g, GS_OP_AND, ok, hot), f.x), f.H),
         "at(x, H, label, label != -100 and label < 100 and label >= 0)");
  expect(&f, sum(&f, fun(&f, GS_OP_REAL, hot), f.H), "label < 100 and label >= 0");
  gs_arena_free(f.a);
}

Test(simplify, sums_of_sums_and_of_products) {
  fixture f = begin();
  expect(&f, sum(&f, sum(&f, mul(&f, f.x, f.y), f.H), f.T), "sum(x*y, T, H)");
  expect(&f, sum(&f, mul(&f, mul(&f, f.r, f.x), f.c), f.H), "r*c*sum(x, H)");
  gs_id high = gs_reduce(f.g, GS_OP_RMAX, f.x, (gs_dims)1 << f.H);
  expect(&f, gs_reduce(f.g, GS_OP_RMAX, high, (gs_dims)1 << f.T), "max(x, T, H)");
  gs_arena_free(f.a);
}

/* (c*g)^2 is small where c*g is; c^2*g^2 overflows where g does. */
Test(simplify, squares_of_products_stay) {
  fixture f = begin();
  gs_id g = mul(&f, f.c, f.x), square = mul(&f, g, g);
  expect(&f, sum(&f, square, f.H), "sum((x*c)^2, H)");
  expect(&f, mul(&f, square, f.r), "r*(x*c)^2");
  gs_id eps = gs_op1(f.g, GS_OP_SIGMOID, sum(&f, f.x, f.H));
  expect(&f, quo(&f, square, mul(&f, eps, f.c)), "x^2*c/sigmoid(sum(x, H))");
  gs_arena_free(f.a);
}

Test(simplify, gathers_along_an_index_are_slices) {
  fixture f = begin();
  gs_node by = {.op = GS_OP_SUM_BY, .nargs = 2, .arg = {f.q, index_of(&f, f.D)}, .dim = {f.D, f.h}};
  expect(&f, gs_apply(f.g, &by, NULL), "slice(q, D, h, 0)");
  gs_id less = gs_op2(f.g, GS_OP_LT, index_of(&f, f.D), num(&f, 5));
  by.arg[0] = masked(&f, less, f.q);
  expect(&f, gs_apply(f.g, &by, NULL), "slice(q, D, h, 0)");
  gs_node at = {.op = GS_OP_AT, .nargs = 2, .dim = {f.D}};
  at.arg[0] = f.q;
  at.arg[1] = gs_op2(f.g, GS_OP_ADD, index_of(&f, f.h), num(&f, 4));
  expect(&f, gs_apply(f.g, &at, NULL), "slice(q, D, h, 4)");
  gs_arena_free(f.a);
}

/* ---- random graphs ---- */

/* A large bound means that a comparison hangs by a bit, and may fall the other way. */
static bool close_enough(const gs_array *a, const gs_array *b, size_t i, size_t j) {
  double bound = 1e-7 * (a->err[i] + b->err[j]) + 1e-11 * (1 + fabs(a->v[i]));
  bool unsure = !(a->err[i] + b->err[j] < 0.02 * (1 + fabs(a->v[i])));
  return unsure || fabs(a->v[i] - b->v[j]) <= bound;
}

static void compare_arrays(graph_case *c, gs_id before, const gs_array *a, const gs_array *b) {
  reference r = {.c = c};
  bool no_more = (b->dims & ~a->dims) == 0;
  cr_assert(no_more);
  for (size_t i = 0; i < a->count; i++) {
    size_t j = 0;
    ref_point(&r, a->dims, i);
    for (int d = 0; d < gs_graph_ndims(c->g); d++)
      if (b->dims >> d & 1) j = j * (size_t)c->sizes[gs_graph_dim_root(c->g, d)] + (size_t)r.at[d];
    if (close_enough(a, b, i, j)) continue;
    case_print(c, before);
    cr_fail("element %zu: %.17g became %.17g", i, a->v[i], b->v[j]);
  }
}

Test(simplify, keeps_values_of_random_graphs) {
  for (int k = 0; k < 150; k++) {
    graph_case c;
    gs_error err = {0};
    case_begin(&c, fresh_seed(k), false);
    case_grow(&c, 45);
    gs_env env = case_env(&c);
    for (int i = 6; i < c.n; i++) {
      gs_id before = c.pool[i], after = before, again;
      gs_array a, b;
      gs_simplify(c.g, &after, 1);
      if (gs_verify(c.g, &after, 1, &err) != GS_OK) cr_fail("%s", err.message);
      again = after;
      gs_simplify(c.g, &again, 1);
      if (again != after) {
        case_print(&c, before);
        cr_fail("simplifying again changed the result");
      }
      cr_assert(eq(int, gs_eval(c.g, &before, 1, &env, &a, &err), GS_OK));
      cr_assert(eq(int, gs_eval(c.g, &after, 1, &env, &b, &err), GS_OK));
      compare_arrays(&c, before, &a, &b);
      gs_array_free(&a);
      gs_array_free(&b);
    }
    case_end(&c);
  }
}
