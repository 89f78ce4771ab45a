/* linear_ce.c: linear + cross entropy without a logits tensor (runtime/step/head.c) on a machine
 * with a GPU: loss and gradient of a few tokens against float64, at shapes that the emulator would
 * take hours for. W is frozen. Its time and memory: `gradsmith bench linear_cross_entropy`.
 *
 *   linear_ce [T H V [DEVICE]]     without arguments: the shapes of the table below, on "cuda"
 *
 * Needs no test library. Exit 1 when a value is wrong. */
#include "base/half.h"
#include "step/plan.h"
#include "step/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKED = 2 };

static const int64_t shapes[][3] = {{8192, 4096, 128256}, {8192, 5120, 151936}, {8192, 2048, 50257},
                                    {8192, 2048, 151669}, {4097, 2880, 128256}, {8192, 576, 49152}};

static gs_error err;
static uint64_t seed = 88172645463325252u;

static void must(gs_status s) {
  if (s == GS_OK) return;
  printf("%s\n", err.message);
  exit(2);
}

/* About normal: a sum of four uniforms of one draw. */
static float normal(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  int sum = (int)(seed & 0xffff) + (int)(seed >> 16 & 0xffff) + (int)(seed >> 32 & 0xffff) +
            (int)(seed >> 48);
  return ((float)sum - 131070.0f) * (1.0f / 37837.0f);
}

/* ---- the block ---- */

typedef struct rig {
  gs_device *d;
  gs_library *l;
  gs_record *r;
  int64_t T, H, V;
  gs_ptr x, w, label, inv_count, arena;
  uint16_t *host_x, *host_w;
  int32_t *host_label;
} rig;

static void upload(const rig *g, gs_ptr *at, const void *v, size_t bytes) {
  must(gs_device_alloc(g->d, bytes, at, &err));
  must(gs_device_upload(g->d, *at, v, bytes, &err));
  must(gs_device_sync(g->d, &err));
}

static void make_inputs(rig *g) {
  int64_t nx = g->T * g->H, nw = g->V * g->H;
  float inv = 1.0f / (float)g->T;
  g->host_x = malloc((size_t)nx * 2);
  g->host_w = malloc((size_t)nw * 2);
  g->host_label = malloc((size_t)g->T * 4);
  if (!g->host_x || !g->host_w || !g->host_label) exit(2);
  for (int64_t i = 0; i < nx; i++) g->host_x[i] = gs_f32_to_bf16(normal());
  for (int64_t i = 0; i < nw; i++) g->host_w[i] = gs_f32_to_bf16(0.02f * normal());
  for (int64_t i = 0; i < g->T; i++)
    g->host_label[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)g->V);
  upload(g, &g->x, g->host_x, (size_t)nx * 2);
  upload(g, &g->w, g->host_w, (size_t)nw * 2);
  upload(g, &g->label, g->host_label, (size_t)g->T * 4);
  upload(g, &g->inv_count, &inv, sizeof inv);
}

static void record(rig *g) {
  gs_record *r = g->r = gs_record_new(g->l, NULL, GS_STEP_GRADIENT, GS_BF16, g->T);
  int64_t sx[2] = {g->T, g->H}, sw[2] = {g->V, g->H};
  gs_head h = {.module = "head",
               .x = gs_record_fixed(r, "x", GS_BF16, 2, sx, g->x),
               .weight = gs_record_fixed(r, "w", GS_BF16, 2, sw, g->w),
               .last = -1,
               .label = gs_record_fixed(r, "label", GS_I32, 1, &g->T, g->label),
               .upstream = gs_record_fixed(r, "inv_count", GS_F32, 0, NULL, g->inv_count)};
  r->vars[h.x].needs_grad = true;
  must(gs_record_head(r, &h, &err));
  r->vars[r->vars[h.x].grad].keep = true;
}

/* Plans, compiles, runs. */
static void run(rig *g) {
  gs_plan plan;
  must(gs_plan_record(g->r, true, &plan, &err));
  must(gs_device_alloc(g->d, plan.bytes, &g->arena, &err));
  gs_plan_place(&plan, g->r, g->arena);
  must(gs_library_compile(g->l, &err));
  must(gs_run_acts(g->d, g->r, &err));
}

/* ---- what is checked ---- */

