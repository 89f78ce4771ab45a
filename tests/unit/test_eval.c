/* uses: gs_graph */
/* The float64 evaluator against an independent one, and its error bound against emulated f32. */
#include "graph_case.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

/* Returns elements compared; 0 when the recursion would take too long. */
static long compare(graph_case *c, gs_id root, bool f32) {
  gs_array y;
  gs_env env = case_env(c);
  gs_error err = {0};
  if (gs_eval(c->g, &root, 1, &env, &y, &err) != GS_OK) cr_fail("%s", err.message);
  long compared = 0;
  reference r = {.c = c, .f32 = f32, .limit = 300000};
  for (size_t i = 0; i < y.count; i++) {
    ref_point(&r, y.dims, i);
    double v = ref_value(&r, root), gap = fabs(v - y.v[i]);
    if (r.calls > r.limit) break;
    double bound = f32 ? y.err[i] * (1 + 0x1p-40) : 1e-7 * y.err[i] + 1e-12 * (1 + fabs(v));
    bool unsure = !f32 && !(y.err[i] < 0.02 * (1 + fabs(v))); /* a comparison hangs by a bit */
    if (!(gap <= bound) && !isinf(y.err[i]) && !unsure) {
      case_print(c, root);
      cr_fail("element %zu: %.17g beside %.17g, bound %g", i, v, y.v[i], bound);
    }
    compared += !isinf(y.err[i]);
  }
  gs_array_free(&y);
  return compared;
}

static void random_graphs(bool f32, int rounds) {
  long compared = 0;
  for (int k = 0; k < rounds; k++) {
    graph_case c;
    case_begin(&c, fresh_seed(k), false);
    case_grow(&c, 40);
    for (int i = 5; i < c.n; i++) compared += compare(&c, c.pool[i], f32);
    case_end(&c);
  }
  cr_assert(compared > 20 * rounds, "only %ld elements compared", compared);
}

Test(eval, values_agree_with_recursion) {
  random_graphs(false, 60);
}
Test(eval, bound_holds_for_f32) {
  random_graphs(true, 120);
}

/* A bound that is far too wide shows nothing: the f32 error of a row norm stays within a few
 * hundred units, and so must the bound. */
Test(eval, bound_is_not_idle) {
  gs_arena *a = gs_arena_new();
  gs_graph *g = gs_graph_new(a);
  int H = gs_graph_dim(g, "H", 577);
  gs_tensor t = {.name = "x", .type = GS_F32, .ndims = 1, .dim = {H}};
  gs_id x = gs_input(g, gs_graph_tensor(g, &t));
  gs_id s = gs_reduce(g, GS_OP_SUM, gs_op2(g, GS_OP_MUL, x, x), (gs_dims)1 << H);
  gs_id rstd = gs_op1(g, GS_OP_RSQRT, gs_op2(g, GS_OP_DIV, s, gs_const(g, 577)));
  gs_id y = gs_op2(g, GS_OP_MUL, x, rstd);
  double data[577];
  graph_case c = {.state = fresh_seed(0)};
  for (int i = 0; i < 577; i++) data[i] = (float)(uniform(&c) * 2 - 1);
  const double *tensors[] = {data};
  gs_env env = {NULL, tensors};
  gs_array out;
  cr_assert(eq(int, gs_eval(g, &y, 1, &env, &out, NULL), GS_OK));
  for (size_t i = 0; i < out.count; i++)
    cr_assert(out.err[i] <= 40 * 0x1p-24 * fabs(out.v[i]), "%g of %g", out.err[i], out.v[i]);
  gs_array_free(&out);
  gs_arena_free(a);
}

typedef struct one {
  gs_arena *a;
  gs_graph *g;
  int d;
  gs_id x;
} one;

static one one_input(int64_t size, gs_type type) {
  one o = {.a = gs_arena_new()};
  o.g = gs_graph_new(o.a);
  o.d = gs_graph_dim(o.g, "V", size);
  gs_tensor t = {.name = "x", .type = type, .ndims = 1, .dim = {o.d}};
  o.x = gs_input(o.g, gs_graph_tensor(o.g, &t));
  return o;
}

static double err_of(one *o, gs_id id, const double *data) {
  gs_array y;
  gs_env env = {NULL, &data};
  cr_assert(eq(int, gs_eval(o->g, &id, 1, &env, &y, NULL), GS_OK));
  double e = y.err[0];
  gs_array_free(&y);
  return e;
}

