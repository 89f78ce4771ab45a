/* tile_case.h: kernels of tiles with what they are given, for the emulator's tests and for
 * tests/gpu, which holds a GPU's results against the emulator's. */
#ifndef GS_TILE_CASE_H
#define GS_TILE_CASE_H

#include "base/half.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

enum { TILE_MOST_ARGS = 5 };
typedef struct tile_arg {
  void *data; /* as it is given, and as it comes back where it is written */
  size_t bytes;
  bool is_written;
  const gs_tensor_map *map; /* NULL: a pointer */
} tile_arg;

typedef struct tile_run {
  const char *entry, *text;
  int threads, shared;
  gs_prelude_level prelude;
  int64_t grid;
  tile_arg args[TILE_MOST_ARGS];
  int nargs;
} tile_run;

/* Uploads, launches, and downloads what the kernel writes, after a failure too. */
static gs_status tile_launch(gs_device *d, const tile_run *r, gs_error *err) {
  gs_arg args[TILE_MOST_ARGS];
  gs_value values[TILE_MOST_ARGS];
  gs_kernel k = {.entry = r->entry,
                 .text = r->text,
                 .threads = r->threads,
                 .shared_bytes = r->shared,
                 .prelude = r->prelude,
                 .nargs = r->nargs,
                 .args = args};
  const gs_kernel *list[] = {&k};
  gs_func *f;
  gs_status st = GS_OK;
  for (int i = 0; i < r->nargs && st == GS_OK; i++) {
    const tile_arg *a = &r->args[i];
    args[i] = (gs_arg){.kind = a->map ? GS_ARG_MAP : GS_ARG_TENSOR, .index = i};
    values[i] = (gs_value){.kind = a->map ? GS_VALUE_MAP : GS_VALUE_PTR,
                           .bytes = a->bytes,
                           .is_read = true,
                           .is_written = a->is_written};
    if (a->map) values[i].map = *a->map;
    st = gs_device_alloc(d, a->bytes, &values[i].ptr, err);
    if (st == GS_OK) st = gs_device_upload(d, values[i].ptr, a->data, a->bytes, err);
  }
  if (st == GS_OK) st = gs_device_compile(d, list, 1, &f, err);
  if (st == GS_OK) st = gs_device_launch(d, f, r->grid, values, r->nargs, err);
  for (int i = 0; i < r->nargs; i++) {
    if (st == GS_OK && r->args[i].is_written)
      st = gs_device_download(d, r->args[i].data, values[i].ptr, r->args[i].bytes, err);
    gs_device_free(d, values[i].ptr);
  }
  return st;
}

static uint32_t tile_seed = 7;
static float tile_uniform(void) {
  tile_seed = tile_seed * 1664525u + 1013904223u;
  return (float)(tile_seed >> 8) * 0x1p-23f - 1.0f;
}
static void tile_fill(uint16_t *x, int n, uint16_t (*round)(float)) {
  for (int i = 0; i < n; i++) x[i] = round(tile_uniform());
}

/* ---- a product of warps, from shared memory and from registers: twice x w ---- */

static const char mma_text[] =
    "GS_KERNEL(mma, 64, 0, GS_IN(bf16, x), GS_IN(bf16, w), GS_OUT(f32, y)) {\n"
    "  GS_DYNAMIC(bf16, a, 0, 32 * 48);\n"
    "  GS_DYNAMIC(bf16, b, 32 * 48 * 2, 48 * 32);\n"
    "  GS_TILE_COPY(32, 48, 40, 64, a, 0, x, 0, 40, 30);\n"
    "  GS_TILE_COPY(48, 32, 32, 64, b, 0, w, 0, 32, 48);\n"
    "  GS_COPY_CLOSE();\n"
    "  GS_COPY_WAIT(0);\n"
    "  GS_SYNC();\n"
    "  f32 acc[1][4][4] = {};\n"
    "  GS_MMA(48, acc, gs_rows<48>(a, 0, 16 * GS_WARP, 0), gs_cols<32>(b, 0, 0, 0));\n"
    "  gs_frag<bf16> p[1][3];\n"
    "  GS_FRAG_LOAD(p, gs_rows<48>(a, 0, 16 * GS_WARP, 0));\n"
    "  GS_MMA(48, acc, p, gs_cols<32>(b, 0, 0, 0));\n"
    "  for (int n = 0; n < 4; n++)\n"
    "    for (int e = 0; e < 4; e++)\n"
    "      y[(16 * GS_WARP + gs_acc_row(GS_LANE, e)) * 32 + 8 * n + gs_acc_col(GS_LANE, e)] =\n"
    "          acc[0][n][e];\n"
    "}\n";
