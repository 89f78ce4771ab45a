/* uses: gs_step gs_model gs_device */
/* Gradients that meet: a graph in which one result is read by two linears and two layers, recorded
 * by hand. Its gradient is a sum of several contributions: written, added to, and in bf16 cast
 * before it enters a matrix product. Held against central differences of the loss in f32, and bf16
 * against f32. */
#include "base/half.h"
#include "step/plan.h"
#include "step/run.h"
#include "tiny_model.h"

enum { T = 13, H = 12, V = 17, NMODULES = 4 };

static gs_error err;

typedef struct rig {
  gs_device *d;
  gs_library *l;
  gs_params *p;
  gs_record *r;
  gs_ptr arena, memory[16];
  int nmemory, loss;
} rig;

static int fixed(rig *g, const char *name, gs_type type, int ndims, int64_t a, int64_t b,
                 const double *v) {
  int64_t shape[2] = {a, b}, n = ndims == 0 ? 1 : ndims == 1 ? a : a * b;
  size_t size = gs_type_size(type);
  char *raw = calloc((size_t)n, size);
  for (int64_t i = 0; i < n; i++) {
    if (type == GS_I32)
      ((int32_t *)(void *)raw)[i] = (int32_t)v[i];
    else
      gs_store_f64(raw, type, (size_t)i, v[i]);
  }
  gs_ptr *at = &g->memory[g->nmemory++];
  must(gs_device_alloc(g->d, (size_t)n * size, at, &err), &err);
  must(gs_device_upload(g->d, *at, raw, (size_t)n * size, &err), &err);
  must(gs_device_sync(g->d, &err), &err);
  free(raw);
  return gs_record_fixed(g->r, name, type, ndims, shape, *at);
}

static int layer(rig *g, const char *name, const char *a, int x, const char *b, int y) {
  gs_named args[2] = {{a, x, 0}, {b, y, 0}};
  gs_call *c;
  must(gs_record_layer(g->r, name, args, 2, NULL, 0, &c, &err), &err);
  return c->result[0];
}

static int linear(rig *g, const char *name, int x, int w) {
  int y;
  must(gs_record_linear(g->r, name, x, w, &y, &err), &err);
  return y;
}

static const double *random_values(int n, double scale, double offset) {
  static double v[4096];
  for (int i = 0; i < n; i++)
    v[i] = gs_bf16_to_f32(gs_f32_to_bf16((float)(offset + scale * tiny_random())));
  return v;
}

/* h = a(x); y = swiglu(h, b(h)) + rmsnorm(h) + c(h); the loss of head(y). */
static void record(rig *g, gs_type t) {
  double label[T], one = 1.0 / (T - 1);
  int x = fixed(g, "x", t, 2, T, H, random_values(T * H, 1, 0));
  int h = linear(g, "a", x, fixed(g, "a", t, 2, H, H, random_values(H * H, 0.3, 0)));
  int b = linear(g, "b", h, fixed(g, "b", t, 2, H, H, random_values(H * H, 0.3, 0)));
  int c = linear(g, "c", h, fixed(g, "c", t, 2, H, H, random_values(H * H, 0.3, 0)));
  int n = layer(g, "rmsnorm", "x", h, "w", fixed(g, "w", t, 1, H, 1, random_values(H, 0.1, 1)));
  int s = layer(g, "add", "x", layer(g, "swiglu", "gate", h, "up", b), "r", n);
  int y = layer(g, "add", "x", s, "r", c);
  for (int i = 0; i < T; i++) label[i] = i == 3 ? -100 : (i * 5) % V;
  gs_head head = {.module = "head",
                  .x = y,
                  .weight = fixed(g, "head", t, 2, V, H, random_values(V * H, 0.3, 0)),
                  .label = fixed(g, "label", GS_I32, 1, T, 1, label),
                  .upstream = fixed(g, "inv_count", GS_F32, 0, 1, 1, &one)};
  g->r->chunk = 5;
  must(gs_record_head(g->r, &head, &err), &err);
  g->loss = g->r->head.loss;
  must(gs_record_backward(g->r, &err), &err);
}

