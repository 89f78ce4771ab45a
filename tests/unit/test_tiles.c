/* uses: gs_device */
/* test_tiles.c: the tile functions of the host's preludes against plain C, and the faults that the
 * checked emulator must report at their line: kernels without faults are not reported, in any order
 * of warps. */
#include "tile_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

static gs_device *open_emu(int mode, int threads) {
  gs_device_options o = {.checked = mode & 1,
                         .reverse = mode & 2,
                         .threads = threads,
                         .compile_jobs = 2,
                         .arch = "sm_90a"};
  gs_device *d = NULL;
  gs_error err = {0};
  cr_assert_eq(gs_device_open("emu", &o, &d, &err), GS_OK, "%s", err.message);
  return d;
}

static float widened(float v) {
  return gs_bf16_to_f32(gs_f32_to_bf16(v));
}

Test(tiles, products_of_warps) {
  static tile_mma m;
  tile_mma_fill(&m);
  for (int mode = 0; mode < 4; mode++) {
    gs_device *d = open_emu(mode, 1);
    gs_error err = {0};
    cr_assert_eq(tile_run_mma(d, &m, &err), GS_OK, "%s", err.message);
    gs_device_close(d);
    for (int n = 0; n < 32 * 32; n++) {
      double s = 0;
      for (int k = 0; k < 40 && n / 32 < 30; k++)
        s += 2.0 * gs_bf16_to_f32(m.x[n / 32 * 40 + k]) * gs_bf16_to_f32(m.w[k * 32 + n % 32]);
      cr_assert_float_eq(m.y[n], s, 1e-4, "mode %d, %d: %g not %g", mode, n, m.y[n], s);
    }
  }
}

static void expect_rows(const tile_rows *m) {
  for (int i = 0; i < 16; i++) {
    float most = -INFINITY, sum = 0;
    for (int c = 0; c < 24; c++) {
      float v = gs_f16_to_f32(m->x[i * 24 + c]);
      most = v > most ? v : most;
      sum += v;
      cr_assert_eq(m->y[i * 24 + c], i < 13 ? m->x[i * 24 + c] : 0);
    }
    cr_assert_eq(m->z[i], most);
    cr_assert_float_eq(m->z[16 + i], sum, 1e-5);
  }
  for (int i = 0; i < 32; i++)
    cr_assert_float_eq(m->z[32 + i] / exp2((float)i * 0.37f - 6.0f), 1, 3e-7);
  cr_assert_eq(m->z[64], 0);
}

Test(tiles, rows_of_warps) {
  static tile_rows m;
  tile_fill(m.x, 16 * 24, gs_f32_to_f16);
  for (int mode = 0; mode < 4; mode++) {
    gs_device *d = open_emu(mode, 1);
    gs_error err = {0};
    cr_assert_eq(tile_run_rows(d, &m, &err), GS_OK, "%s", err.message);
    gs_device_close(d);
    expect_rows(&m);
  }
}

static void expect_stream(const tile_stream *s) {
  for (int n = 0; n < 64 * 64; n++) {
    int i = n / 64, j = n % 64;
    double want = 0, sum = 0;
    for (int t = 0; t < 3; t++)
      for (int c = 0; c < 96 && 2 + i < Q_ROWS && 64 * t + j < K_ROWS; c++)
        want += (double)gs_bf16_to_f32(s->q[(2 + i) * Q_LD + 96 + c]) *
                gs_bf16_to_f32(s->k[(64 * t + j) * 96 + c]);
    cr_assert_float_eq(s->y[n], want, 1e-4, "%d: %g not %g", n, s->y[n], want);
    for (int r = 0; r < 64; r++)
      sum += (double)widened(s->y[r * 64 + i]) * widened(s->y[r * 64 + j]);
    cr_assert_float_eq(s->y[4096 + n], sum, 1e-2, "%d: %g not %g", n, s->y[4096 + n], sum);
  }
}

Test(tiles, products_of_warpgroups) {
  static tile_stream s;
  tile_stream_fill(&s);
  for (int mode = 0; mode < 4; mode++) {
    gs_device *d = open_emu(mode, 1);
    gs_error err = {0};
    cr_assert_eq(tile_run_stream(d, stream_text, &s, &err), GS_OK, "%s", err.message);
    gs_device_close(d);
    expect_stream(&s);
  }
}

Test(tiles, moves_of_warpgroups) {
  static tile_moves m;
  tile_fill(m.x, 4096, gs_f32_to_bf16);
  for (int mode = 0; mode < 4; mode++) {
    gs_device *d = open_emu(mode, 1);
    gs_error err = {0};
    cr_assert_eq(tile_run_moves(d, moves_text, &m, &err), GS_OK, "%s", err.message);
    gs_device_close(d);
    for (int i = 0; i < 4096; i++) {
      int r = i / 64, c = i % 64, chunk = c % 32 / 4 ^ (r & 7);
      float v = gs_bf16_to_f32(m.x[i]) * 1.5f;
      cr_assert_eq(m.z[i], r < 50 ? widened(v) : 0);
      cr_assert_eq(m.z[4096 + c * 64 + r], widened(v));
      cr_assert_eq(m.dq[c / 32 * 2048 + r * 32 + chunk * 4 + c % 4], v);
      if (r < SUM_ROWS) cr_assert_eq(m.sum[i], v);
      cr_assert_eq(m.y[r * Y_LD + c], r < 60 && c < 56 ? gs_f32_to_bf16(v) : 0);
    }
  }
}