typedef struct tile_mma {
  uint16_t x[32 * 40], w[48 * 32];
  float y[32 * 32];
} tile_mma;

static void tile_mma_fill(tile_mma *m) {
  tile_fill(m->x, 32 * 40, gs_f32_to_bf16);
  tile_fill(m->w, 48 * 32, gs_f32_to_bf16);
}
static gs_status tile_run_mma(gs_device *d, tile_mma *m, gs_error *err) {
  memset(m->y, 0, sizeof m->y);
  tile_run r = {"mma",
                mma_text,
                64,
                6144,
                GS_PRELUDE_TILES,
                1,
                {{m->x, sizeof m->x, false, NULL},
                 {m->w, sizeof m->w, false, NULL},
                 {m->y, sizeof m->y, true, NULL}},
                3};
  return tile_launch(d, &r, err);
}

/* ---- rows of accumulators ---- */

static const char rows_text[] =
    "GS_KERNEL(rows, 32, 0, GS_IN(f16, x), GS_OUT(f16, y), GS_OUT(f32, z)) {\n"
    "  GS_DYNAMIC(f16, t, 0, 16 * 32);\n"
    "  f32 acc[1][4][4] = {}, most[2] = {-GS_INF, -GS_INF}, sum[2] = {0.0f, 0.0f};\n"
    "  for (int n = 0; n < 3; n++)\n"
    "    for (int e = 0; e < 4; e++) {\n"
    "      const f32 v = gs_get(x, gs_acc_row(GS_LANE, e) * 24 + 8 * n + gs_acc_col(GS_LANE, e));\n"
    "      acc[0][n][e] = v;\n"
    "      most[e / 2] = gs_max(most[e / 2], v);\n"
    "      sum[e / 2] += v;\n"
    "    }\n"
    "  GS_ROWS_MAX(most);\n"
    "  GS_ROWS_SUM(sum);\n"
    "  for (int h = 0; h < 2; h++)\n"
    "    if (GS_LANE % 4 == 1) {\n"
    "      z[gs_acc_row(GS_LANE, 2 * h)] = most[h];\n"
    "      z[16 + gs_acc_row(GS_LANE, 2 * h)] = sum[h];\n"
    "    }\n"
    "  const bool one = GS_WARP_ANY(GS_LANE == 7), none = GS_WARP_ANY(GS_LANE > 31);\n"
    "  z[32 + GS_LANE] = one && !none ? gs_exp2(GS_LANE * 0.37f - 6.0f) : 0.0f;\n"
    "  if (GS_LANE == 0) z[64] = gs_exp2(-GS_INF) + gs_exp2(-126.5f);\n"
    "  GS_TILE_PUT(32, t, 0, 0, 0, acc);\n"
    "  GS_SYNC();\n"
    "  GS_TILE_STORE(16, 32, 24, 32, y, 0, 24, t, 0, 13);\n"
    "}\n";
typedef struct tile_rows {
  uint16_t x[16 * 24], y[16 * 24];
  float z[65];
} tile_rows;

static gs_status tile_run_rows(gs_device *d, tile_rows *m, gs_error *err) {
  memset(m->y, 0, sizeof m->y);
  tile_run r = {"rows",
                rows_text,
                32,
                1024,
                GS_PRELUDE_TILES,
                1,
                {{m->x, sizeof m->x, false, NULL},
                 {m->y, sizeof m->y, true, NULL},
                 {m->z, sizeof m->z, true, NULL}},
                3};
  return tile_launch(d, &r, err);
}

