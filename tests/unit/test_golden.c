/* uses: gs_step gs_model gs_device */
/* A tiny Llama's logits, loss, adapter gradients and twenty steps against transformers + peft
 * (tests/golden/make_tiny_llama.py). f32 agrees to 1e-5 of each array's largest value. For bf16 the
 * yardstick is what rounding does to the reference itself: against the same values in float64, this
 * side's error is at most 1.25 times the reference's, plus one rounding of the largest value. */
#include "model/adapter.h"
#include "model/json.h"
#include "step/step.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 37 };

typedef struct golden {
  char dir[512];
  gs_device *d;
  gs_model *m;
  gs_params *p;
  gs_weights *adapter, *batch, *expected, *exact;
  int documents;
  int32_t cu[513];
} golden;

static void must(gs_status st, const gs_error *err) {
  cr_assert(st == GS_OK, "%s", err->message);
}

static const char *in(const golden *g, const char *name) {
  static char path[640];
  snprintf(path, sizeof path, "%s/%s", g->dir, name);
  return path;
}

static golden open_golden(const char *name, gs_type dtype) {
  golden g = {0};
  gs_error err = {0};
  gs_lora lora;
  int n;
  gs_device_options o = {0};
  snprintf(g.dir, sizeof g.dir, "%s/golden/tiny_llama_%s", GS_TEST_DIR, name);
  must(gs_device_open("emu", &o, &g.d, &err), &err);
  must(gs_model_open(g.d, in(&g, "model"), dtype, &g.m, &err), &err);
  must(gs_adapter_read(in(&g, "adapter"), &lora, &g.adapter, &err), &err);
  const gs_module *modules = gs_model_modules(g.m, &n);
  must(gs_params_new(g.d, modules, n, &lora, dtype, 0, &g.p, &err), &err);
  must(gs_params_load(g.p, g.adapter, in(&g, "adapter"), &err), &err);
  must(gs_weights_open(in(&g, "batch.safetensors"), &g.batch, &err), &err);
  must(gs_weights_open(in(&g, "expected.safetensors"), &g.expected, &err), &err);
  if (dtype != GS_F32) must(gs_weights_open(in(&g, "exact.safetensors"), &g.exact, &err), &err);
  return g;
}

static void close_golden(golden *g) {
  gs_params_free(g->p);
  gs_model_close(g->m);
  gs_device_close(g->d);
  gs_weights_close(g->adapter);
  gs_weights_close(g->batch);
  gs_weights_close(g->expected);
  if (g->exact) gs_weights_close(g->exact);
}

static const void *tensor(const gs_weights *w, const char *name) {
  const gs_weight *t = gs_weights_find(w, name);
  cr_assert(t, "no tensor %s", name);
  return t->data;
}

static gs_batch batch_of(golden *g) {
  const int32_t *start = tensor(g->batch, "start");
  int32_t tokens = (int32_t)gs_weights_find(g->batch, "start")->shape[0];
  cr_assert(tokens <= 512);
  g->documents = 0;
  for (int32_t i = 0; i < tokens; i++)
    if (start[i] == i) g->cu[g->documents++] = i;
  g->cu[g->documents] = tokens;
  return (gs_batch){.id = tensor(g->batch, "id"),
                    .label = tensor(g->batch, "label"),
                    .position = tensor(g->batch, "position"),
                    .cu = g->cu,
                    .documents = g->documents};
}

static double largest(const float *v, int64_t n) {
  double m = 0;
  for (int64_t i = 0; i < n; i++) m = fmax(m, fabs((double)v[i]));
  return m;
}

static double distance(const float *a, const float *b, int64_t n) {
  double s = 0;
  for (int64_t i = 0; i < n; i++) s += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
  return sqrt(s);
}

static void compare(const golden *g, const char *name, const float *ours, int64_t n) {
  const float *want = tensor(g->expected, name);
  if (!g->exact) {
    double scale = largest(want, n);
    for (int64_t i = 0; i < n; i++)
      cr_assert(fabs((double)ours[i] - want[i]) <= 1e-5 * scale,
                "%s[%lld]: %.8g, transformers %.8g (largest %.4g)", name, (long long)i, ours[i],
                want[i], scale);
    return;
  }
  const float *exact = tensor(g->exact, name);
  double mine = distance(ours, exact, n), theirs = distance(want, exact, n);
  double bound = 1.25 * theirs + 0x1p-9 * largest(exact, n);
  cr_assert(mine <= bound, "%s: error %.4g against float64, transformers' own is %.4g", name, mine,
            theirs);
}

