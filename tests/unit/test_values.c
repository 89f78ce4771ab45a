/* uses: gs_author gs_graph gs_assets gs_lua */
/* The functions of the language on values: each against the mathematics written out here. */
#include "layer_case.h"

#include "base/random.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#ifndef ROUNDS
#define ROUNDS 40
#endif

static gs_author *author(void) {
  gs_author *a;
  gs_error e;
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  return a;
}

static uint64_t fresh(int k) {
  const char *s = getenv("GS_SEED");
  return (s ? strtoull(s, NULL, 0) : (uint64_t)time(NULL) * 65537u + (uint64_t)getpid()) +
         (uint64_t)k * 77u;
}

/* The layer file with sizes of two dims. */
static layer_case open_case(gs_author *a, const char *file, const char *d0, int64_t s0,
                            const char *d1, int64_t s1, uint64_t seed) {
  gs_error e;
  gs_layer *l;
  int64_t sizes[GS_MAX_DIMS] = {0};
  cr_assert_eq(gs_layer_open(a, file, &l, &e), GS_OK, "%s", e.message);
  const gs_layer_decl *d = gs_layer_declaration(l);
  for (int k = 0; k < d->ndims; k++)
    sizes[k] = !strcmp(d->dims[k], d0) ? s0 : !strcmp(d->dims[k], d1) ? s1 : 0;
  return case_open(a, file, sizes, NULL, seed);
}

/* All elements of an output. */
static double *output(const layer_case *c, const char *name, size_t *count) {
  const gs_result *r = case_result(c->i->forward, c->i->nforward, name);
  cr_assert(r, "no output %s", name);
  gs_array a = case_eval(c, r->expr);
  *count = case_result_count(c, r);
  double *v = malloc(sizeof *v * (*count + 1));
  for (size_t k = 0; k < *count; k++) v[k] = case_value(c, &a, r, k);
  gs_array_free(&a);
  return v;
}

static void near(const layer_case *c, const char *name, size_t i, double got, double want) {
  cr_assert(fabs(got - want) <= 1e-11 * (1 + fabs(want)), "%s[%zu] of seed %llu: %.15g, not %.15g",
            name, i, (unsigned long long)c->seed, got, want);
}

/* ---- element by element ---- */

static double softplus(double x) {
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double bucket(double x) {
  static const double cuts[] = {-1, -0.25, 0.5, 1.25};
  int n = 0;
  while (n < 4 && cuts[n] < x) n++;
  return n;
}

static double expected(const char *name, double x) {
  static const double codes[] = {3, 1, -4, 1.5, -9};
  if (!strcmp(name, "silu")) return x / (1 + exp(-x));
  if (!strcmp(name, "gelu")) return x * 0.5 * erfc(-x / sqrt(2));
  if (!strcmp(name, "gelu_tanh")) {
    double u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-2 * u));
  }
  if (!strcmp(name, "relu")) return x > 0 ? x : 0;
  if (!strcmp(name, "softplus")) return softplus(x);
  if (!strcmp(name, "log_sigmoid")) return -softplus(-x);
  if (!strcmp(name, "sign")) return (x > 0) - (x < 0);
  if (!strcmp(name, "clamp")) return fmin(fmax(x, -0.5), 0.75);
  if (!strcmp(name, "log1p")) return log(1 + fabs(x));
  if (!strcmp(name, "expm1")) return exp(x) - 1;
  if (!strcmp(name, "bucket")) return bucket(x);
  if (!strcmp(name, "lookup")) return codes[(int)bucket(x)] - 4;
  if (!strcmp(name, "floor")) return floor(3 * x);
  if (!strcmp(name, "quotient")) return floor(floor(9 * x) / 4);
  if (!strcmp(name, "remainder")) return floor(9 * x) - 4 * floor(floor(9 * x) / 4);
  return 5; /* table_size */
}

