/* linear_ce.c: linear + cross entropy without a logits tensor (runtime/step/head.c) on a machine
 * with a GPU: its time beside the same two matrix products over all tokens at once, in turns in the
 * same run; its memory; and loss and gradient of a few tokens against float64. W is frozen.
 *
 *   linear_ce [T H V [DEVICE]]     without arguments: the shapes of the table below, on "cuda"
 *
 * Needs no test library. Exit 1 when a value is wrong; times are printed, not judged. */
#include "base/half.h"
#include "step/plan.h"
#include "step/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 11, CHECKED = 2 };

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

/* ---- what is timed ---- */

typedef struct contender {
  const char *name;
  gs_record *r;
  gs_exec *exec;
  size_t bytes; /* of its arena */
  double ms[ROUNDS];
} contender;

typedef struct rig {
  gs_device *d;
  gs_library *l;
  int64_t T, H, V;
  gs_ptr x, w, label, inv_count;
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

static gs_record *new_record(const rig *g, int *x, int *w) {
  gs_record *r = gs_record_new(g->l, NULL, GS_STEP_GRADIENT, GS_BF16, g->T);
  int64_t sx[2] = {g->T, g->H}, sw[2] = {g->V, g->H};
  *x = gs_record_fixed(r, "x", GS_BF16, 2, sx, g->x);
  *w = gs_record_fixed(r, "w", GS_BF16, 2, sw, g->w);
  return r;
}

/* Leaves out everything that is no matrix product. */
static void keep_products(gs_record *r) {
  int n = 0;
  for (int i = 0; i < r->nacts; i++)
    if (r->acts[i].kind == GS_ACT_GEMM) r->acts[n++] = r->acts[i];
  r->nacts = n;
}

/* Plans, compiles, captures. */
static void prepare(const rig *g, contender *c, bool only_products) {
  gs_plan plan;
  gs_ptr arena;
  must(gs_plan_record(c->r, true, &plan, &err));
  c->bytes = plan.bytes;
  must(gs_device_alloc(g->d, plan.bytes, &arena, &err));
  gs_plan_place(&plan, c->r, arena);
  must(gs_library_compile(g->l, &err));
  if (only_products) keep_products(c->r);
  must(gs_device_capture_begin(g->d, &err));
  must(gs_run_acts(g->d, c->r, &err));
  must(gs_device_capture_end(g->d, &c->exec, &err));
}

static contender make_head(const rig *g, bool only_products) {
  contender c = {.name = only_products ? "its products alone" : "linear + cross entropy"};
  int x, w;
  c.r = new_record(g, &x, &w);
  c.r->vars[x].needs_grad = true;
  gs_head h = {.module = "head",
               .x = x,
               .weight = w,
               .last = -1,
               .label = gs_record_fixed(c.r, "label", GS_I32, 1, &g->T, g->label),
               .upstream = gs_record_fixed(c.r, "inv_count", GS_F32, 0, NULL, g->inv_count)};
  must(gs_record_head(c.r, &h, &err));
  c.r->vars[c.r->vars[x].grad].keep = true;
  prepare(g, &c, only_products);
  return c;
}

/* logits = x·Wᵀ, dx = logits·W: all tokens at once, rows of the logits aligned as the head's. */
static contender make_products(const rig *g) {
  contender c = {.name = "two products, all tokens"};
  int x, w;
  c.r = new_record(g, &x, &w);
  int64_t sz[2] = {g->T, g->V}, sx[2] = {g->T, g->H};
  int z = gs_record_var(c.r, "z", GS_BF16, 2, sz), dx = gs_record_var(c.r, "dx", GS_BF16, 2, sx);
  c.r->vars[z].stride = (g->V + 63) / 64 * 64;
  gs_record_gemm(c.r, "z", x, false, w, true, z, 1, false);
  gs_record_gemm(c.r, "dx", z, false, w, false, dx, 1, false);
  prepare(g, &c, false);
  return c;
}

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void time_all(const rig *g, contender *c, int n) {
  for (int round = -2; round < ROUNDS; round++)
    for (int i = 0; i < n; i++) {
      must(gs_device_sync(g->d, &err));
      double begin = now();
      must(gs_exec_launch(c[i].exec, &err));
      must(gs_device_sync(g->d, &err));
      if (round >= 0) c[i].ms[round] = now() - begin;
    }
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(contender *c) {
  qsort(c->ms, ROUNDS, sizeof *c->ms, by_value);
  return c->ms[ROUNDS / 2];
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

static bool check_rows(const rig *g, const contender *c) {
  const gs_record *r = c->r;
  int dx = r->vars[find_var(r, "x")].grad, losses = find_var(r, "head losses");
  size_t row = sizeof(float) * (size_t)g->H;
  float *have = malloc(row), loss = 0;
  double *want = malloc(sizeof *want * (size_t)g->H), mean;
  bool ok = true;
  must(gs_exec_launch(c->exec, &err));
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
      far += (have[k] - want[k]) * (have[k] - want[k]);
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
  contender c[3];
  must(gs_device_open(device, &(gs_device_options){0}, &g.d, &err));
  must(gs_library_new(g.d, &g.l, &err));
  make_inputs(&g);
  c[0] = make_head(&g, false);
  c[1] = make_head(&g, true);
  c[2] = make_products(&g);
  time_all(&g, c, 3);
  double ms[3], flops = 4.0 * (double)g.T * (double)g.H * (double)g.V;
  printf("%lld x %lld -> %lld, %lld tokens at a time\n", (long long)g.T, (long long)g.H,
         (long long)g.V, (long long)gs_head_chunk(g.T, g.V, GS_BF16));
  for (int i = 0; i < 3; i++) ms[i] = median(&c[i]);
  for (int i = 0; i < 3; i++)
    printf("    %-26s %8.3f ms  (%.3f to %.3f)  %.3f x  %4.0f TFLOP/s  %7.1f MiB\n", c[i].name,
           ms[i], c[i].ms[0], c[i].ms[ROUNDS - 1], ms[i] / ms[2], flops / ms[i] * 1e-9,
           (double)c[i].bytes / 1048576);
  bool ok = check_rows(&g, &c[0]);
  for (int i = 0; i < 3; i++) {
    gs_exec_free(c[i].exec);
    gs_record_free(c[i].r);
  }
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
