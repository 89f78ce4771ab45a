/* graph_case.h: random graphs over every operation and view, with data for them, and an evaluator
 * that shares nothing with gs_eval: element by element, by recursion, in f64 or emulated f32. */
#ifndef GRAPH_CASE_H
#define GRAPH_CASE_H

#include "base/half.h"
#include "base/random.h"
#include "graph/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POOL 64
#define TENSORS 64

typedef struct graph_case {
  uint64_t seed, state;
  gs_arena *a;
  gs_graph *g;
  bool distinct; /* no value twice: ties are kinks */
  int64_t sizes[GS_MAX_DIMS];
  int T, H, two, h, V, U, S, R; /* T, R outer; H = two*h; U like V; S a slice of H; R like T */
  int k, B, C;                  /* B: T in blocks of k, the last one not always full; C: so of H */
  int table, ascending, folds[3]; /* of constants; sum, argmax and moments */
  double *data[TENSORS];
  gs_id pool[POOL]; /* real values, finite and moderate */
  int n;
  gs_id x[4]; /* the differentiable inputs */
  int nx;
  gs_id label, ok; /* integer [T], partly -100; where it is not */
} graph_case;

static inline uint64_t next_random(graph_case *c) {
  return gs_random_next(&c->state);
}
static inline int below(graph_case *c, int n) {
  return (int)(next_random(c) % (uint64_t)n);
}
static inline double uniform(graph_case *c) {
  return (double)(next_random(c) >> 11) * 0x1p-53;
}