Test(eval, rounding_is_half_an_ulp_of_the_type) {
  one o = one_input(1, GS_F32);
  gs_node r = {.op = GS_OP_ROUND, .nargs = 1, .arg = {o.x}, .to = GS_BF16};
  gs_id b = gs_apply(o.g, &r, NULL);
  r.arg[0] = gs_op1(o.g, GS_OP_EXP, o.x);
  gs_id inexact = gs_apply(o.g, &r, NULL);
  r.to = GS_F16;
  gs_id half = gs_apply(o.g, &r, NULL);
  double v = 1 + 0x1p-9; /* exactly between two bf16 plus nothing: a quarter */
  cr_assert(eq(dbl, err_of(&o, b, &v), 0x1p-9));
  v = 0;
  cr_assert(err_of(&o, inexact, &v) >= 0x1p-8);
  cr_assert(err_of(&o, inexact, &v) <= 0x1p-8 * 1.01);
  v = -16; /* exp is 1.1e-7, below f16's normal numbers: half of 2^-24 */
  cr_assert(err_of(&o, half, &v) >= 0x1p-25);
  cr_assert(err_of(&o, half, &v) <= 0x1p-24);
  v = 11.5; /* 98716 overflows f16 */
  cr_assert(isinf(err_of(&o, half, &v)));
  v = 100; /* exp overflows f32 */
  cr_assert(isinf(err_of(&o, inexact, &v)));
  gs_arena_free(o.a);
}

/* FP8: half an ulp, subnormals included; how far outside where it saturates. E8M0: up to twice. */
/* exp is made as a power of two: its argument times log2(e) is rounded, be the argument exact. */
Test(eval, exp_of_an_exact_argument_is_rounded_twice) {
  one o = one_input(1, GS_F32);
  gs_id y = gs_op1(o.g, GS_OP_EXP, o.x);
  double v = -11.5, at = exp(v);
  cr_assert(err_of(&o, y, &v) >= 11.5 * 0x1p-24 * at);
  cr_assert(err_of(&o, y, &v) <= 20 * 0x1p-24 * at);
  gs_arena_free(o.a);
}

Test(eval, small_types_have_their_own_bounds) {
  one o = one_input(1, GS_F32);
  gs_id e = gs_op1(o.g, GS_OP_EXP, o.x);
  gs_node r = {.op = GS_OP_ROUND, .nargs = 1, .arg = {e}, .to = GS_E4M3};
  gs_id e4m3 = gs_apply(o.g, &r, NULL);
  r.to = GS_E5M2;
  gs_id e5m2 = gs_apply(o.g, &r, NULL);
  r.to = GS_E8M0;
  gs_id e8m0 = gs_apply(o.g, &r, NULL);
  struct {
    gs_id id;
    double x, least, most;
  } cases[] = {{e4m3, 0.01, 0x1p-4, 0x1.1p-4},
               {e5m2, 0.01, 0x1p-3, 0x1.1p-3},
               {e4m3, -9, 0x1p-10, 0x1.1p-10},
               {e5m2, -14, 0x1p-17, 0x1.1p-17},
               {e4m3, 6.3, 96, 97},
               {e5m2, 11, 2530, 4100},
               {e8m0, 1, 2.7, 2.8}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    double b = err_of(&o, cases[k].id, &cases[k].x);
    cr_expect(b >= cases[k].least && b <= cases[k].most, "case %zu: %g", k, b);
  }
  r.arg[0] = o.x;
  double exact[] = {0x1p5, 448, -0x1p-9};
  for (int k = 0; k < 3; k++) {
    r.to = k ? GS_E4M3 : GS_E8M0;
    cr_expect(eq(dbl, err_of(&o, gs_apply(o.g, &r, NULL), &exact[k]), 0));
  }
  gs_node rand = {
      .op = GS_OP_ROUND_RAND, .nargs = 2, .arg = {e, gs_const(o.g, 0.5)}, .to = GS_BF16};
  double v = 0, b = err_of(&o, gs_apply(o.g, &rand, NULL), &v);
  cr_expect(b >= 0x1p-7 && b < 0x1.1p-7, "%g", b);
  gs_arena_free(o.a);
}

