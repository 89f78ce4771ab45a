/* uses: gs_graph */
/* Building: sharing, dims and types, mistakes and their messages, the verifier, the dump. */
#include "graph/graph.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
  gs_arena *a;
  gs_graph *g;
  int T, V, H, two, h, S;
  gs_id x, w, label, eps;
} fixture;

static gs_id input(fixture *f, const char *name, gs_role role, gs_type type, int n, int d0,
                   int d1) {
  gs_tensor t = {.name = name, .role = role, .type = type, .ndims = n, .dim = {d0, d1}};
  return gs_input(f->g, gs_graph_tensor(f->g, &t));
}

static fixture begin(void) {
  fixture f = {.a = gs_arena_new()};
  f.g = gs_graph_new(f.a);
  f.T = gs_graph_dim(f.g, "T", -1);
  f.V = gs_graph_dim(f.g, "V", 7);
  f.H = gs_graph_dim(f.g, "H", 6);
  f.two = gs_graph_dim(f.g, "two", 2);
  f.h = gs_graph_dim(f.g, "h", 3);
  f.S = gs_graph_dim_like(f.g, "S", f.T);
  f.x = input(&f, "x", GS_ROLE_INPUT, GS_BF16, 2, f.T, f.H);
  f.w = input(&f, "w", GS_ROLE_WEIGHT, GS_F32, 1, f.H, 0);
  f.label = input(&f, "label", GS_ROLE_INPUT, GS_I32, 1, f.T, 0);
  f.eps = input(&f, "eps", GS_ROLE_SCALAR, GS_F32, 0, 0, 0);
  return f;
}

static gs_dims set(int a) {
  return (gs_dims)1 << a;
}
static const gs_node *at(fixture *f, gs_id id) {
  return gs_graph_node(f->g, id);
}

Test(graph, equal_formulas_are_one_node) {
  fixture f = begin();
  gs_id a = gs_op2(f.g, GS_OP_MUL, f.x, f.w), b = gs_op2(f.g, GS_OP_MUL, f.w, f.x);
  cr_assert(eq(int, a, b));
  gs_node n = {.op = GS_OP_EXP, .arg = {a}, .line = 12}, m = n;
  m.line = 99;
  m.index = 5; /* not a field of exp */
  cr_assert(eq(int, gs_apply(f.g, &n, NULL), gs_apply(f.g, &m, NULL)));
  cr_assert(eq(int, at(&f, gs_apply(f.g, &m, NULL))->line, 12));
  cr_assert(ne(int, gs_op2(f.g, GS_OP_SUB, f.x, f.w), gs_op2(f.g, GS_OP_SUB, f.w, f.x)));
  gs_id first = gs_const(f.g, 0.1);
  for (int i = 0; i < 3000; i++) gs_op2(f.g, GS_OP_ADD, f.x, gs_const(f.g, i + 0.5));
  cr_assert(eq(int, gs_const(f.g, 0.1), first));
  cr_assert(eq(int, gs_op2(f.g, GS_OP_MUL, f.x, f.w), a));
  cr_assert(eq(int, gs_const(f.g, -0.0), gs_const(f.g, 0.0)));
  gs_arena_free(f.a);
}

Test(graph, arguments_have_smaller_ids) {
  fixture f = begin();
  gs_id y = gs_op1(f.g, GS_OP_TANH, gs_op2(f.g, GS_OP_DIV, f.label, f.w));
  for (gs_id id = 1; id < gs_graph_size(f.g); id++)
    for (int k = 0; k < at(&f, id)->nargs; k++) cr_assert(at(&f, id)->arg[k] < id);
  cr_assert(y < gs_graph_size(f.g));
  cr_assert(gs_graph_node(f.g, 0) == NULL && gs_graph_node(f.g, gs_graph_size(f.g)) == NULL);
  gs_arena_free(f.a);
}