static inline uint64_t fresh_seed(int k) {
  const char *s = getenv("GS_SEED");
  if (s) return strtoull(s, NULL, 0) + (uint64_t)k;
  return (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid() * 7919u + (uint64_t)k;
}

static inline size_t tensor_count(const graph_case *c, const gs_tensor *t) {
  size_t n = 1;
  for (int k = 0; k < t->ndims; k++) n *= (size_t)c->sizes[t->dim[k]];
  return n;
}

static inline gs_id case_tensor(graph_case *c, const char *name, gs_role role, gs_type type,
                                int ndims, int d0, int d1, int d2) {
  gs_tensor t = {.name = name, .role = role, .type = type, .ndims = ndims, .dim = {d0, d1, d2}};
  int i = gs_graph_tensor(c->g, &t);
  size_t n = tensor_count(c, &t);
  c->data[i] = malloc(sizeof(double) * n);
  for (size_t k = 0; k < n; k++) {
    double v = !c->distinct && uniform(c) < 0.1 ? 0.5 : 4 * uniform(c) - 2;
    c->data[i][k] = (double)(float)v;
  }
  return gs_input(c->g, i);
}

static inline gs_id case_leaf(graph_case *c, gs_op op, int index, gs_type type) {
  return gs_apply(c->g, &(gs_node){.op = op, .index = index, .type = type}, NULL);
}

/* s = (best, at), e = (value, index): the better one, of equal ones the one that comes first. */
static inline void case_better(graph_case *c, gs_id v, gs_id i, gs_id *out) {
  gs_graph *g = c->g;
  gs_id best = case_leaf(c, GS_OP_STATE, 0, GS_F32), at = case_leaf(c, GS_OP_STATE, 1, GS_I64);
  gs_id tie = gs_op2(g, GS_OP_AND, gs_op2(g, GS_OP_EQ, v, best), gs_op2(g, GS_OP_LT, i, at));
  gs_id take = gs_op2(g, GS_OP_OR, gs_op2(g, GS_OP_GT, v, best), tie);
  out[0] = gs_where(g, take, v, best);
  out[1] = gs_where(g, take, i, at);
}

/* Means and sums of squares of two parts, of n and m elements, as Chan, Golub and LeVeque. */
static inline void case_moments(graph_case *c, gs_id m, gs_id mean, gs_id square, gs_id *out) {
  gs_graph *g = c->g;
  gs_id n = case_leaf(c, GS_OP_STATE, 0, GS_I64), own = case_leaf(c, GS_OP_STATE, 1, GS_F32);
  gs_id all = gs_op2(g, GS_OP_ADD, n, m), d = gs_op2(g, GS_OP_SUB, mean, own);
  gs_id part = gs_op2(g, GS_OP_DIV, m, gs_op2(g, GS_OP_MAX, all, gs_const(g, 1)));
  gs_id cross = gs_op2(g, GS_OP_MUL, gs_op2(g, GS_OP_MUL, d, d), gs_op2(g, GS_OP_MUL, n, part));
  out[0] = all;
  out[1] = gs_op2(g, GS_OP_ADD, own, gs_op2(g, GS_OP_MUL, d, part));
  out[2] = gs_op2(g, GS_OP_ADD, case_leaf(c, GS_OP_STATE, 2, GS_F32),
                  gs_op2(g, GS_OP_ADD, square, cross));
}

static inline void case_programs(graph_case *c) {
  gs_graph *g = c->g;
  gs_id x = case_leaf(c, GS_OP_ELEMENT, 0, GS_F32), s = case_leaf(c, GS_OP_STATE, 0, GS_F32);
  gs_id one = gs_op1(g, GS_OP_INTEGER, gs_const(g, 1));
  double values[5];
  for (int i = 0; i < 5; i++) values[i] = i - 2 + 0.9 * uniform(c);
  c->ascending = gs_graph_table(g, values, 5);
  values[1] = 3.25;
  c->table = gs_graph_table(g, values, 4);
  gs_fold sum = {1, 1, {GS_F32}, {0}, {gs_op2(g, GS_OP_ADD, s, x)}, {gs_op2(g, GS_OP_ADD, s, x)}};
  gs_fold best = {2, 2, {GS_F32, GS_I64}, {-INFINITY, 0}, {0}, {0}};
  case_better(c, x, case_leaf(c, GS_OP_ELEMENT, 1, GS_I64), best.step);
  case_better(c, x, case_leaf(c, GS_OP_ELEMENT, 1, GS_I64), best.merge);
  gs_fold moments = {1, 3, {GS_I64, GS_F32, GS_F32}, {0}, {0}, {0}};
  case_moments(c, one, x, gs_const(g, 0), moments.step);
  case_moments(c, case_leaf(c, GS_OP_ELEMENT, 0, GS_I64), case_leaf(c, GS_OP_ELEMENT, 1, GS_F32),
               case_leaf(c, GS_OP_ELEMENT, 2, GS_F32), moments.merge);
  c->folds[0] = gs_graph_fold(g, &sum);
  c->folds[1] = gs_graph_fold(g, &best);
  c->folds[2] = gs_graph_fold(g, &moments);
}

static inline void case_begin(graph_case *c, uint64_t seed, bool distinct) {
  memset(c, 0, sizeof *c);
  c->distinct = distinct;
  c->seed = c->state = seed;
  c->a = gs_arena_new();
  c->g = gs_graph_new(c->a);
  int h = 1 + below(c, 4), two = 1 + below(c, 3);
  c->T = gs_graph_dim(c->g, "T", -1);
  c->V = gs_graph_dim(c->g, "V", 1 + below(c, 5));
  c->two = gs_graph_dim(c->g, "two", two);
  c->H = gs_graph_dim(c->g, "H", two * h);
  c->h = gs_graph_dim(c->g, "h", h);
  c->U = gs_graph_dim_like(c->g, "U", c->V);
  c->S = gs_graph_dim(c->g, "S", 1 + below(c, two * h));
  c->R = gs_graph_dim_like(c->g, "R", c->T);
  c->k = gs_graph_dim(c->g, "k", 1 + below(c, 3));
  c->B = gs_graph_dim_blocks(c->g, "B", c->T, gs_graph_dim_at(c->g, c->k)->size);
  c->C = gs_graph_dim_blocks(c->g, "C", c->H, gs_graph_dim_at(c->g, c->k)->size);
  c->sizes[c->T] = 1 + below(c, 4);
  gs_graph_sizes(c->g, c->sizes);
  case_programs(c);
  c->x[0] = case_tensor(c, "x", GS_ROLE_INPUT, GS_F32, 2, c->T, c->H, 0);
  c->x[1] = case_tensor(c, "w", GS_ROLE_WEIGHT, GS_F32, 1, c->H, 0, 0);
  c->x[2] = case_tensor(c, "z", GS_ROLE_INPUT, GS_F32, 2, c->T, c->V, 0);
  c->x[3] = case_tensor(c, "q", GS_ROLE_INPUT, GS_F32, 3, c->V, c->h, c->two);
  c->nx = 4;
  c->label = case_tensor(c, "label", GS_ROLE_INPUT, GS_I64, 1, c->T, 0, 0);
  int li = (int)gs_graph_node(c->g, c->label)->index;
  for (int64_t t = 0; t < c->sizes[c->T]; t++)
    c->data[li][t] = below(c, 4) ? below(c, (int)c->sizes[c->V]) : -100;
  c->ok = gs_op2(c->g, GS_OP_NE, c->label, gs_const(c->g, -100));
  for (int i = 0; i < c->nx; i++) c->pool[c->n++] = c->x[i];
  c->pool[c->n++] = case_tensor(c, "eps", GS_ROLE_SCALAR, GS_F32, 0, 0, 0, 0);
  c->pool[c->n++] = gs_const(c->g, 0.3);
}

static inline gs_env case_env(graph_case *c) {
  return (gs_env){c->sizes, (const double *const *)c->data};
}

static inline void case_end(graph_case *c) {
  for (int i = 0; i < TENSORS; i++) free(c->data[i]);
  gs_arena_free(c->a);
}

/* Keeps id when all its values are finite and moderate. */
static inline void keep(graph_case *c, gs_id id) {
  gs_array y;
  gs_env env = case_env(c);
  if (!id || c->n == POOL || gs_graph_node(c->g, id)->type != GS_F32) return;
  if (gs_eval(c->g, &id, 1, &env, &y, NULL) != GS_OK) return;
  bool good = y.count <= 4000;
  for (size_t i = 0; i < y.count; i++) good &= fabs(y.v[i]) < 50;
  gs_array_free(&y);
  if (good) c->pool[c->n++] = id;
}

static inline gs_id any(graph_case *c) {
  /* the newer half more often, for depth */
  if (below(c, 2)) return c->pool[c->n / 2 + below(c, c->n - c->n / 2)];
  return c->pool[below(c, c->n)];
}

static inline gs_id case_map(graph_case *c) {
  static const gs_op unary[] = {GS_OP_NEG,  GS_OP_ABS,   GS_OP_EXP,   GS_OP_LOG,
                                GS_OP_SQRT, GS_OP_RSQRT, GS_OP_TANH,  GS_OP_SIGMOID,
                                GS_OP_SIN,  GS_OP_COS,   GS_OP_ERF,   GS_OP_FLOOR,
                                GS_OP_STOP, GS_OP_LOG1P, GS_OP_EXPM1, GS_OP_SOFTPLUS};
  static const gs_op binary[] = {GS_OP_ADD, GS_OP_SUB, GS_OP_MUL, GS_OP_DIV, GS_OP_MIN,
                                 GS_OP_MAX, GS_OP_ADD, GS_OP_MUL, GS_OP_POW, GS_OP_SUB};
  static const double powers[] = {2, 3, -1, -2, 0.5, -0.5, 1.7, -0.3, 4, 0, 1};
  static const gs_type types[] = {GS_BF16, GS_F16, GS_F32, GS_E4M3, GS_E5M2};
  gs_id a = any(c), b = any(c);
  switch (below(c, 6)) {
  case 0: return gs_op1(c->g, unary[below(c, 16)], a);
  case 1: return gs_op2(c->g, GS_OP_POW, a, gs_const(c->g, powers[below(c, 11)]));
  case 2: {
    gs_node n = {.op = GS_OP_ROUND, .nargs = 1, .arg = {a}, .to = types[below(c, 5)]};
    return below(c, 2) ? gs_apply(c->g, &n, NULL) : gs_op1(c->g, unary[below(c, 16)], a);
  }
  default: return gs_op2(c->g, binary[below(c, 10)], a, b);
  }
}

static inline gs_id case_where(graph_case *c) {
  gs_id cond = gs_op2(c->g, (gs_op)(GS_OP_LT + below(c, 6)), any(c), any(c));
  if (below(c, 3) == 0) cond = gs_op1(c->g, GS_OP_NOT, cond);
  if (below(c, 3) == 0) cond = gs_op2(c->g, below(c, 2) ? GS_OP_AND : GS_OP_OR, cond, c->ok);
  if (below(c, 5) == 0) return gs_op2(c->g, GS_OP_MUL, cond, any(c));
  return gs_where(c->g, cond, any(c), below(c, 2) ? any(c) : gs_const(c->g, 0));
}

static inline gs_id case_reduce(graph_case *c) {
  static const gs_op ops[] = {GS_OP_SUM, GS_OP_SUM, GS_OP_RMAX, GS_OP_RMIN, GS_OP_LOGSUMEXP};
  gs_id a = any(c);
  gs_dims dims = gs_graph_node(c->g, a)->dims, r = dims & next_random(c);
  if (below(c, 6) == 0) r |= (gs_dims)1 << below(c, gs_graph_ndims(c->g));
  gs_node n = {.op = ops[below(c, 5)], .nargs = 1, .arg = {a}, .rdims = r};
  return gs_apply(c->g, &n, NULL);
}

/* Reals made of integers, tables and random numbers. */
static inline gs_id case_integer(graph_case *c) {
  gs_graph *g = c->g;
  gs_id i = gs_op1(g, GS_OP_INTEGER, gs_op2(g, GS_OP_MUL, any(c), gs_const(g, 3)));
  if (below(c, 3) == 0) i = c->label;
  if (below(c, 3) == 0) i = gs_apply(g, &(gs_node){.op = GS_OP_INDEX, .dim = {c->H}}, NULL);
  gs_op split = below(c, 2) ? GS_OP_QUOTIENT : GS_OP_REMAINDER;
  gs_id q = gs_op2(g, split, i, gs_const(g, 1 + below(c, 4)));
  gs_id site = gs_op1(g, GS_OP_INTEGER, gs_const(g, below(c, 9)));
  gs_node lookup = {.op = GS_OP_LOOKUP, .nargs = 1, .arg = {q}, .index = c->table};
  gs_node bucket = {.op = GS_OP_BUCKET, .nargs = 1, .arg = {any(c)}, .index = c->ascending};
  gs_node rand = {.op = GS_OP_RAND, .nargs = 3, .arg = {i, site, q}};
  gs_id r = gs_apply(g, &rand, NULL);
  gs_node round = {.op = GS_OP_ROUND_RAND, .nargs = 2, .arg = {any(c), r}, .to = GS_BF16};
  switch (below(c, 5)) {
  case 0: return gs_op1(g, GS_OP_REAL, q);
  case 1: return gs_apply(g, &lookup, NULL);
  case 2: return gs_op1(g, GS_OP_REAL, gs_apply(g, &bucket, NULL));
  case 3: return r;
  default: return gs_apply(g, &round, NULL);
  }
}

static inline gs_id case_fold(graph_case *c) {
  int f = below(c, 3), inner[] = {c->H, c->V, c->two, c->h, c->k};
  gs_id a = any(c), index = gs_apply(c->g, &(gs_node){.op = GS_OP_INDEX, .dim = {c->H}}, NULL);
  gs_dims r = 0, dims = gs_graph_node(c->g, a)->dims;
  for (int k = 0; k < 5; k++)
    if (dims >> inner[k] & 1 && (f == 1 || below(c, 2))) r |= (gs_dims)1 << inner[k];
  if (f == 1) r = dims & (gs_dims)1 << c->H;
  gs_node n = {.op = GS_OP_FOLD, .nargs = f == 1 ? 2 : 1, .arg = {a, index}, .rdims = r};
  n.index = c->folds[f];
  n.dim[0] = below(c, f + 1);
  gs_id id = r ? gs_apply(c->g, &n, NULL) : 0;
  if (!id) return 0;
  id = gs_op1(c->g, GS_OP_REAL, id);
  return c->distinct ? gs_op1(c->g, GS_OP_STOP, id) : id; /* it has no derivative */
}

/* Blocks of which the last may not be full. */
static inline gs_id case_blocks(graph_case *c, gs_node n) {
  bool outer = below(c, 2);
  n.op = below(c, 3) ? GS_OP_SPLIT : GS_OP_MERGE;
  n.dim[0] = outer ? c->T : c->H;
  n.dim[1] = outer ? c->B : c->C;
  n.dim[2] = c->k;
  return gs_apply(c->g, &n, NULL);
}

static inline gs_id case_view(graph_case *c) {
  gs_node n = {.nargs = 1, .arg = {any(c)}};
  switch (below(c, 9)) {
  case 7:
  case 8: return case_blocks(c, n);
  case 0: n.op = GS_OP_SPLIT; break;
  case 1: n.op = GS_OP_MERGE; break;
  case 2: {
    int dims[] = {c->two, c->h, c->V, c->H};
    n.op = GS_OP_PICK;
    n.dim[0] = dims[below(c, 4)];
    n.index = below(c, (int)c->sizes[n.dim[0]]);
    return gs_apply(c->g, &n, NULL);
  }
  case 3:
    n.op = GS_OP_SLICE;
    n.dim[0] = c->H;
    n.dim[1] = c->S;
    n.index = below(c, (int)(c->sizes[c->H] - c->sizes[c->S]) + 1);
    return gs_apply(c->g, &n, NULL);
  case 4: {
    int pairs[][2] = {{c->V, c->U}, {c->U, c->V}, {c->T, c->R}, {c->R, c->T}};
    int p = below(c, 4);
    n.op = GS_OP_RENAME;
    n.dim[0] = pairs[p][0];
    n.dim[1] = pairs[p][1];
    return gs_apply(c->g, &n, NULL);
  }
  default:
    n.op = GS_OP_JOIN;
    n.nargs = (int)c->sizes[c->two];
    for (int k = 0; k < n.nargs; k++) n.arg[k] = any(c);
    n.dim[0] = c->two;
    return gs_apply(c->g, &n, NULL);
  }
  n.dim[0] = c->H;
  n.dim[1] = c->two;
  n.dim[2] = c->h;
  return gs_apply(c->g, &n, NULL);
}

static inline gs_id case_gather(graph_case *c) {
  gs_node index = {.op = GS_OP_INDEX, .dim = {below(c, 2) ? c->H : c->V}};
  gs_node n = {.op = GS_OP_AT, .nargs = 3, .arg = {any(c), c->label, c->ok}, .dim = {c->V}};
  int r = below(c, 4);
  if (r == 0) return gs_op2(c->g, GS_OP_MUL, gs_apply(c->g, &index, NULL), any(c));
  if (r == 1) {
    n.op = GS_OP_SUM_BY;
    n.nargs = 2;
    n.dim[0] = c->T;
    n.dim[1] = below(c, 2) ? c->V : c->U;
  }
  return gs_apply(c->g, &n, NULL);
}

/* Adds up to `steps` random values to the pool. */
static inline void case_grow(graph_case *c, int steps) {
  for (int i = 0; i < steps; i++) {
    int r = below(c, 12);
    keep(c, r == 10   ? case_integer(c)
            : r == 11 ? case_fold(c)
            : r < 4   ? case_map(c)
            : r < 5   ? case_where(c)
            : r < 7   ? case_reduce(c)
            : r < 9   ? case_view(c)
                      : case_gather(c));
  }
}

/* ---- the independent evaluator ---- */

typedef struct reference {
  graph_case *c;
  bool f32; /* emulate f32, each operation wrong by up to what the table allows */
  long calls, limit;
  const double *of_state, *of_element; /* inside of a fold's program */
  int64_t at[GS_MAX_DIMS];
} reference;

static inline double ref_value(reference *r, gs_id id);

static inline double ref_round(reference *r, const gs_node *n, double v) {
  if (!r->f32 || n->type != GS_F32) return v;
  if (n->op == GS_OP_ROUND || n->op == GS_OP_ROUND_RAND) {
    float s;
    double ulp = n->op == GS_OP_ROUND ? 0 : fabs(v) * 0x1p-8 * (uniform(r->c) - 0.5);
    gs_store_f64(&s, n->to, 0, v + ulp);
    return gs_load_f64(&s, n->to, 0);
  }
  double ulps = gs_op_row(n->op)->ulps, spread = ulps > 1 ? (ulps - 1) * 0x1p-24 : 0;
  v *= 1 + spread * (2 * uniform(r->c) - 1);
  return (double)(float)v;
}

#define LANES 64 /* f32 sums are of so many, and then of pairs */

static inline double pair_up(float *lane) {
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int k = 0; k < half; k++) lane[k] += lane[k + half];
  return lane[0];
}