static void check_maps(const layer_case *c) {
  static const char *const maps[] = {"silu",     "gelu",        "gelu_tanh", "relu",
                                     "softplus", "log_sigmoid", "sign",      "clamp",
                                     "log1p",    "expm1",       "bucket",    "lookup",
                                     "floor",    "quotient",    "remainder", "table_size"};
  const double *x = c->tensor[case_tensor(c, "x")];
  for (size_t m = 0; m < sizeof maps / sizeof *maps; m++) {
    size_t n;
    double *y = output(c, maps[m], &n);
    for (size_t i = 0; i < n; i++) near(c, maps[m], i, y[i], expected(maps[m], x[i]));
    free(y);
  }
}

/* ---- along the row ---- */

/* Place of the k-th largest, the lowest index first among equals. */
static size_t ranked(const double *x, size_t n, size_t k) {
  for (size_t i = 0; i < n; i++) {
    size_t before = 0;
    for (size_t j = 0; j < n; j++) before += x[j] > x[i] || (x[j] == x[i] && j < i);
    if (before == k) return i;
  }
  return n;
}

static void check_ranks(const layer_case *c, const char *value, const char *place, size_t count) {
  size_t n, rows = (size_t)case_size(c, "T"), wide = (size_t)case_size(c, "E");
  const double *x = c->tensor[case_tensor(c, "x")];
  double *v = value ? output(c, value, &n) : NULL, *at = output(c, place, &n);
  cr_assert_eq(n, rows * count);
  for (size_t t = 0; t < rows; t++)
    for (size_t k = 0; k < count; k++) {
      size_t want = ranked(x + t * wide, wide, k);
      near(c, place, t, at[t * count + k], (double)want);
      if (v) near(c, value, t, v[t * count + k], x[t * wide + want]);
    }
  free(v);
  free(at);
}

static void check_rows(const layer_case *c) {
  size_t n, rows = (size_t)case_size(c, "T"), wide = (size_t)case_size(c, "E");
  double *soft = output(c, "softmax", &n), *log_soft = output(c, "log_softmax", &n);
  double *mean = output(c, "mean", &n), *var = output(c, "var", &n), *low = output(c, "argmin", &n);
  double *extent = output(c, "extent", &n), *count = output(c, "count", &n);
  double *last = output(c, "last", &n);
  for (size_t t = 0; t < rows; t++) {
    const double *x = c->tensor[case_tensor(c, "x")] + t * wide;
    double mass = 0, sum = 0, square = 0, high = x[0];
    size_t least = 0;
    for (size_t i = 0; i < wide; i++) {
      mass += exp(x[i]);
      sum += x[i];
      high = fmax(high, x[i]);
      if (x[i] < x[least]) least = i;
    }
    for (size_t i = 0; i < wide; i++) {
      square += (x[i] - sum / (double)wide) * (x[i] - sum / (double)wide);
      near(c, "softmax", i, soft[t * wide + i], exp(x[i]) / mass);
      near(c, "log_softmax", i, log_soft[t * wide + i], x[i] - log(mass));
    }
    near(c, "mean", t, mean[t], sum / (double)wide);
    near(c, "var", t, var[t], square / (double)wide);
    near(c, "argmin", t, low[t], (double)least);
    near(c, "extent", t, extent[t], high - x[least]);
    near(c, "count", t, count[t], (double)wide);
    near(c, "last", t, last[t], (double)wide - 1);
  }
  double *all[] = {soft, log_soft, mean, var, low, extent, count, last};
  for (int k = 0; k < 8; k++) free(all[k]);
}

Test(values, functions_give_what_they_are_named_for) {
  gs_author *a = author();
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t seed = fresh(round);
    layer_case c = open_case(a, GS_TEST_DIR "/layers/values/functions.lua", "T",
                             1 + below(&seed, 5), "E", 12 + below(&seed, 30), seed);
    int t = case_tensor(&c, "x");
    for (size_t k = 0; k < c.count[t]; k++) { /* f32 values, ties often */
      c.tensor[t][k] = (double)(float)(4 * uniform(&seed));
      if (below(&seed, 3) == 0) c.tensor[t][k] = (double)below(&seed, 4) - 2;
    }
    check_maps(&c);
    check_rows(&c);
    check_ranks(&c, NULL, "argmax", 1);
    check_ranks(&c, "best", "best_at", 3);
    check_ranks(&c, "many", "many_at", 12);
    case_close(&c);
  }
  gs_author_free(a);
}

/* ---- blocks ---- */