Test(graph, dims_broadcast_and_reduce_by_name) {
  fixture f = begin();
  gs_id y = gs_op2(f.g, GS_OP_MUL, f.x, f.w);
  cr_assert(at(&f, y)->dims == (set(f.T) | set(f.H)));
  cr_assert(at(&f, gs_reduce(f.g, GS_OP_SUM, y, set(f.H)))->dims == set(f.T));
  cr_assert(eq(int, gs_reduce(f.g, GS_OP_SUM, f.w, set(f.T)), f.w));
  gs_node n = {.op = GS_OP_SUM, .arg = {f.w}, .rdims = set(f.V)};
  cr_assert(eq(int, gs_apply(f.g, &n, NULL), gs_op2(f.g, GS_OP_MUL, f.w, gs_const(f.g, 7))));
  n.op = GS_OP_RMAX;
  cr_assert(eq(int, gs_apply(f.g, &n, NULL), f.w));
  n.op = GS_OP_LOGSUMEXP;
  gs_id shifted = gs_op2(f.g, GS_OP_ADD, f.w, gs_const(f.g, log(7)));
  cr_assert(eq(int, gs_apply(f.g, &n, NULL), shifted));
  gs_arena_free(f.a);
}

Test(graph, types_are_promoted) {
  fixture f = begin();
  gs_node i = {.op = GS_OP_INDEX, .dim = {f.V}}, s = {.op = GS_OP_SIZE, .dim = {f.V}};
  gs_id index = gs_apply(f.g, &i, NULL), size = gs_apply(f.g, &s, NULL);
  cr_assert(at(&f, size)->op == GS_OP_CONST && at(&f, size)->value == 7);
  cr_assert(at(&f, gs_op2(f.g, GS_OP_ADD, index, gs_const(f.g, 1)))->type == GS_I64);
  cr_assert(at(&f, gs_op2(f.g, GS_OP_ADD, index, gs_const(f.g, 0.5)))->type == GS_F32);
  gs_id hot = gs_op2(f.g, GS_OP_EQ, index, f.label);
  cr_assert(at(&f, hot)->type == GS_BOOL);
  cr_assert(at(&f, gs_op2(f.g, GS_OP_MUL, hot, f.x))->type == GS_F32);
  cr_assert(at(&f, f.label)->type == GS_I64 && at(&f, f.x)->type == GS_F32);
  cr_assert(at(&f, f.eps)->op == GS_OP_SCALAR);
  cr_assert(at(&f, gs_op2(f.g, GS_OP_DIV, index, gs_const(f.g, 2)))->type == GS_F32);
  s.dim[0] = f.S;
  cr_assert(at(&f, gs_apply(f.g, &s, NULL))->dim[0] == f.T);
  gs_arena_free(f.a);
}

Test(graph, constants_fold_and_powers_become_cheap) {
  fixture f = begin();
  gs_id two = gs_const(f.g, 2), x = f.x;
  cr_assert(eq(int, gs_op2(f.g, GS_OP_ADD, two, two), gs_const(f.g, 4)));
  cr_assert(eq(int, gs_op1(f.g, GS_OP_EXP, gs_const(f.g, 0)), gs_const(f.g, 1)));
  cr_assert(eq(int, gs_op2(f.g, GS_OP_POW, x, two), gs_op2(f.g, GS_OP_MUL, x, x)));
  cr_assert(at(&f, gs_op2(f.g, GS_OP_POW, x, gs_const(f.g, -0.5)))->op == GS_OP_RSQRT);
  cr_assert(at(&f, gs_op2(f.g, GS_OP_POW, x, gs_const(f.g, 0.5)))->op == GS_OP_SQRT);
  cr_assert(at(&f, gs_op2(f.g, GS_OP_POW, x, gs_const(f.g, -1)))->op == GS_OP_DIV);
  cr_assert(at(&f, gs_op2(f.g, GS_OP_POW, x, gs_const(f.g, 0.75)))->op == GS_OP_POW);
  gs_arena_free(f.a);
}

/* ---- blocks, tables ---- */

