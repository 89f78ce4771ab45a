/* uses: gs_author gs_graph gs_assets */
/* Every shipped layer and those of tests/layers/good, every differentiable input, several odd
 * sizes: the closed form agrees with the adjoint of the forward, and both with central differences,
 * in float64. */
#include "layer_case.h"

#include <dirent.h>
#include <stdio.h>

static gs_author *author(void) {
  gs_author *a;
  gs_error e;
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  return a;
}

static bool close_to(double a, double b, double tolerance, double scale) {
  return fabs(a - b) <= tolerance * (fabs(a) + fabs(b) + scale);
}

/* The largest magnitude, 0.01 at least, as the inputs are about 1: what cancellation is measured
 * against. */
static double magnitude(const gs_array *a) {
  double m = 0.01;
  for (size_t k = 0; k < a->count; k++) m = fmax(m, fabs(a->v[k]));
  return m;
}

static gs_id adjoint_of(layer_case *c, int x) {
  gs_graph *g = c->i->g;
  gs_id y[16], dy[16], in = gs_input(g, x), d = 0;
  int n = 0;
  gs_error e;
  for (int k = 0; k < c->i->nforward; k++) {
    char name[80];
    snprintf(name, sizeof name, "d%s", c->i->forward[k].name);
    int t = case_tensor(c, name);
    if (c->i->forward[k].is_saved || t < 0) continue;
    y[n] = c->i->forward[k].expr;
    dy[n++] = gs_input(g, t);
  }
  cr_assert_eq(gs_adjoint(g, y, dy, n, &in, 1, &d, &e), GS_OK, "%s: %s", c->decl->name, e.message);
  return d;
}

/* sum over outputs of upstream times output. */
static double objective(const layer_case *c) {
  double total = 0;
  for (int k = 0; k < c->i->nforward; k++) {
    const gs_result *r = &c->i->forward[k];
    char name[80];
    snprintf(name, sizeof name, "d%s", r->name);
    int t = case_tensor(c, name);
    if (r->is_saved || t < 0) continue;
    gs_array a = case_eval(c, r->expr);
    for (size_t j = 0; j < c->count[t]; j++) total += c->tensor[t][j] * case_value(c, &a, r, j);
    gs_array_free(&a);
  }
  return total;
}

static double difference(layer_case *c, int t, size_t at) {
  double *x = &c->tensor[t][at], base = *x, h = 1e-5 * (1 + fabs(base));
  *x = base + h;
  double up = objective(c);
  *x = base - h;
  double down = objective(c);
  *x = base;
  return (up - down) / (2 * h);
}

/* Where the closed form first departs from the adjoint or from differences, into why; false if so.
 */
static bool agrees(layer_case *c, const gs_result *r, char *why, size_t cap) {
  int t = case_tensor(c, r->name + 1);
  gs_array closed = case_eval(c, r->expr), adjoint = case_eval(c, adjoint_of(c, t));
  double scale = magnitude(&closed), a = 0, b = 0;
  size_t n = case_result_count(c, r), k;
  const char *what = "adjoint";
  bool ok = true;
  for (k = 0; ok && k < n; k++) {
    a = case_value(c, &closed, r, k), b = case_value(c, &adjoint, r, k);
    ok = close_to(a, b, 1e-11, scale);
  }
  for (int j = 0; ok && j < 6; j++) {
    what = "differences";
    k = (size_t)below(&c->seed, (int64_t)n);
    a = case_value(c, &closed, r, k), b = difference(c, t, k);
    ok = close_to(a, b, 2e-7, scale);
  }
  if (!ok)
    snprintf(why, cap, "%s: %s near [%zu]: closed form %.12g, %s %.12g", c->decl->name, r->name, k,
             a, what, b);
  gs_array_free(&closed);
  gs_array_free(&adjoint);
  return ok;
}

static bool layer_agrees(const char *name, const int64_t *sizes, const char *option, double value,
                         char *why, size_t cap) {
  gs_author *a = author();
  gs_choice choice = {.dtype = GS_F32,
                      .noptions = option ? 1 : 0,
                      .option_names = &option,
                      .option_values = &value};
  bool ok = true;
  for (uint64_t seed = 1; ok && seed <= 2; seed++) {
    layer_case c = case_open(a, name, sizes, option ? &choice : NULL, seed * 77);
    int wanted = 0;
    for (int k = 0; k < c.decl->nparams; k++)
      wanted += c.decl->differentiable[k] && !c.decl->optional[k];
    cr_assert(c.i->nbackward >= (c.i->is_kernel ? 0 : wanted), "%s", name);
    for (int k = 0; ok && k < c.i->nbackward; k++) ok = agrees(&c, &c.i->backward[k], why, cap);
    case_close(&c);
  }
  gs_author_free(a);
  return ok;
}