static inline double ref_reduce(reference *r, const gs_node *n) {
  int64_t saved[GS_MAX_DIMS];
  memcpy(saved, r->at, sizeof saved);
  int d[GS_MAX_DIMS], nd = 0;
  for (int k = 0; k < gs_graph_ndims(r->c->g); k++)
    if (n->rdims >> k & 1) r->at[d[nd++] = k] = 0;
  float lane[LANES] = {0};
  int terms = 0;
  double sum = 0, top = n->op == GS_OP_RMIN ? INFINITY : -INFINITY;
  for (int pass = 0; pass < (n->op == GS_OP_LOGSUMEXP ? 2 : 1); pass++) {
    for (int k = 0; k < nd; k++) r->at[d[k]] = 0;
    for (int k = 0; k >= 0;) {
      double v = ref_value(r, n->arg[0]);
      if (n->op == GS_OP_RMIN)
        top = fmin(top, v);
      else if (n->op == GS_OP_RMAX || (n->op == GS_OP_LOGSUMEXP && pass == 0))
        top = fmax(top, v);
      else if (n->op == GS_OP_SUM && r->f32)
        lane[terms++ % LANES] += (float)v;
      else if (n->op == GS_OP_SUM)
        sum += v;
      else
        sum += r->f32 ? (double)expf((float)(v - top)) : exp(v - top);
      if (r->f32) sum = (float)sum;
      for (k = nd - 1; k >= 0; k--) {
        if (++r->at[d[k]] < r->c->sizes[gs_graph_dim_root(r->c->g, d[k])]) break;
        r->at[d[k]] = 0;
      }
    }
  }
  memcpy(r->at, saved, sizeof saved);
  if (n->op == GS_OP_SUM) return r->f32 ? pair_up(lane) : sum;
  if (n->op != GS_OP_LOGSUMEXP) return top;
  return r->f32 ? (double)((float)top + logf((float)sum)) : top + log(sum);
}