/* ---- products of warpgroups: q (64 x 96) times the sum of three tiles of k (64 x 96), then the
 * rounded accumulators p as p' p ---- */

static const char stream_text[] =
    "GS_KERNEL_MANY(stream, 256, 2, 0, GS_MAP(bf16, q_map), GS_MAP(bf16, k_map), GS_OUT(f32, y)) "
    "{\n"
    "  GS_DYNAMIC(bf16, q, 0, 64 * 128);\n"
    "  GS_DYNAMIC(bf16, k, 64 * 128 * 2, 2 * 64 * 128);\n"
    "  GS_DYNAMIC(gs_mbar, bars, 3 * 64 * 128 * 2, 5);\n"
    "  constexpr int FULL = 0, EMPTY = 2, Q_FULL = 4;\n"
    "  if (GS_TID == 0) {\n"
    "    for (int i = 0; i < 2; i++) gs_mbar_init(bars, FULL + i, 1);\n"
    "    for (int i = 0; i < 2; i++) gs_mbar_init(bars, EMPTY + i, 4);\n"
    "    gs_mbar_init(bars, Q_FULL, 1);\n"
    "    gs_mbar_ready();\n"
    "  }\n"
    "  GS_SYNC();\n"
    "  if (GS_WARP < 4) {\n"
    "    GS_REGISTERS_DOWN(40);\n"
    "    if (GS_TID == 0) {\n"
    "      gs_map_ahead(q_map);\n"
    "      gs_mbar_expect(bars, Q_FULL, 64 * 128 * 2);\n"
    "      for (int p = 0; p < 2; p++)\n"
    "        gs_tma_load(q, p * 64 * 64, q_map, bars, Q_FULL, p * 64, 1, 2);\n"
    "      for (int j = 0; j < 3; j++) {\n"
    "        const int at = j % 2;\n"
    "        gs_mbar_wait(bars, EMPTY + at, (j / 2 & 1) ^ 1);\n"
    "        gs_mbar_expect(bars, FULL + at, 64 * 128 * 2);\n"
    "        for (int p = 0; p < 2; p++)\n"
    "          gs_tma_load(k, at * 64 * 128 + p * 64 * 64, k_map, bars, FULL + at, p * 64, 0,\n"
    "                      64 * j);\n"
    "      }\n"
    "    }\n"
    "  } else {\n"
    "    GS_REGISTERS_UP(216);\n"
    "    f32 acc[32], other[32];\n"
    "    for (int e = 0; e < 32; e++) acc[e] = 0.0f;\n"
    "    gs_mbar_wait(bars, Q_FULL, 0);\n"
    "    for (int j = 0; j < 3; j++) {\n"
    "      const int at = j % 2;\n"
    "      gs_mbar_wait(bars, FULL + at, j / 2 & 1);\n"
    "      gs_wg_open();\n"
    "      gs_wg_product<64, 96, 64, 0, 64, 0>(acc, q, 0, 0, k, at * 64 * 128, 0, 1);\n"
    "      gs_wg_close();\n"
    "      gs_wg_wait<0>(acc);\n"
    "      gs_mbar_arrive_warp(bars, EMPTY + at);\n"
    "    }\n"
    "    gs_wg_left<bf16, 64> p;\n"
    "    gs_wg_round(p, acc);\n"
    "    gs_wg_put(q, 0, 64, 0, 0, p);\n"
    "    gs_proxy_fence();\n"
    "    gs_bar_sync(1, 128);\n"
    "    gs_wg_open();\n"
    "    gs_wg_product<64, 64, 64, 1, 64, 1>(other, q, 0, 0, q, 0, 0, 0);\n"
    "    gs_wg_close();\n"
    "    gs_wg_wait<0>(other);\n"
    "    for (int e = 0; e < 32; e++)\n"
    "      y[gs_wg_row(e) * 64 + gs_wg_column(e)] = acc[e];\n"
    "    for (int e = 0; e < 32; e++)\n"
    "      y[4096 + gs_wg_row(e) * 64 + gs_wg_column(e)] = other[e];\n"
    "  }\n"
    "}\n";