/* Near a cut the bucket is not sure, and what is looked up by it neither. */
Test(eval, buckets_are_unsure_near_a_cut) {
  one o = one_input(1, GS_F32);
  double cuts[] = {0, 1, 2}, codes[] = {5, 7, -1, 9};
  gs_node bucket = {.op = GS_OP_BUCKET, .nargs = 1, .arg = {gs_op1(o.g, GS_OP_EXP, o.x)}};
  bucket.index = gs_graph_table(o.g, cuts, 3);
  gs_id b = gs_apply(o.g, &bucket, NULL);
  gs_node lookup = {.op = GS_OP_LOOKUP, .nargs = 1, .arg = {b}};
  lookup.index = gs_graph_table(o.g, codes, 4);
  gs_id code = gs_apply(o.g, &lookup, NULL);
  double v = 1e-12;
  cr_assert(eq(dbl, err_of(&o, b, &v), 1));
  cr_assert(eq(dbl, err_of(&o, code, &v), 10));
  v = 0.3;
  cr_assert(eq(dbl, err_of(&o, b, &v), 0));
  cr_assert(eq(dbl, err_of(&o, code, &v), 0));
  gs_arena_free(o.a);
}

/* A fold whose merge is not what its step says gives another value than the step in turn. */
Test(eval, wrong_merges_show) {
  one o = one_input(21, GS_F32);
  gs_id e = gs_apply(o.g, &(gs_node){.op = GS_OP_ELEMENT, .type = GS_F32}, NULL);
  gs_id s = gs_apply(o.g, &(gs_node){.op = GS_OP_STATE, .type = GS_F32}, NULL);
  double data[21], sum = 0;
  for (int i = 0; i < 21; i++) sum += data[i] = i + 1;
  const double *tensor = data;
  gs_env env = {NULL, &tensor};
  gs_id merges[] = {gs_op2(o.g, GS_OP_ADD, s, e), s, gs_op2(o.g, GS_OP_MAX, s, e),
                    gs_op2(o.g, GS_OP_ADD, gs_op2(o.g, GS_OP_ADD, s, e), gs_const(o.g, 1))};
  for (int k = 0; k < 4; k++) {
    gs_fold f = {1, 1, {GS_F32}, {0}, {merges[0]}, {merges[k]}};
    gs_node n = {.op = GS_OP_FOLD, .nargs = 1, .arg = {o.x}, .rdims = (gs_dims)1 << o.d};
    n.index = gs_graph_fold(o.g, &f);
    gs_id id = gs_apply(o.g, &n, NULL);
    gs_array y;
    cr_assert(eq(int, gs_eval(o.g, &id, 1, &env, &y, NULL), GS_OK));
    bool right = fabs(y.v[0] - sum) < 1e-9;
    cr_assert(right == (k == 0), "merge %d gives %g", k, y.v[0]);
    gs_array_free(&y);
  }
  gs_arena_free(o.a);
}

Test(eval, bound_is_infinite_where_the_argument_may_reach_zero) {
  one o = one_input(1, GS_F32);
  gs_id e = gs_op1(o.g, GS_OP_EXP, o.x);
  gs_id diff = gs_op2(o.g, GS_OP_SUB, e, gs_const(o.g, 1));
  double v = 1e-9; /* exp(v) - 1 drowns in the rounding of exp */
  gs_op ops[] = {GS_OP_LOG, GS_OP_RSQRT, GS_OP_SQRT};
  for (int k = 0; k < 3; k++) cr_assert(isinf(err_of(&o, gs_op1(o.g, ops[k], diff), &v)));
  cr_assert(isinf(err_of(&o, gs_op2(o.g, GS_OP_DIV, gs_const(o.g, 1), diff), &v)));
  gs_id flip = gs_where(o.g, gs_op2(o.g, GS_OP_GT, diff, gs_const(o.g, 0)), gs_const(o.g, 5),
                        gs_const(o.g, -2));
  cr_assert(err_of(&o, flip, &v) >= 7);
  v = 1;
  cr_assert(err_of(&o, flip, &v) < 1e-6);
  gs_arena_free(o.a);
}