/* The fold from the last element to the first, in parts of three. */
static inline double ref_fold(reference *r, const gs_node *n) {
  const gs_fold *f = gs_graph_fold_at(r->c->g, (int)n->index);
  int64_t saved[GS_MAX_DIMS], count = 1;
  double all[GS_MAX_FOLD], part[GS_MAX_FOLD], x[GS_MAX_ARGS], next[GS_MAX_FOLD];
  memcpy(saved, r->at, sizeof saved);
  memcpy(all, f->init, sizeof all);
  memcpy(part, f->init, sizeof part);
  for (int d = 0; d < gs_graph_ndims(r->c->g); d++)
    if (n->rdims >> d & 1) count *= r->c->sizes[d];
  for (int64_t j = count - 1; j >= 0; j--) {
    int64_t rest = j;
    for (int d = 0; d < gs_graph_ndims(r->c->g); d++)
      if (n->rdims >> d & 1) {
        r->at[d] = rest % r->c->sizes[d];
        rest /= r->c->sizes[d];
      }
    for (int k = 0; k < n->nargs; k++) x[k] = ref_value(r, n->arg[k]);
    r->of_state = part, r->of_element = x;
    for (int k = 0; k < f->nstate; k++) next[k] = ref_value(r, f->step[k]);
    memcpy(part, next, sizeof part);
    if (j % 3 != 0) continue;
    r->of_state = all, r->of_element = part;
    for (int k = 0; k < f->nstate; k++) next[k] = ref_value(r, f->merge[k]);
    memcpy(all, next, sizeof all);
    memcpy(part, f->init, sizeof part);
  }
  memcpy(r->at, saved, sizeof saved);
  return all[n->dim[0]];
}