Test(graph, block_dims_have_the_size_they_follow) {
  gs_arena *a = gs_arena_new();
  gs_graph *g = gs_graph_new(a);
  int B = 0, N = gs_graph_dim(g, "N", -1), k = gs_graph_dim(g, "k", 64);
  int P = gs_graph_dim_blocks(g, "P", N, 2), Q = gs_graph_dim_blocks(g, "Q", P, 32);
  B = gs_graph_dim_blocks(g, "B", N, 64);
  int R = gs_graph_dim_like(g, "R", B), S = gs_graph_dim_blocks(g, "S", N, 1);
  int i = gs_graph_dim_blocks(g, "i", k, 5);
  cr_assert(eq(int, gs_graph_dim_root(g, B), gs_graph_dim_root(g, Q))); /* ceil(ceil(N/2)/32) */
  cr_assert(eq(int, gs_graph_dim_root(g, R), gs_graph_dim_root(g, B)));
  cr_assert(eq(int, gs_graph_dim_root(g, S), N));
  cr_assert(gs_graph_dim_root(g, P) == P && gs_graph_dim_at(g, i)->size == 13);
  for (int64_t n = 0; n < 300; n += 7) {
    int64_t sizes[GS_MAX_DIMS] = {0};
    sizes[N] = n;
    gs_graph_sizes(g, sizes);
    cr_assert(sizes[P] == (n + 1) / 2 && sizes[B] == (n + 63) / 64 && sizes[Q] == sizes[B]);
    cr_assert(sizes[R] == sizes[B] && sizes[S] == n && sizes[k] == 64);
  }
  gs_tensor t = {.name = "x", .type = GS_F32, .ndims = 1, .dim = {N}};
  gs_id x = gs_input(g, gs_graph_tensor(g, &t));
  gs_id blocks = gs_apply(g, &(gs_node){.op = GS_OP_SPLIT, .arg = {x}, .dim = {N, B, k}}, NULL);
  gs_node back = {.op = GS_OP_MERGE, .arg = {blocks}, .dim = {N, B, k}};
  cr_assert(eq(int, gs_apply(g, &back, NULL), x)); /* whole again */
  back.arg[0] = gs_op1(g, GS_OP_EXP, blocks);
  gs_id merged = gs_apply(g, &back, NULL);
  gs_node again = {.op = GS_OP_SPLIT, .arg = {merged}, .dim = {N, B, k}};
  cr_assert(gs_graph_node(g, gs_apply(g, &again, NULL))->op == GS_OP_WHERE); /* exp(0) is cut off */
  gs_arena_free(a);
}

Test(graph, equal_tables_and_folds_are_one) {
  fixture f = begin();
  double v[] = {0.1, 0.2}, w[] = {(double)0.1f, (double)0.2f}, u[] = {0.1, 0.3};
  int t = gs_graph_table(f.g, v, 2);
  cr_assert(gs_graph_table(f.g, w, 2) == t && gs_graph_table(f.g, u, 2) != t);
  cr_assert(gs_graph_table(f.g, v, 1) != t && gs_graph_ntables(f.g) == 3);
  cr_assert(gs_graph_table_at(f.g, t)->value[1] == (double)0.2f);
  cr_assert(gs_graph_table_at(f.g, 3) == NULL && gs_graph_fold_at(f.g, 0) == NULL);
  gs_fold fold = {1, 1, {GS_F32}, {0}, {f.x}, {f.x}};
  int k = gs_graph_fold(f.g, &fold);
  cr_assert(gs_graph_fold(f.g, &fold) == k);
  fold.init[0] = 1;
  cr_assert(gs_graph_fold(f.g, &fold) != k);
  gs_arena_free(f.a);
}

Test(graph, integer_comparisons_are_decided_by_ranges) {
  fixture f = begin();
  gs_id i = gs_apply(f.g, &(gs_node){.op = GS_OP_INDEX, .dim = {f.H}}, NULL); /* 0 .. 5 */
  gs_id next = gs_op2(f.g, GS_OP_ADD, i, gs_const(f.g, 2));
  gs_id third = gs_op2(f.g, GS_OP_QUOTIENT, i, gs_const(f.g, 3));
  gs_id yes[] = {
      gs_op2(f.g, GS_OP_GE, i, gs_const(f.g, 0)), gs_op2(f.g, GS_OP_LT, next, gs_const(f.g, 8)),
      gs_op2(f.g, GS_OP_LE, third, gs_const(f.g, 1)), gs_op2(f.g, GS_OP_NE, i, gs_const(f.g, 6))};
  for (int k = 0; k < 4; k++)
    cr_assert(at(&f, yes[k])->op == GS_OP_CONST && at(&f, yes[k])->value == 1);
  gs_id open[] = {
      gs_op2(f.g, GS_OP_GE, i, gs_const(f.g, 1)), gs_op2(f.g, GS_OP_LT, next, gs_const(f.g, 7)),
      gs_op2(f.g, GS_OP_EQ, i, gs_const(f.g, 5)), gs_op2(f.g, GS_OP_GE, f.label, gs_const(f.g, 0))};
  for (int k = 0; k < 4; k++) cr_assert(at(&f, open[k])->op != GS_OP_CONST);
  gs_arena_free(f.a);
}