Test(tiles, items_in_their_turn) {
  static tile_chain c;
  for (int mode = 0; mode < 8; mode++) {
    gs_device *d = open_emu(mode, mode & 4 ? 4 : 1);
    gs_error err = {0};
    float want[64] = {0};
    cr_assert_eq(tile_run_chain(d, chain_text, &c, &err), GS_OK, "%d: %s", mode, err.message);
    gs_device_close(d);
    cr_expect_eq(c.take, 0);
    for (int i = 0; i < 8 * 64; i++) want[63 - i % 64] += c.x[i];
    for (int i = 0; i < 64; i++) cr_expect_eq(c.y[i], want[i], "%a not %a", c.y[i], want[i]);
  }
}

/* ---- faults ---- */

/* The text with one piece put in the place of another. */
static char *edited(const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  cr_assert(at, "no '%s'", from);
  char *out = calloc(1, strlen(text) + strlen(to) + 1);
  memcpy(out, text, (size_t)(at - text));
  strcat(out, to);
  strcat(out, at + strlen(from));
  return out;
}

typedef struct fault {
  const char *from, *to, *said; /* NULL: nothing */
} fault;

static gs_status run_stream(gs_device *d, const char *text, gs_error *err) {
  static tile_stream s;
  tile_stream_fill(&s);
  return tile_run_stream(d, text, &s, err);
}
static gs_status run_chain(gs_device *d, const char *text, gs_error *err) {
  static tile_chain c;
  return tile_run_chain(d, text, &c, err);
}
static gs_status run_moves(gs_device *d, const char *text, gs_error *err) {
  static tile_moves m;
  tile_fill(m.x, 4096, gs_f32_to_bf16);
  return tile_run_moves(d, text, &m, err);
}

static void expect_found(const char *text, const fault *faults, int n,
                         gs_status (*run)(gs_device *d, const char *text, gs_error *err)) {
  for (int i = 0; i < 2 * n; i++) {
    const fault *x = &faults[i / 2];
    char *broken = edited(text, x->from, x->to);
    gs_device *d = open_emu(i % 2 ? 3 : 1, 1);
    gs_error err = {0};
    gs_status st = run(d, broken, &err);
    if (x->said)
      cr_expect(st == GS_ERR_CHECK && strstr(err.message, x->said), "%d (%s): %s", i / 2, x->said,
                err.message);
    else
      cr_expect_eq(st, GS_OK, "%d: %s", i / 2, err.message);
    gs_device_close(d);
    free(broken);
  }
}

Test(tiles, faults_of_warpgroups) {
  static const fault faults[] = {
      /* read before it landed: never waited for, or by the wrong parity */
      {"    gs_mbar_wait(bars, Q_FULL, 0);\n", "", "has not landed for this thread: it must wait"},
      {"gs_mbar_wait(bars, FULL + at, j / 2 & 1)",
       "if (j < 2) gs_mbar_wait(bars, FULL + at, j / 2 & 1)", "has not landed"},
      /* the tile is loaded anew while it is read */
      {"gs_mbar_wait(bars, EMPTY + at, (j / 2 & 1) ^ 1);\n", "", "data race: k["},
      {"      gs_wg_wait<0>(acc);\n      gs_mbar_arrive_warp(bars, EMPTY + at);\n",
       "      gs_mbar_arrive_warp(bars, EMPTY + at);\n      gs_wg_wait<0>(acc);\n",
       "data race: k["},
      /* fences and barriers around what threads write */
      {"    gs_proxy_fence();\n", "", "with no gs_proxy_fence between"},
      {"    gs_bar_sync(1, 128);\n", "", "with no barrier between"},
      /* accumulators */
      {"      gs_wg_close();\n", "      gs_wg_close(); acc[3] += 1.0f;\n",
       "an accumulator was written"},
      {"      gs_wg_open();\n", "", "no gs_wg_open"},
      {"    gs_wg_wait<0>(other);\n", "", "before its products were waited for"},
      /* barriers */
      {"  GS_SYNC();\n", "", "is used"},
      {"    gs_mbar_ready();\n", "", "no gs_mbar_ready"},
      {"EMPTY + i, 4", "EMPTY + i, 5", "deadlock: "},
      {"gs_mbar_expect(bars, Q_FULL, 64 * 128 * 2)", "gs_mbar_expect(bars, Q_FULL, 64 * 128 * 4)",
       "deadlock: "},
      {"gs_bar_sync(1, 128)", "gs_bar_sync(1, 256)", "deadlock: 128 threads wait at barrier 1"},
      {"GS_REGISTERS_UP(216)", "GS_REGISTERS_UP(208)", NULL},
      {"GS_REGISTERS_UP(216)", "GS_REGISTERS_UP(224)", "does not come out of"},
      {"GS_REGISTERS_DOWN(40)", "GS_REGISTERS_DOWN(160)", "does not come out of"},
      {"GS_REGISTERS_UP(216)", "GS_REGISTERS_UP(212)", "registers: up to 212"},
      {"GS_REGISTERS_DOWN(40)", "GS_REGISTERS_DOWN(44)", "registers: down to 44"},
      /* places */
      {"(k, at * 64 * 128", "(k, (at + 1) * 64 * 128", "out of bounds"},
      {"(q, p * 64 * 64", "(q, 4 + p * 64 * 64", "misaligned"},
  };
  expect_found(stream_text, faults, sizeof faults / sizeof *faults, run_stream);
}