static inline double ref_view(reference *r, const gs_node *n) {
  int64_t saved[3] = {0};
  const int *d = n->dim;
  int64_t i0 = r->at[d[0]], i1 = d[1] >= 0 ? r->at[d[1]] : 0, i2 = d[2] >= 0 ? r->at[d[2]] : 0;
  gs_id arg = n->arg[0];
  for (int k = 0; k < 3; k++) saved[k] = d[k] >= 0 ? r->at[d[k]] : 0;
  bool past = n->op == GS_OP_SPLIT && i1 * r->c->sizes[d[2]] + i2 >= r->c->sizes[d[0]];
  if (past) return 0;
  if (n->op == GS_OP_SPLIT) r->at[d[0]] = i1 * r->c->sizes[d[2]] + i2;
  if (n->op == GS_OP_MERGE) {
    r->at[d[1]] = i0 / r->c->sizes[d[2]];
    r->at[d[2]] = i0 % r->c->sizes[d[2]];
  }
  if (n->op == GS_OP_PICK) r->at[d[0]] = n->index;
  if (n->op == GS_OP_SLICE) r->at[d[0]] = i1 + n->index;
  if (n->op == GS_OP_RENAME) r->at[d[0]] = i1;
  if (n->op == GS_OP_JOIN) arg = n->arg[i0];
  double v = ref_value(r, arg);
  for (int k = 0; k < 3; k++)
    if (d[k] >= 0) r->at[d[k]] = saved[k];
  return v;
}