static const struct {
  const char *name, *option;
  double value;
  int64_t sizes[3][6];
} layers[] = {
    {"rmsnorm", NULL, 0, {{3, 7}, {1, 1}, {5, 33}}},
    {"rmsnorm", "gemma", 1, {{3, 7}, {2, 1}, {5, 33}}},
    {"add", NULL, 0, {{3, 7}, {1, 1}, {5, 33}}},
    {"residual_rmsnorm", NULL, 0, {{3, 7}, {1, 1}, {5, 33}}},
    {"residual_rmsnorm", "gemma", 1, {{3, 7}, {1, 2}, {5, 33}}},
    {"swiglu", NULL, 0, {{3, 7}, {1, 1}, {5, 33}}},
    {"rope", NULL, 0, {{3, 2, 6}, {1, 1, 2}, {5, 3, 22}}},
    {"cross_entropy", NULL, 0, {{3, 7}, {1, 2}, {9, 33}}},
    {"mean_loss", NULL, 0, {{3}, {1}, {17}}},
    {"embedding", NULL, 0, {{3, 7, 5}, {1, 1, 1}, {9, 4, 3}}},
    {"lora", NULL, 0, {{3, 7}, {1, 1}, {5, 33}}},
    {GS_TEST_DIR "/layers/good/views.lua", NULL, 0, {{3, 2, 6}, {1, 1, 6}, {5, 3, 12}}},
    {GS_TEST_DIR "/layers/good/reductions.lua", NULL, 0, {{3, 2, 7}, {2, 1, 1}, {5, 3, 9}}},
    {GS_TEST_DIR "/layers/good/scaled_tanh.lua", NULL, 0, {{3, 7}, {1, 1}, {5, 33}}},
    {GS_TEST_DIR "/layers/good/softclamp_glu.lua", NULL, 0, {{3, 7}, {1, 1}, {5, 33}}},
    {"cast", NULL, 0, {{3, 7}, {1, 1}, {5, 33}}},
    {"attention", NULL, 0, {{3, 4, 2, 2, 1, 5}, {1, 1, 1, 1, 1, 1}, {7, 5, 4, 1, 3, 3}}},
    {"attention", "cap", 1.5, {{3, 4, 2, 2, 1, 5}, {1, 1, 2, 1, 1, 1}, {7, 7, 3, 1, 2, 3}}},
    {"attention", "sink", 1, {{3, 4, 2, 2, 1, 5}, {1, 1, 2, 1, 1, 1}, {7, 7, 3, 1, 2, 3}}},
};

Test(layers, closed_form_is_adjoint_is_differences) {
  char why[512];
  for (size_t k = 0; k < sizeof layers / sizeof layers[0]; k++)
    for (int j = 0; j < 3; j++) {
      int64_t sizes[GS_MAX_DIMS] = {0};
      memcpy(sizes, layers[k].sizes[j], sizeof layers[k].sizes[j]);
      cr_expect(
          layer_agrees(layers[k].name, sizes, layers[k].option, layers[k].value, why, sizeof why),
          "%s", why);
    }
}

/* Each file of tests/layers/bad_math is well-formed and wrong: the comparison must see it. */
Test(layers, wrong_mathematics_is_seen) {
  DIR *dir = opendir(GS_TEST_DIR "/layers/bad_math");
  int n = 0;
  cr_assert(dir);
  for (struct dirent *d; (d = readdir(dir));) {
    char path[1024], why[512];
    int64_t sizes[GS_MAX_DIMS] = {7, 6, 6, 6, 6, 6};
    if (!strstr(d->d_name, ".lua")) continue;
    snprintf(path, sizeof path, "%s/layers/bad_math/%s", GS_TEST_DIR, d->d_name);
    cr_expect(!layer_agrees(path, sizes, NULL, 0, why, sizeof why), "%s was not seen", d->d_name);
    n++;
  }
  closedir(dir);
  cr_assert(n >= 18, "only %d files", n);
}