enum { Q_ROWS = 60, K_ROWS = 170, Q_LD = 200 };
typedef struct tile_stream {
  uint16_t q[Q_ROWS * Q_LD], k[K_ROWS * 96];
  float y[2 * 64 * 64];
} tile_stream;

static void tile_stream_fill(tile_stream *s) {
  tile_fill(s->q, Q_ROWS * Q_LD, gs_f32_to_bf16);
  tile_fill(s->k, K_ROWS * 96, gs_f32_to_bf16);
}
static gs_status tile_run_stream(gs_device *d, const char *text, tile_stream *s, gs_error *err) {
  static const gs_box box = {.rows = 64, .heads = 1, .columns = 64, .swizzle = 128};
  const gs_tensor_map q = {GS_BF16, Q_ROWS, 2, 96, Q_LD, box},
                      k = {GS_BF16, K_ROWS, 1, 96, 96, box};
  memset(s->y, 0, sizeof s->y);
  tile_run r = {"stream",
                text,
                256,
                3 * 64 * 128 * 2 + 40,
                GS_PRELUDE_HOPPER,
                1,
                {{s->q, sizeof s->q, false, &q},
                 {s->k, sizeof s->k, false, &k},
                 {s->y, sizeof s->y, true, NULL}},
                3};
  return tile_launch(d, &r, err);
}

/* ---- items, turns, copies ahead: sums in the items' order ---- */

static const char chain_text[] =
    "GS_KERNEL(chain, 64, 0, GS_INOUT(i32, take), GS_INOUT(i32, turns), GS_INOUT(f32, y),\n"
    "          GS_IN(f32, x)) {\n"
    "  GS_SHARED(i32, meet, 1);\n"
    "  GS_DYNAMIC(f32, line, 0, 64);\n"
    "  const int items = 8, takers = (int)GS_NBLOCKS;\n"
    "  int ticket = GS_TICKET(take, items, takers);\n"
    "  for (int item = GS_TAKEN(ticket, meet); item < items; item = GS_TAKEN(ticket, meet)) {\n"
    "    ticket = GS_TICKET(take, items, takers);\n"
    "    GS_LINE_COPY(64, 64, line, 0, x, item * 64);\n"
    "    GS_COPY_CLOSE();\n"
    "    GS_COPY_WAIT(0);\n"
    "    GS_SYNC();\n"
    "    const f32 v[1] = {line[63 - GS_TID]};\n"
    "    GS_TURN_WAIT(turns, GS_WARP, item);\n"
    "    gs_add_f32<1>(y, GS_TID, v);\n"
    "    GS_TURN_PASS(turns, GS_WARP, item + 1);\n"
    "  }\n"
    "}\n";
typedef struct tile_chain {
  float x[8 * 64], y[64];
  int32_t take, turns[2];
} tile_chain;

static gs_status tile_run_chain(gs_device *d, const char *text, tile_chain *c, gs_error *err) {
  for (int i = 0; i < 8 * 64; i++) c->x[i] = (float)(i % 13) / 7 + (float)(1 << i % 23);
  memset(c->y, 0, sizeof c->y);
  c->take = c->turns[0] = c->turns[1] = 0;
  tile_run r = {"chain",
                text,
                64,
                256,
                GS_PRELUDE_TILES,
                4,
                {{&c->take, sizeof c->take, true, NULL},
                 {c->turns, sizeof c->turns, true, NULL},
                 {c->y, sizeof c->y, true, NULL},
                 {c->x, sizeof c->x, false, NULL}},
                4};
  return tile_launch(d, &r, err);
}

/* ---- accumulators and boxes to memory and back ---- */