Test(tiles, faults_of_turns_and_copies) {
  static const fault faults[] = {
      {"    GS_TURN_WAIT(turns, GS_WARP, item);\n", "", "with no turn passed between"},
      {"    GS_TURN_PASS(turns, GS_WARP, item + 1);\n", "", "deadlock: a turn is 0"},
      {"GS_TURN_WAIT(turns, GS_WARP, item)", "GS_TURN_WAIT(turns, GS_WARP, item + 1)",
       "deadlock: a turn is 0"},
      {"    GS_COPY_WAIT(0);\n", "", "before the copy to it has landed"},
      {"    GS_COPY_WAIT(0);\n    GS_SYNC();\n", "    GS_SYNC();\n    GS_COPY_WAIT(0);\n", "line["},
      {"    GS_SYNC();\n", "", "line["},
      {"GS_LINE_COPY(64, 64, line, 0, x, item * 64)", "GS_LINE_COPY(64, 64, line, 4, x, item * 64)",
       "out of bounds"},
      {"GS_LINE_COPY(64, 64, line, 0, x, item * 64)",
       "GS_LINE_COPY(64, 64, line, 0, x, item * 64 + 1)", "misaligned"},
  };
  expect_found(chain_text, faults, sizeof faults / sizeof *faults, run_chain);
}

Test(tiles, faults_of_moves) {
  static const fault faults[] = {
      {"    gs_bulk_wait_read<0>();\n    gs_bulk_wait<0>();\n", "", "data race: sums["},
      {"    gs_bulk_wait_read<1>();\n    gs_bulk_wait_read<0>();\n    gs_bulk_wait<0>();\n", "",
       "data race: sums["},
      {"    sums[i] = 0.0f;\n  }\n",
       "  }\n  if (GS_TID == 0) { gs_bulk_add(dq, 0, sums, 0, 4); gs_bulk_close(); }\n",
       "the block ends while bulk copies"},
      {"  gs_proxy_fence();\n", "", "with no gs_proxy_fence between"},
      {"  gs_mbar_wait(bars, 0, 0);\n", "", "has not landed"},
      {"  GS_SYNC();\n  if (GS_WARP == 0) gs_tile", "  if (GS_WARP == 0) gs_tile", "race: a["},
  };
  expect_found(moves_text, faults, sizeof faults / sizeof *faults, run_moves);
}

/* ---- maps ---- */

Test(tiles, maps_need_multiples_of_16_bytes) {
  static const gs_box box = {.rows = 64, .heads = 1, .columns = 64, .swizzle = 128};
  static const gs_box wide = {.rows = 64, .heads = 1, .columns = 128, .swizzle = 128};
  const gs_binding b = {.name = "k", .type = GS_BF16, .ndims = 4, .dim = {0, 1, 2, 3}};
  const int64_t sizes[] = {100, 2, 3, 96}, narrow[] = {100, 2, 3, 12}, none[] = {0, 2, 3, 96};
  gs_tensor_map m;
  gs_error err = {0};
  cr_expect_eq(gs_tensor_map_make(&b, &box, sizes, 4096, 584, &m, &err), GS_OK);
  cr_expect(m.rows == 100 && m.heads == 6 && m.columns == 96 && m.stride == 584);
  cr_expect_eq(gs_tensor_map_make(&b, &box, none, 0, 576, &m, &err), GS_OK);
  cr_expect_eq(gs_tensor_map_make(&b, &box, sizes, 4104, 584, &m, &err), GS_ERR_USE);
  cr_expect(strstr(err.message, "k is copied in boxes") && strstr(err.message, "0x1008"), "%s",
            err.message);
  cr_expect_eq(gs_tensor_map_make(&b, &box, sizes, 4096, 580, &m, &err), GS_ERR_USE);
  cr_expect(strstr(err.message, "1160 bytes between rows"), "%s", err.message);
  cr_expect_eq(gs_tensor_map_make(&b, &box, narrow, 4096, 80, &m, &err), GS_ERR_USE);
  cr_expect_eq(gs_tensor_map_make(&b, &wide, sizes, 4096, 584, &m, &err), GS_ERR_USE);
}
