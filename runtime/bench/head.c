/* head.c: linear + cross entropy without a logits tensor, as the step has it (step/head.c), beside
 * the same two matrix products over all tokens at once, in turns. The weight is frozen. */
#include "bench/bench.h"

#include "step/plan.h"
#include "step/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK, PRODUCTS, SIDES };

typedef struct side {
  gs_record *r;
  gs_ptr arena;
  size_t bytes;
  gs_exec *exec;
} side;

typedef struct rig {
  gs_device *d;
  gs_library *l;
  gs_type dtype;
  int64_t T, H, V;
  gs_ptr x, w, label, inv_count;
  side s[SIDES];
} rig;

static gs_status random_matrix(rig *g, int64_t n, double scale, gs_ptr *p, gs_error *err) {
  size_t bytes = (size_t)n * gs_type_size(g->dtype);
  gs_status st = gs_device_alloc(g->d, bytes, p, err);
  return st == GS_OK ? gs_fill_normal(g->d, *p, bytes, scale, err) : st;
}

static gs_status make_labels(rig *g, gs_error *err) {
  size_t bytes = sizeof(int32_t) * (size_t)g->T;
  float inv = 1.0f / (float)g->T;
  int32_t *label = malloc(bytes);
  if (!label) return gs_fail(err, GS_ERR_MEMORY, "no host memory for labels");
  for (int64_t i = 0; i < g->T; i++)
    label[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)g->V);
  gs_status st = gs_device_alloc(g->d, bytes, &g->label, err);
  if (st == GS_OK) st = gs_device_alloc(g->d, sizeof inv, &g->inv_count, err);
  if (st == GS_OK) st = gs_device_upload(g->d, g->label, label, bytes, err);
  if (st == GS_OK) st = gs_device_upload(g->d, g->inv_count, &inv, sizeof inv, err);
  if (st == GS_OK) st = gs_device_sync(g->d, err);
  free(label);
  return st;
}

static gs_record *new_record(const rig *g, int *x, int *w) {
  gs_record *r = gs_record_new(g->l, NULL, GS_STEP_GRADIENT, g->dtype, g->T);
  int64_t sx[2] = {g->T, g->H}, sw[2] = {g->V, g->H};
  *x = gs_record_fixed(r, "x", g->dtype, 2, sx, g->x);
  *w = gs_record_fixed(r, "w", g->dtype, 2, sw, g->w);
  return r;
}

static gs_status record_block(const rig *g, gs_record **out, gs_error *err) {
  int x, w;
  gs_record *r = *out = new_record(g, &x, &w);
  r->vars[x].needs_grad = true;
  gs_head h = {.module = "head",
               .x = x,
               .weight = w,
               .last = -1,
               .label = gs_record_fixed(r, "label", GS_I32, 1, &g->T, g->label),
               .upstream = gs_record_fixed(r, "inv_count", GS_F32, 0, NULL, g->inv_count)};
  gs_status st = gs_record_head(r, &h, err);
  if (st == GS_OK) r->vars[r->vars[x].grad].keep = true;
  return st;
}

/* logits = x·Wᵀ, dx = logits·W; rows of the logits begin at multiples of 128 bytes. */
static gs_record *record_products(const rig *g) {
  int x, w;
  gs_record *r = new_record(g, &x, &w);
  int64_t sz[2] = {g->T, g->V}, sx[2] = {g->T, g->H};
  int z = gs_record_var(r, "z", g->dtype, 2, sz), dx = gs_record_var(r, "dx", g->dtype, 2, sx);
  r->vars[z].stride = (g->V + 63) / 64 * 64;
  gs_record_gemm(r, "z", x, false, w, true, z, 1, false);
  gs_record_gemm(r, "dx", z, false, w, false, dx, 1, false);
  return r;
}

static gs_status place_and_capture(const rig *g, side *s, gs_error *err) {
  gs_plan plan;
  gs_status st = gs_plan_record(s->r, true, &plan, err);
  s->bytes = plan.bytes;
  if (st == GS_OK) st = gs_device_alloc(g->d, plan.bytes, &s->arena, err);
  if (st != GS_OK) return st;
  gs_plan_place(&plan, s->r, s->arena);
  st = gs_library_compile(g->l, err);
  if (st == GS_OK) st = gs_device_capture_begin(g->d, err);
  if (st != GS_OK) return st;
  st = gs_run_acts(g->d, s->r, err);
  gs_status end = gs_device_capture_end(g->d, &s->exec, st == GS_OK ? err : NULL);
  return st == GS_OK ? end : st;
}

static gs_status submit(void *context, gs_error *err) {
  const side *s = context;
  return gs_exec_launch(s->exec, err);
}

static gs_status open_rig(rig *g, gs_error *err) {
  gs_status st = gs_library_new(g->d, &g->l, err);
  if (st == GS_OK) st = random_matrix(g, g->T * g->H, 1, &g->x, err);
  if (st == GS_OK) st = random_matrix(g, g->V * g->H, 0.02, &g->w, err);
  if (st == GS_OK) st = make_labels(g, err);
  if (st == GS_OK) st = record_block(g, &g->s[BLOCK].r, err);
  if (st == GS_OK) g->s[PRODUCTS].r = record_products(g);
  for (int i = 0; st == GS_OK && i < SIDES; i++) st = place_and_capture(g, &g->s[i], err);
  return st;
}

static void close_rig(rig *g) {
  for (int i = 0; i < SIDES; i++) {
    if (g->s[i].exec) gs_exec_free(g->s[i].exec);
    gs_device_free(g->d, g->s[i].arena);
    if (g->s[i].r) gs_record_free(g->s[i].r);
  }
  const gs_ptr all[] = {g->x, g->w, g->label, g->inv_count};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) gs_device_free(g->d, all[i]);
  gs_library_free(g->l);
}

gs_status gs_bench_head(gs_device *d, gs_meter *m, gs_type dtype, const int64_t size[3],
                        gs_bench_row *r, gs_error *err) {
  rig g = {.d = d, .dtype = dtype, .T = size[0], .H = size[1], .V = size[2]};
  gs_timing t[SIDES];
  memset(t, 0, sizeof t);
  gs_status st = dtype == GS_BF16 ? open_rig(&g, err)
                                  : gs_fail(err, GS_ERR_USE, "the head is timed in bf16 alone");
  gs_contender c[SIDES] = {{&g.s[BLOCK], NULL, submit}, {&g.s[PRODUCTS], NULL, submit}};
  if (st == GS_OK) st = gs_meter_warm(m, c, SIDES, err);
  if (st == GS_OK) st = gs_meter_run(m, c, SIDES, GS_MEASURE_SAMPLES, t, err);
  gs_device_clocks(d, &r->processor_clock, &r->memory_clock);
  r->t = t[BLOCK];
  r->beside = t[BLOCK].median; /* its peers follow in the same run, not in turns with it */
  r->products = t[PRODUCTS].median;
  r->memory = g.s[BLOCK].bytes;
  double T = (double)g.T, H = (double)g.H, V = (double)g.V;
  r->flops = 4 * T * H * V;
  r->bytes = 2 * (2 * T * H + V * H) + 4 * T;
  snprintf(r->formula, sizeof r->formula, "2*T*H x + 2*V*H w + 4*T label + 2*T*H dx");
  close_rig(&g);
  return st;
}