Test(eval, index_out_of_range_names_the_place) {
  gs_arena *a = gs_arena_new();
  gs_graph *g = gs_graph_new(a);
  int T = gs_graph_dim(g, "T", -1), V = gs_graph_dim(g, "V", 5);
  gs_tensor z = {.name = "z", .type = GS_F32, .ndims = 2, .dim = {T, V}};
  gs_tensor l = {.name = "label", .type = GS_I32, .ndims = 1, .dim = {T}};
  gs_id e = gs_input(g, gs_graph_tensor(g, &z)), i = gs_input(g, gs_graph_tensor(g, &l));
  gs_node at = {.op = GS_OP_AT, .nargs = 2, .arg = {e, i}, .dim = {V}};
  gs_id plain = gs_apply(g, &at, NULL);
  at.nargs = 3;
  at.arg[2] = gs_op2(g, GS_OP_NE, i, gs_const(g, 7));
  gs_id guarded = gs_apply(g, &at, NULL);
  double zs[15] = {0}, ls[3] = {0, 4, 7};
  zs[9] = 3.5;
  const double *tensors[] = {zs, ls};
  int64_t sizes[] = {3, 0};
  gs_env env = {sizes, tensors};
  gs_array out;
  gs_error err = {0};
  cr_assert(eq(int, gs_eval(g, &plain, 1, &env, &out, &err), GS_ERR_INPUT));
  cr_assert(strstr(err.message, "label[T=2] is 7") != NULL, "%s", err.message);
  cr_assert(eq(int, gs_eval(g, &guarded, 1, &env, &out, &err), GS_OK));
  cr_assert(out.v[1] == 3.5 && out.v[2] == 0);
  gs_array_free(&out);
  tensors[0] = NULL;
  cr_assert(eq(int, gs_eval(g, &guarded, 1, &env, &out, &err), GS_ERR_USE));
  gs_arena_free(a);
}

/* Large values must not take the time of a recursion per element. */
Test(eval, large_reductions_are_quick, .timeout = 20) {
  gs_arena *a = gs_arena_new();
  gs_graph *g = gs_graph_new(a);
  int T = gs_graph_dim(g, "T", -1), K = gs_graph_dim(g, "K", 2), G = gs_graph_dim(g, "G", 2);
  int D = gs_graph_dim(g, "D", 16), S = gs_graph_dim_like(g, "S", T);
  gs_tensor tq = {.name = "q", .type = GS_F32, .ndims = 4, .dim = {T, K, G, D}};
  gs_tensor tk = {.name = "k", .type = GS_F32, .ndims = 3, .dim = {T, K, D}};
  gs_id q = gs_input(g, gs_graph_tensor(g, &tq)), k = gs_input(g, gs_graph_tensor(g, &tk));
  gs_node r = {.op = GS_OP_RENAME, .nargs = 1, .arg = {k}, .dim = {T, S}};
  gs_id ks = gs_apply(g, &r, NULL);
  gs_id score = gs_reduce(g, GS_OP_SUM, gs_op2(g, GS_OP_MUL, q, ks), (gs_dims)1 << D);
  gs_id p =
      gs_op1(g, GS_OP_EXP,
             gs_op2(g, GS_OP_SUB, score, gs_reduce(g, GS_OP_LOGSUMEXP, score, (gs_dims)1 << S)));
  gs_id o = gs_reduce(g, GS_OP_SUM, gs_op2(g, GS_OP_MUL, p, ks), (gs_dims)1 << S);
  int64_t sizes[] = {67, 2, 2, 16, 67};
  double *qs = calloc(67 * 64, sizeof *qs), *kd = calloc(67 * 32, sizeof *kd);
  for (int i = 0; i < 67 * 64; i++) qs[i] = (float)sin(i);
  for (int i = 0; i < 67 * 32; i++) kd[i] = (float)cos(i);
  const double *tensors[] = {qs, kd};
  gs_env env = {sizes, tensors};
  gs_array out;
  gs_id roots[] = {o, gs_reduce(g, GS_OP_SUM, p, (gs_dims)1 << S)};
  gs_array both[2];
  clock_t start = clock();
  cr_assert(eq(int, gs_eval(g, roots, 2, &env, both, NULL), GS_OK));
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  out = both[1];
  for (size_t i = 0; i < out.count; i++) cr_assert(fabs(out.v[i] - 1) < 1e-12);
  cr_assert(seconds < 2, "%g s", seconds);
  gs_array_free(&both[0]);
  gs_array_free(&both[1]);
  free(qs);
  free(kd);
  gs_arena_free(a);
}