/* ---- mistakes ---- */

static void refused(fixture *f, gs_node n, const char *part) {
  gs_error err = {0};
  cr_expect(eq(int, gs_apply(f->g, &n, &err), 0));
  cr_expect(eq(int, err.status, GS_ERR_USE));
  cr_expect(strstr(err.message, part) != NULL, "\"%s\" lacks \"%s\"", err.message, part);
  cr_expect(eq(int, gs_apply(f->g, &n, NULL), 0));
}

Test(graph, mistakes_are_explained) {
  fixture f = begin();
  gs_id s = gs_op1(f.g, GS_OP_EXP, f.x), ok = gs_op2(f.g, GS_OP_GT, f.x, f.w);
  refused(&f, (gs_node){.op = GS_OP_WHERE, .arg = {f.x, s, s}}, "truth value");
  refused(&f, (gs_node){.op = GS_OP_NOT, .arg = {f.x}}, "logical_not is a real number");
  refused(&f, (gs_node){.op = GS_OP_ADD, .arg = {f.x, 0}}, "argument 2 of add is missing");
  refused(&f, (gs_node){.op = GS_OP_SPLIT, .arg = {f.x}, .dim = {f.H, f.two, f.V}},
          "H (6) as two (2) times V (7)");
  refused(&f, (gs_node){.op = GS_OP_SPLIT, .arg = {f.x}, .dim = {f.T, f.two, f.h}},
          "must be declared as \"ceil(T/3)\"");
  refused(&f, (gs_node){.op = GS_OP_SPLIT, .arg = {f.x}, .dim = {f.H, f.h, f.h}},
          "three different");
  refused(&f, (gs_node){.op = GS_OP_PICK, .arg = {f.x}, .dim = {f.H}, .index = 6}, "0 to 5");
  refused(&f, (gs_node){.op = GS_OP_SLICE, .arg = {f.x}, .dim = {f.H, f.h}, .index = 4}, "4 to 7");
  refused(&f, (gs_node){.op = GS_OP_RENAME, .arg = {f.x}, .dim = {f.H, f.V}}, "sizes");
  refused(&f, (gs_node){.op = GS_OP_RENAME, .arg = {f.x}, .dim = {f.H, -1}}, "does not exist");
  gs_id both =
      gs_op2(f.g, GS_OP_ADD, f.x,
             gs_apply(f.g, &(gs_node){.op = GS_OP_RENAME, .arg = {f.x}, .dim = {f.T, f.S}}, NULL));
  refused(&f, (gs_node){.op = GS_OP_RENAME, .arg = {both}, .dim = {f.T, f.S}}, "already has");
  refused(&f, (gs_node){.op = GS_OP_JOIN, .nargs = 3, .arg = {s, s, s}, .dim = {f.two}},
          "join of 3");
  refused(&f, (gs_node){.op = GS_OP_AT, .nargs = 2, .arg = {f.x, f.w}, .dim = {f.T}}, "integer");
  refused(&f, (gs_node){.op = GS_OP_AT, .nargs = 2, .arg = {f.x, f.label}, .dim = {f.T}}, "rename");
  refused(&f, (gs_node){.op = GS_OP_AT, .nargs = 3, .arg = {f.x, f.label, s}, .dim = {f.H}},
          "truth value");
  refused(&f, (gs_node){.op = GS_OP_SUM_BY, .arg = {f.x, ok}, .dim = {f.T, f.V}}, "key");
  refused(&f, (gs_node){.op = GS_OP_SUM_BY, .arg = {f.x, f.label}, .dim = {f.T, f.H}}, "already");
  refused(&f, (gs_node){.op = GS_OP_ROUND, .arg = {f.x}, .to = GS_I32}, "f32, bf16, f16");
  refused(&f, (gs_node){.op = GS_OP_ROUND_RAND, .arg = {f.x, f.x}, .to = GS_E8M0}, "e4m3 or e5m2");
  refused(&f, (gs_node){.op = GS_OP_QUOTIENT, .arg = {f.x, f.label}}, "first argument of quotient");
  refused(&f, (gs_node){.op = GS_OP_REMAINDER, .arg = {f.label, gs_const(f.g, 0)}}, "above zero");
  refused(&f, (gs_node){.op = GS_OP_LOOKUP, .arg = {f.label}, .index = 9}, "without elements");
  double down[] = {1, 3, 2};
  gs_node bucket = {.op = GS_OP_BUCKET, .arg = {f.x}, .index = gs_graph_table(f.g, down, 3)};
  refused(&f, bucket, "element 1 is 3 and number 2, counted from 0, is 2");
  gs_fold reads = {1, 1, {GS_F32}, {0}, {f.x}, {f.x}};
  gs_node fold = {.op = GS_OP_FOLD, .nargs = 1, .arg = {f.x}, .rdims = set(f.H)};
  fold.index = gs_graph_fold(f.g, &reads);
  refused(&f, fold, "they use x: make it an element");
  fold.rdims = set(f.T);
  refused(&f, fold, "over the dim T");
  refused(&f, (gs_node){.op = GS_OP_COUNT}, "no operation");
  refused(&f, (gs_node){.op = GS_OP_INPUT, .index = 77}, "no tensor");
  gs_arena_free(f.a);
}