static double code(double x) {
  double n = 0;
  for (double cut = -1.5; cut <= 1.5; cut += 0.5) n += cut < x;
  return n;
}

static void check_outer(const layer_case *c) {
  size_t n, count = (size_t)case_size(c, "N"), blocks = (count + 4) / 5, bytes = (count + 1) / 2;
  const double *x = c->tensor[case_tensor(c, "x")];
  double *mass = output(c, "mass", &n);
  cr_assert_eq(n, blocks);
  double *back = output(c, "back", &n), *codes = output(c, "codes", &n);
  cr_assert_eq(n, count);
  double *again = output(c, "back_codes", &n), *high = output(c, "high", &n);
  cr_assert_eq(n, bytes);
  double *low = output(c, "low", &n), *same = output(c, "pairs", &n);
  for (size_t b = 0; b < blocks; b++) {
    double sum = 0;
    for (size_t i = 5 * b; i < 5 * b + 5; i++) sum += i < count ? exp(x[i]) : 1;
    near(c, "mass", b, mass[b], sum);
  }
  for (size_t i = 0; i < count; i++) {
    near(c, "back", i, back[i], x[i] / mass[i / 5]);
    near(c, "codes", i, codes[i], code(x[i]));
    near(c, "back_codes", i, again[i], code(x[i]));
  }
  for (size_t i = 0; i < bytes; i++) {
    double first = code(x[2 * i]), second = 2 * i + 1 < count ? code(x[2 * i + 1]) : 0;
    near(c, "high", i, high[i], 16 * first + second);
    near(c, "low", i, low[i], 16 * second + first);
    near(c, "pairs", i, same[i], high[i]);
  }
  double *all[] = {mass, back, codes, again, high, low, same};
  for (int k = 0; k < 7; k++) free(all[k]);
}

static void check_inner(const layer_case *c) {
  size_t n, rows = (size_t)case_size(c, "N"), wide = (size_t)case_size(c, "E");
  size_t blocks = (wide + 3) / 4;
  const double *y = c->tensor[case_tensor(c, "y")];
  double *inner = output(c, "inner", &n), *back = output(c, "inner_back", &n);
  double *up = output(c, "up", &n);
  for (size_t t = 0; t < rows; t++) {
    for (size_t b = 0; b < blocks; b++) {
      double sum = 0;
      for (size_t i = 4 * b; i < 4 * b + 4 && i < wide; i++) sum += y[t * wide + i];
      near(c, "inner", b, inner[t * blocks + b], sum);
    }
    for (size_t i = t * wide; i < (t + 1) * wide; i++) {
      near(c, "inner_back", i, back[i], 2 * y[i]);
      near(c, "up", i, up[i], y[i]); /* rounding is not part of the reals */
    }
  }
  free(inner);
  free(back);
  free(up);
}

static void check_random(const layer_case *c) {
  size_t n, wide = (size_t)case_size(c, "E");
  double *rand = output(c, "rand", &n), *moved = output(c, "moved", &n), mean = 0;
  int64_t site = 0, seed = (int64_t)floor(c->tensor[case_tensor(c, "seed")][0]);
  uint32_t h = 2166136261u;
  for (const char *s = "here"; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
  site = h;
  for (size_t i = 0; i < n; i++) {
    near(c, "rand", i, rand[i], (double)gs_random_at((int64_t)i, site, seed));
    near(c, "moved", i, moved[i], (double)gs_random_at((int64_t)(i + 7 * wide), site, seed));
    mean += rand[i] / (double)n;
  }
  if (n > 500) cr_assert(fabs(mean - 0.5) < 0.1, "mean %g of %zu", mean, n);
  free(rand);
  free(moved);
}

Test(values, blocks_bytes_and_random_numbers) {
  gs_author *a = author();
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t seed = fresh(round);
    layer_case c = open_case(a, GS_TEST_DIR "/layers/values/blocks.lua", "N", 1 + below(&seed, 43),
                             "E", 1 + below(&seed, 23), seed);
    c.tensor[case_tensor(&c, "seed")][0] = (double)below(&seed, 1 << 20);
    check_outer(&c);
    check_inner(&c);
    check_random(&c);
    case_close(&c);
  }
  gs_author_free(a);
}