static void check_gradients(const golden *g) {
  gs_error err = {0};
  float *flat = malloc(sizeof(float) * (size_t)gs_params_count(g->p));
  must(gs_params_read(g->p, GS_GRAD, flat, &err), &err);
  for (int i = 0; i < gs_params_ntensors(g->p); i++) {
    int64_t offset;
    char name[256];
    gs_weight w = gs_params_tensor(g->p, i, &offset);
    snprintf(name, sizeof name, "grad.%s", w.name);
    compare(g, name, flat + offset, w.shape[0] * w.shape[1]);
  }
  free(flat);
}

/* One step with logits of so many tokens at a time; 0: of all, which are compared, too. */
static void check_chunk(golden *g, gs_step_mode mode, int64_t chunk) {
  gs_error err = {0};
  gs_step *s;
  gs_step_result r;
  gs_step_options o = {.mode = mode,
                       .tokens = T,
                       .optimizer = gs_adamw_default(),
                       .chunk = chunk,
                       .keep_logits = !chunk};
  gs_batch b = batch_of(g);
  int64_t n = T * gs_model_vocab(g->m);
  float *logits = malloc(sizeof(float) * (size_t)n);
  must(gs_step_new(g->m, g->p, &o, &s, &err), &err);
  must(gs_step_run(s, &b, 0, 1, &r, &err), &err);
  float loss = (float)r.loss;
  compare(g, "loss", &loss, 1);
  if (mode == GS_STEP_GRADIENT) check_gradients(g);
  if (!chunk) must(gs_step_logits(s, logits, &err), &err);
  if (!chunk) compare(g, "logits", logits, n);
  free(logits);
  gs_step_free(s);
}

static void check_values(const char *name, gs_type dtype) {
  static const int64_t chunks[] = {0, 1, 7, T};
  golden g = open_golden(name, dtype);
  for (int i = 0; i < 4; i++) check_chunk(&g, GS_STEP_GRADIENT, chunks[i]);
  check_chunk(&g, GS_STEP_EVAL, 0);
  check_chunk(&g, GS_STEP_EVAL, 7);
  close_golden(&g);
}

Test(golden, float32_values) {
  check_values("f32", GS_F32);
}
Test(golden, bfloat16_values) {
  check_values("bf16", GS_BF16);
}

/* f32: every step within `bound` of peft. bf16: over the steps, no further from the float64 run
 * than `bound` times what peft is, as root mean squares: the largest of twenty hangs on the order
 * in which the machine's BLAS adds (0.0047 with one of its kernels, 0.0080 with another). */
static void check_steps(const char *name, gs_type dtype, const char *which, double clip,
                        double bound) {
  golden g = open_golden(name, dtype);
  gs_error err = {0};
  json_t *j;
  gs_step *s;
  gs_step_options o = {
      .mode = GS_STEP_TRAIN, .tokens = T, .optimizer = gs_adamw_default(), .chunk = 10};
  o.optimizer.max_norm = clip;
  gs_batch b = batch_of(&g);
  must(gs_json_read(in(&g, "losses.json"), &j, &err), &err);
  double lr = json_real_value(json_object_get(j, "lr"));
  json_t *losses = json_object_get(j, which);
  json_t *exact = json_object_get(j, "losses_exact");
  double mine = 0, theirs = 0;
  cr_assert(json_array_size(losses) == 20);
  must(gs_step_new(g.m, g.p, &o, &s, &err), &err);
  for (size_t i = 0; i < json_array_size(losses); i++) {
    gs_step_result r;
    must(gs_step_run(s, &b, lr, (int64_t)i + 1, &r, &err), &err);
    double want = json_real_value(json_array_get(losses, i));
    if (exact) {
      double e = json_real_value(json_array_get(exact, i));
      mine = hypot(mine, (r.loss - e) / e);
      theirs = hypot(theirs, (want - e) / e);
    } else {
      cr_assert(fabs(r.loss - want) <= bound * want, "step %zu: loss %.8g, peft %.8g", i + 1,
                r.loss, want);
    }
  }
  cr_assert(mine <= bound * theirs, "off the float64 run by %.3g, peft by %.3g (norms)", mine,
            theirs);
  gs_step_free(s);
  json_decref(j);
  close_golden(&g);
}

Test(golden, float32_twenty_steps) {
  check_steps("f32", GS_F32, "losses", 0, 1e-5);
}
Test(golden, float32_twenty_steps_clipped) {
  check_steps("f32", GS_F32, "losses_clipped", 0.02, 1e-5);
}
/* Twice: the matrix products read bf16 copies of A and B and round x·Aᵀ, which peft keeps in f32.
 */
Test(golden, bfloat16_twenty_steps) {
  check_steps("bf16", GS_BF16, "losses", 0, 2);
}