/* ---- verifier ---- */

Test(graph, verifier_finds_what_is_wrong) {
  fixture f = begin();
  gs_error err = {0};
  gs_id y = gs_reduce(f.g, GS_OP_SUM, gs_op2(f.g, GS_OP_MUL, f.x, f.w), set(f.H));
  cr_assert(eq(int, gs_verify(f.g, &y, 1, &err), GS_OK));
  gs_node *n = (gs_node *)gs_graph_node(f.g, y), good = *n; /* breaks it on purpose */
  struct {
    const char *part;
    gs_node bad;
  } cases[] = {{"dims that do not follow", good},
               {"types that do not follow", good},
               {"over dims that its argument lacks", good},
               {"does not come before", good},
               {"number of arguments", good},
               {"is no operation", good}};
  cases[0].bad.dims |= set(f.V);
  cases[1].bad.type = GS_I64;
  cases[2].bad.rdims |= set(f.V);
  cases[3].bad.arg[0] = y;
  cases[4].bad.nargs = 2;
  cases[5].bad.op = GS_OP_COUNT;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    *n = cases[k].bad;
    cr_expect(eq(int, gs_verify(f.g, &y, 1, &err), GS_ERR_CHECK));
    cr_expect(strstr(err.message, cases[k].part) != NULL, "%s", err.message);
  }
  *n = good;
  gs_id none = 0;
  cr_expect(eq(int, gs_verify(f.g, &none, 1, &err), GS_ERR_CHECK));
  cr_expect(eq(int, gs_verify(f.g, &y, 1, &err), GS_OK));
  gs_arena_free(f.a);
}

/* ---- the table, text, flops, substitution ---- */

Test(graph, every_operation_has_a_row) {
  for (int op = GS_OP_CONST; op < GS_OP_COUNT; op++) {
    const gs_op_info *row = gs_op_row((gs_op)op);
    cr_assert(row && row->name && row->name[0], "operation %d", op);
    for (int other = op + 1; other < GS_OP_COUNT; other++)
      cr_assert(strcmp(row->name, gs_op_row((gs_op)other)->name) != 0, "%s twice", row->name);
    for (int k = 0; row->c_text && k < row->arity; k++) {
      char hole[] = {'$', (char)('0' + k), 0};
      cr_assert(strstr(row->c_text, hole) != NULL, "%s lacks %s", row->name, hole);
    }
  }
  cr_assert(gs_op_row(GS_OP_NONE) == NULL && gs_op_row(GS_OP_COUNT) == NULL);
}