static rig open_rig(gs_type t) {
  static const gs_module modules[NMODULES] = {
      {"a", H, H}, {"b", H, H}, {"c", H, H}, {"head", H, V}};
  rig g = {0};
  gs_plan plan;
  gs_lora lora;
  gs_device_options o = {.checked = true};
  tiny_state = 4242;
  must(gs_device_open("emu", &o, &g.d, &err), &err);
  must(gs_library_new(g.d, &g.l, &err), &err);
  must(gs_lora_parse("r=2,alpha=3,targets=a+b+c+head", &lora, &err), &err);
  must(gs_params_new(g.d, modules, NMODULES, &lora, t, 1, &g.p, &err), &err);
  float *v = calloc((size_t)gs_params_count(g.p), sizeof *v);
  for (int i = 0; i < gs_params_ntensors(g.p); i++) {
    int64_t at;
    gs_weight w = gs_params_tensor(g.p, i, &at);
    for (int64_t k = 0; k < w.shape[0] * w.shape[1]; k++)
      v[at + k] = (float)*random_values(1, 0.2, 0);
  }
  must(gs_params_write(g.p, GS_MASTER, v, &err), &err);
  free(v);
  g.r = gs_record_new(g.l, g.p, GS_STEP_GRADIENT, t, T);
  record(&g, t);
  must(gs_plan_record(g.r, true, &plan, &err), &err);
  must(gs_device_alloc(g.d, plan.bytes, &g.arena, &err), &err);
  gs_plan_place(&plan, g.r, g.arena);
  must(gs_library_compile(g.l, &err), &err);
  return g;
}

static void close_rig(rig *g) {
  gs_record_free(g->r);
  gs_params_free(g->p);
  gs_library_free(g->l);
  gs_device_close(g->d);
}

static double run(const rig *g) {
  float loss;
  must(gs_run_acts(g->d, g->r, &err), &err);
  must(gs_device_download(g->d, &loss, g->r->vars[g->loss].ptr, sizeof loss, &err), &err);
  must(gs_device_sync(g->d, &err), &err);
  return loss;
}

static float *read_all(const rig *g, gs_param_kind kind) {
  float *v = malloc(sizeof *v * (size_t)gs_params_count(g->p));
  must(gs_params_read(g->p, kind, v, &err), &err);
  return v;
}

Test(record, gradients_that_meet_against_differences) {
  rig g = open_rig(GS_F32);
  run(&g);
  float *grad = read_all(&g, GS_GRAD), *base = read_all(&g, GS_MASTER);
  int64_t n = gs_params_count(g.p);
  float *v = malloc(sizeof *v * (size_t)n);
  for (int i = 0; i < gs_params_ntensors(g.p); i++) {
    int64_t at;
    gs_weight w = gs_params_tensor(g.p, i, &at);
    int64_t count = w.shape[0] * w.shape[1];
    double norm = 0, h = 1e-2, loss[2];
    for (int64_t k = 0; k < count; k++) norm += (double)grad[at + k] * grad[at + k];
    norm = sqrt(norm);
    cr_assert(norm > 1e-3);
    for (int side = 0; side < 2; side++) {
      memcpy(v, base, sizeof *v * (size_t)n);
      for (int64_t k = 0; k < count; k++)
        v[at + k] = (float)(base[at + k] + (side ? -h : h) * grad[at + k] / norm);
      must(gs_params_write(g.p, GS_MASTER, v, &err), &err);
      loss[side] = run(&g);
    }
    double along = (loss[0] - loss[1]) / (2 * h);
    cr_assert(fabs(along - norm) < 0.01 * norm + 1e-4, "%s: %g by differences, %g", w.name, along,
              norm);
  }
  free(v);
  free(base);
  free(grad);
  close_rig(&g);
}

Test(record, bf16_gradients_that_meet_are_cast_once) {
  rig a = open_rig(GS_F32), b = open_rig(GS_BF16);
  int casts = 0;
  double far = 0, all = 0;
  cr_assert(fabs(run(&a) - run(&b)) < 0.03);
  float *x = read_all(&a, GS_GRAD), *y = read_all(&b, GS_GRAD);
  for (int64_t i = 0; i < gs_params_count(a.p); i++) {
    far += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    all += (double)x[i] * x[i];
  }
  cr_assert(far < 0.02 * 0.02 * all, "%g of %g", sqrt(far), sqrt(all));
  for (int i = 0; i < b.r->nacts; i++) casts += strcmp(b.r->acts[i].what, "cast") == 0;
  /* of h, and of what the head's adapter sums up: every other linear's result has one reader */
  cr_assert(casts == 2, "%d casts", casts);
  free(x);
  free(y);
  close_rig(&a);
  close_rig(&b);
}