static const char moves_text[] =
    "GS_KERNEL(moves, 128, 0, GS_MAP(f32, sum_map), GS_INOUT(f32, dq), GS_IN(bf16, x),\n"
    "          GS_OUT(bf16, y), GS_OUT(f32, z)) {\n"
    "  GS_DYNAMIC(f32, sums, 0, 64 * 64);\n"
    "  GS_DYNAMIC(bf16, a, 64 * 64 * 4, 64 * 64);\n"
    "  GS_DYNAMIC(bf16, b, 64 * 64 * 6, 64 * 64);\n"
    "  GS_DYNAMIC(bf16, line, 64 * 64 * 8, 64 * 64);\n"
    "  GS_DYNAMIC(gs_mbar, bars, 64 * 64 * 10, 1);\n"
    "  if (GS_TID == 0) {\n"
    "    gs_mbar_init(bars, 0, 1);\n"
    "    gs_mbar_ready();\n"
    "    gs_mbar_expect(bars, 0, 64 * 64 * 2);\n"
    "    gs_bulk_load(line, 0, x, 0, 64 * 64, bars, 0);\n"
    "  }\n"
    "  GS_SYNC();\n"
    "  gs_mbar_wait(bars, 0, 0);\n"
    "  f32 acc[32];\n"
    "  for (int e = 0; e < 32; e++)\n"
    "    acc[e] = gs_get(line, gs_wg_row(e) * 64 + gs_wg_column(e)) * 1.5f;\n"
    "  gs_wg_left<bf16, 64> p;\n"
    "  gs_wg_round(p, acc);\n"
    "  gs_wg_put(a, 0, 64, 0, 0, p);\n"
    "  gs_wg_put_turned(b, 0, 64, 0, 0, p);\n"
    "  gs_wg_put_f32<64>(sums, 0, 64, 0, 0, acc);\n"
    "  gs_proxy_fence();\n"
    "  GS_SYNC();\n"
    "  if (GS_WARP == 0) gs_tile_zero<1>(a, 0, 64, 50);\n"
    "  if (GS_TID == 32) {\n"
    "    for (int j = 0; j < 2; j++) gs_tma_add(sum_map, sums, 64 * 32 * j, 32 * j, 0, 0);\n"
    "    gs_bulk_close();\n"
    "    gs_bulk_add(dq, 0, sums, 0, 64 * 64);\n"
    "    gs_bulk_close();\n"
    "    gs_bulk_wait_read<1>();\n"
    "    gs_bulk_wait_read<0>();\n"
    "    gs_bulk_wait<0>();\n"
    "  }\n"
    "  GS_SYNC();\n"
    "  gs_wg_store<64>(y, 0, 72, 60, 56, acc);\n"
    "  for (int i = GS_TID; i < 64 * 64; i += 128) {\n"
    "    z[i] = gs_get(a, gs_tile_at(a, 0, 64, i / 64, i % 64));\n"
    "    z[4096 + i] = gs_get(b, gs_tile_at(b, 0, 64, i / 64, i % 64));\n"
    "    sums[i] = 0.0f;\n"
    "  }\n"
    "}\n";
enum { SUM_ROWS = 60, Y_LD = 72 };
typedef struct tile_moves {
  uint16_t x[4096], y[64 * Y_LD];
  float sum[SUM_ROWS * 64], dq[4096], z[2 * 4096];
} tile_moves;

static gs_status tile_run_moves(gs_device *d, const char *text, tile_moves *m, gs_error *err) {
  const gs_tensor_map to = {
      GS_F32, SUM_ROWS, 1, 64, 64, {.rows = 64, .heads = 1, .columns = 32, .swizzle = 128}};
  memset(m->sum, 0, sizeof m->sum);
  memset(m->dq, 0, sizeof m->dq);
  memset(m->y, 0, sizeof m->y);
  tile_run r = {"moves",
                text,
                128,
                64 * 64 * 10 + 8,
                GS_PRELUDE_HOPPER,
                1,
                {{m->sum, sizeof m->sum, true, &to},
                 {m->dq, sizeof m->dq, true, NULL},
                 {m->x, sizeof m->x, false, NULL},
                 {m->y, sizeof m->y, true, NULL},
                 {m->z, sizeof m->z, true, NULL}},
                5};
  return tile_launch(d, &r, err);
}

#endif