Test(graph, dump_has_one_line_a_node) {
  fixture f = begin();
  gs_node r = {.op = GS_OP_RSQRT, .arg = {gs_op2(f.g, GS_OP_ADD, f.x, f.eps)}, .line = 7};
  gs_id y = gs_reduce(f.g, GS_OP_SUM, gs_apply(f.g, &r, NULL), set(f.H));
  const char *name = "y";
  gs_text t = {0};
  gs_dump(f.g, &y, &name, 1, &t);
  cr_assert(eq(str, t.s,
               "%1 [T, H] = input x : f32\n"
               "%4 [] = scalar eps : f32\n"
               "%5 [T, H] = add %1, %4 : f32\n"
               "%6 [T, H] = rsqrt %5 : f32  -- line 7\n"
               "%7 [T] = sum %6 over H : f32\n"
               "y = %7\n"));
  gs_text_free(&t);
  gs_arena_free(f.a);
}

Test(graph, formulas_print_as_mathematics) {
  fixture f = begin();
  gs_id rstd = input(&f, "rstd", GS_ROLE_SAVED, GS_F32, 1, f.T, 0);
  gs_id g = input(&f, "dy", GS_ROLE_UPSTREAM, GS_BF16, 2, f.T, f.H);
  gs_id dot =
      gs_op2(f.g, GS_OP_DIV, gs_reduce(f.g, GS_OP_SUM, gs_op2(f.g, GS_OP_MUL, f.x, g), set(f.H)),
             gs_const(f.g, 6));
  gs_id square = gs_op2(f.g, GS_OP_MUL, rstd, rstd);
  gs_id inner = gs_op2(f.g, GS_OP_MUL, gs_op2(f.g, GS_OP_MUL, f.x, square), dot);
  gs_id dx = gs_op2(f.g, GS_OP_MUL, rstd, gs_op2(f.g, GS_OP_SUB, g, inner));
  gs_text t = {0};
  gs_print_expr(f.g, dx, &t);
  cr_assert(eq(str, t.s, "s.rstd*(dy - x*s.rstd^2*mean(x*dy, H))"));
  gs_text_free(&t);
  gs_id deep = f.x; /* 2^60 paths: must end, and soon */
  for (int i = 0; i < 60; i++) deep = gs_op2(f.g, GS_OP_ADD, gs_op1(f.g, GS_OP_SIN, deep), deep);
  gs_print_expr(f.g, deep, &t);
  cr_assert(t.len < 20000);
  gs_text_free(&t);
  gs_arena_free(f.a);
}

Test(graph, flops_count_shared_nodes_once) {
  fixture f = begin();
  gs_id e = gs_op1(f.g, GS_OP_EXP, f.x), y = gs_op2(f.g, GS_OP_MUL, e, e);
  gs_id s = gs_reduce(f.g, GS_OP_SUM, y, set(f.H));
  int64_t sizes[] = {10, 0, 0, 0, 0, 0};
  cr_assert(eq(dbl, gs_flops(f.g, &s, 1, sizes), 60 * (8 + 1 + 1)));
  gs_arena_free(f.a);
}

Test(graph, substitution_is_by_value) {
  fixture f = begin();
  gs_id y = gs_op2(f.g, GS_OP_ADD, gs_op1(f.g, GS_OP_EXP, f.x), gs_op2(f.g, GS_OP_MUL, f.x, f.w));
  gs_id to = gs_op1(f.g, GS_OP_SIN, f.x), roots[] = {y, f.w, f.x};
  gs_substitute(f.g, &f.x, &to, 1, roots, 3);
  gs_id want = gs_op2(f.g, GS_OP_ADD, gs_op1(f.g, GS_OP_EXP, to), gs_op2(f.g, GS_OP_MUL, to, f.w));
  cr_assert(eq(int, roots[0], want));
  cr_assert(eq(int, roots[1], f.w));
  cr_assert(eq(int, roots[2], to));
  gs_arena_free(f.a);
}