static inline double ref_gather(reference *r, const gs_node *n) {
  int64_t saved = r->at[n->dim[0]];
  double v = 0;
  if (n->op == GS_OP_AT) {
    if (n->nargs == 3 && ref_value(r, n->arg[2]) == 0) return 0;
    r->at[n->dim[0]] = (int64_t)ref_value(r, n->arg[1]);
    v = ref_value(r, n->arg[0]);
  } else {
    int64_t size = r->c->sizes[gs_graph_dim_root(r->c->g, n->dim[0])], want = r->at[n->dim[1]];
    for (int64_t i = 0; i < size; i++) {
      r->at[n->dim[0]] = i;
      if (ref_value(r, n->arg[1]) != (double)want) continue;
      v += ref_value(r, n->arg[0]);
      if (r->f32) v = (float)v;
    }
  }
  r->at[n->dim[0]] = saved;
  return v;
}

static inline double ref_leaf(reference *r, const gs_node *n) {
  if (n->op == GS_OP_CONST) return r->f32 && n->type == GS_F32 ? (float)n->value : n->value;
  if (n->op == GS_OP_STATE) return r->of_state[n->index];
  if (n->op == GS_OP_ELEMENT) return r->of_element[n->index];
  if (n->op == GS_OP_INDEX) return (double)r->at[n->dim[0]];
  if (n->op == GS_OP_SIZE) return (double)r->c->sizes[gs_graph_dim_root(r->c->g, n->dim[0])];
  const gs_tensor *t = gs_graph_tensor_at(r->c->g, (int)n->index);
  size_t o = 0;
  for (int k = 0; k < t->ndims; k++)
    o = o * (size_t)r->c->sizes[gs_graph_dim_root(r->c->g, t->dim[k])] + (size_t)r->at[t->dim[k]];
  return r->c->data[n->index][o];
}