/* Loss and gradient of one token in float64; its logits rounded to bf16 as they are stored. */
static double exact_row(const rig *g, int64_t t, double *dx) {
  const uint16_t *x = g->host_x + t * g->H;
  double *z = malloc(sizeof *z * (size_t)g->V), top = -1e300, sum = 0;
  for (int64_t v = 0; v < g->V; v++) {
    const uint16_t *w = g->host_w + v * g->H;
    double s = 0;
    for (int64_t k = 0; k < g->H; k++) s += (double)gs_bf16_to_f32(x[k]) * gs_bf16_to_f32(w[k]);
    z[v] = gs_bf16_to_f32(gs_f32_to_bf16((float)s));
    top = fmax(top, z[v]);
  }
  for (int64_t v = 0; v < g->V; v++) sum += exp(z[v] - top);
  double lse = top + log(sum), loss = lse - z[g->host_label[t]];
  memset(dx, 0, sizeof *dx * (size_t)g->H);
  for (int64_t v = 0; v < g->V; v++) {
    double dz = (exp(z[v] - lse) - (v == g->host_label[t])) / (double)g->T;
    const uint16_t *w = g->host_w + v * g->H;
    for (int64_t k = 0; k < g->H; k++) dx[k] += dz * gs_bf16_to_f32(w[k]);
  }
  free(z);
  return loss;
}

static int find_var(const gs_record *r, const char *name) {
  int v = 0;
  while (v < r->nvars && strcmp(r->vars[v].name, name) != 0) v++;
  return v;
}

static bool check_rows(const rig *g) {
  const gs_record *r = g->r;
  int dx = r->vars[find_var(r, "x")].grad, losses = find_var(r, "head losses");
  gs_type type = r->vars[dx].type;
  size_t row = gs_type_size(type) * (size_t)g->H;
  void *have = malloc(row);
  float loss = 0;
  double *want = malloc(sizeof *want * (size_t)g->H), mean;
  bool ok = true;
  must(gs_device_download(g->d, &loss, r->vars[r->head.loss].ptr, sizeof loss, &err));
  must(gs_device_sync(g->d, &err));
  mean = loss;
  for (int i = 0; i < CHECKED; i++) {
    int64_t t = i * (g->T - 1) / (CHECKED - 1);
    double e = exact_row(g, t, want), far = 0, all = 0;
    must(gs_device_download(g->d, have, r->vars[dx].ptr + (gs_ptr)t * row, row, &err));
    must(gs_device_download(g->d, &loss, r->vars[losses].ptr + (gs_ptr)t * 4, sizeof loss, &err));
    must(gs_device_sync(g->d, &err));
    for (int64_t k = 0; k < g->H; k++) {
      double off = gs_load_f64(have, type, (size_t)k) - want[k];
      far += off * off;
      all += want[k] * want[k];
    }
    bool good = sqrt(far / all) < 4e-3 && isfinite(mean);
    if (i == 0 || !good)
      printf("    token %lld: loss %.6f (exact %.6f), gradient off by %.1e\n", (long long)t, loss,
             e, sqrt(far / all));
    ok = ok && good && fabs(loss - e) < 2e-3;
  }
  free(have);
  free(want);
  return ok;
}

static bool run_shape(const int64_t *s, const char *device) {
  rig g = {.T = s[0], .H = s[1], .V = s[2]};
  must(gs_device_open(device, &(gs_device_options){0}, &g.d, &err));
  must(gs_library_new(g.d, &g.l, &err));
  make_inputs(&g);
  record(&g);
  run(&g);
  printf("%lld x %lld -> %lld\n", (long long)g.T, (long long)g.H, (long long)g.V);
  bool ok = check_rows(&g);
  gs_record_free(g.r);
  free(g.host_x);
  free(g.host_w);
  free(g.host_label);
  gs_library_free(g.l);
  gs_device_close(g.d);
  return ok;
}

int main(int argc, char **argv) {
  int64_t one[3];
  bool ok = true;
  if (argc >= 4) {
    for (int i = 0; i < 3; i++) one[i] = strtoll(argv[i + 1], NULL, 10);
    ok = run_shape(one, argc > 4 ? argv[4] : "cuda");
  } else {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
      ok = run_shape(shapes[i], "cuda") && ok;
  }
  printf("%s\n", ok ? "values agree" : "FAIL");
  return ok ? 0 : 1;
}