static inline double ref_lookup(const gs_table *t, double i) {
  return t->value[i < 0 ? 0 : i > t->count - 1 ? t->count - 1 : (int)i];
}

static inline double ref_bucket(const gs_table *t, double x) {
  int n = 0;
  for (int i = 0; i < t->count; i++) n += t->value[i] < x;
  return n;
}

static inline double ref_map(const gs_graph *g, const gs_node *n, const double *x) {
  int64_t a = (int64_t)x[0], b = x[1] > 0 ? (int64_t)x[1] : 1;
  switch (n->op) {
  case GS_OP_LOG1P: return log1p(x[0]);
  case GS_OP_EXPM1: return expm1(x[0]);
  case GS_OP_SOFTPLUS: return x[0] > 0 ? x[0] + log1p(exp(-x[0])) : log1p(exp(x[0]));
  case GS_OP_INTEGER: return floor(x[0]);
  case GS_OP_QUOTIENT: return (double)((a - ((a % b) + b) % b) / b);
  case GS_OP_REMAINDER: return (double)(((a % b) + b) % b);
  case GS_OP_RAND: return (double)gs_random_at(a, (int64_t)x[1], (int64_t)x[2]);
  case GS_OP_LOOKUP: return ref_lookup(gs_graph_table_at(g, (int)n->index), x[0]);
  case GS_OP_BUCKET: return ref_bucket(gs_graph_table_at(g, (int)n->index), x[0]);
  case GS_OP_NEG: return -x[0];
  case GS_OP_ABS: return fabs(x[0]);
  case GS_OP_EXP: return exp(x[0]);
  case GS_OP_LOG: return log(x[0]);
  case GS_OP_SQRT: return sqrt(x[0]);
  case GS_OP_RSQRT: return 1 / sqrt(x[0]);
  case GS_OP_TANH: return tanh(x[0]);
  case GS_OP_SIGMOID: return 1 / (1 + exp(-x[0]));
  case GS_OP_SIN: return sin(x[0]);
  case GS_OP_COS: return cos(x[0]);
  case GS_OP_ERF: return erf(x[0]);
  case GS_OP_FLOOR: return floor(x[0]);
  case GS_OP_NOT: return x[0] == 0;
  case GS_OP_ADD: return x[0] + x[1];
  case GS_OP_SUB: return x[0] - x[1];
  case GS_OP_MUL: return x[0] * x[1];
  case GS_OP_DIV: return x[0] / x[1];
  case GS_OP_POW: return pow(x[0], x[1]);
  case GS_OP_MIN: return fmin(x[0], x[1]);
  case GS_OP_MAX: return fmax(x[0], x[1]);
  case GS_OP_LT: return x[0] < x[1];
  case GS_OP_LE: return x[0] <= x[1];
  case GS_OP_GT: return x[0] > x[1];
  case GS_OP_GE: return x[0] >= x[1];
  case GS_OP_EQ: return x[0] == x[1];
  case GS_OP_NE: return x[0] != x[1];
  case GS_OP_AND: return x[0] != 0 && x[1] != 0;
  case GS_OP_OR: return x[0] != 0 || x[1] != 0;
  case GS_OP_WHERE: return x[0] != 0 ? x[1] : x[2];
  default: return x[0]; /* REAL, ROUND, ROUND_RAND, STOP */
  }
}

static inline double ref_value(reference *r, gs_id id) {
  const gs_node *n = gs_graph_node(r->c->g, id);
  if (++r->calls > r->limit) return 0;
  if (n->op <= GS_OP_SIZE || n->op == GS_OP_STATE || n->op == GS_OP_ELEMENT) return ref_leaf(r, n);
  if (n->op == GS_OP_FOLD) return ref_fold(r, n);
  if (n->op >= GS_OP_SUM && n->op <= GS_OP_LOGSUMEXP) return ref_reduce(r, n);
  if (n->op >= GS_OP_SPLIT && n->op <= GS_OP_JOIN) return ref_view(r, n);
  if (n->op >= GS_OP_AT) return ref_gather(r, n);
  double x[3] = {0};
  for (int k = 0; k < n->nargs; k++) x[k] = ref_value(r, n->arg[k]);
  return ref_round(r, n, ref_map(r->c->g, n, x));
}

/* Element i of a value with dims in ascending order, the last fastest. */
static inline void ref_point(reference *r, gs_dims dims, size_t i) {
  for (int d = gs_graph_ndims(r->c->g) - 1; d >= 0; d--) {
    if (!(dims >> d & 1)) continue;
    size_t size = (size_t)r->c->sizes[gs_graph_dim_root(r->c->g, d)];
    r->at[d] = (int64_t)(i % size);
    i /= size;
  }
}

static inline void case_print(const graph_case *c, gs_id root) {
  gs_text t = {0};
  gs_dump(c->g, &root, NULL, 1, &t);
  fprintf(stderr, "seed %llu (set GS_SEED to repeat)\n%s", (unsigned long long)c->seed, t.s);
  gs_text_free(&t);
}

#endif
