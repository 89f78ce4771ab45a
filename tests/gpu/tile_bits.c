/* tile_bits.c: the tile functions of the two preludes against each other, on a machine with an
 * sm_90 GPU: kernels of tests/unit/tile_case.h on the emulator and on the GPU. What moves or adds
 * once must agree to the bit; products agree up to the order of sums. */
#include "../unit/tile_case.h"
#include "device/ops.h"

#include <math.h>
#include <stdio.h>

static int failed;

static void compare(const char *what, const void *a, const void *b, size_t bytes) {
  bool same = memcmp(a, b, bytes) == 0;
  printf("%s %s\n", same ? "ok  " : "FAIL", what);
  failed += !same;
}

static void close_to(const char *what, const float *a, const float *b, int n, double bound) {
  double worst = 0;
  int at = 0;
  for (int i = 0; i < n; i++) {
    double d = fabs((double)a[i] - b[i]);
    if (!(d <= worst)) worst = d, at = i;
  }
  printf("%s %s: apart %g at %d (%g, %g), allowed %g\n", worst <= bound ? "ok  " : "FAIL", what,
         worst, at, a[at], b[at], bound);
  failed += !(worst <= bound);
}

static bool fine(const char *what, gs_status st, const gs_error *err) {
  if (st == GS_OK) return true;
  printf("FAIL %s: %s\n", what, err->message);
  failed++;
  return false;
}

/* On device 0 and 1 each; x: two of them with the same inputs. */
#define BOTH(what, x, run)                                                                         \
  (fine(what, run(d[0], &x[0]), &err) && fine(what, run(d[1], &x[1]), &err))

static gs_error err;
static gs_status run_mma(gs_device *d, tile_mma *m) {
  return tile_run_mma(d, m, &err);
}
static gs_status run_rows(gs_device *d, tile_rows *m) {
  return tile_run_rows(d, m, &err);
}
static gs_status run_stream(gs_device *d, tile_stream *m) {
  return tile_run_stream(d, stream_text, m, &err);
}
static gs_status run_chain(gs_device *d, tile_chain *m) {
  return tile_run_chain(d, chain_text, m, &err);
}
static gs_status run_moves(gs_device *d, tile_moves *m) {
  return tile_run_moves(d, moves_text, m, &err);
}

static void warps(gs_device **d) {
  static tile_mma m[2];
  static tile_rows r[2];
  static tile_chain c[2];
  tile_mma_fill(&m[0]);
  m[1] = m[0];
  if (BOTH("product of warps", m, run_mma))
    close_to("product of warps", m[0].y, m[1].y, 32 * 32, 1e-4);
  tile_fill(r[0].x, 16 * 24, gs_f32_to_f16);
  r[1] = r[0];
  if (BOTH("rows", r, run_rows)) {
    compare("rows: tile put and stored", r[0].y, r[1].y, sizeof r[0].y);
    compare("rows: most and sums", r[0].z, r[1].z, 32 * sizeof(float));
    close_to("rows: exp2", r[0].z + 32, r[1].z + 32, 33, 1e-4);
  }
  if (BOTH("items in their turn", c, run_chain)) {
    compare("items in their turn: sums", c[0].y, c[1].y, sizeof c[0].y);
    compare("items in their turn: the counter is 0", &c[0].take, &c[1].take, sizeof c[0].take);
  }
}

/* The second product against the first one's own results: roundings of these may differ. */
static void squares(const char *what, const float *y) {
  static float want[64 * 64];
  for (int n = 0; n < 64 * 64; n++) {
    double sum = 0;
    for (int r = 0; r < 64; r++)
      sum += (double)gs_bf16_to_f32(gs_f32_to_bf16(y[r * 64 + n / 64])) *
             gs_bf16_to_f32(gs_f32_to_bf16(y[r * 64 + n % 64]));
    want[n] = (float)sum;
  }
  close_to(what, want, y + 4096, 64 * 64, 2e-2);
}

static void warpgroups(gs_device **d) {
  static tile_stream s[2];
  static tile_moves m[2];
  tile_stream_fill(&s[0]);
  s[1] = s[0];
  if (BOTH("products of warpgroups", s, run_stream)) {
    close_to("products of warpgroups: q k'", s[0].y, s[1].y, 4096, 1e-4);
    squares("products of warpgroups: p' p, emulator", s[0].y);
    squares("products of warpgroups: p' p, GPU", s[1].y);
  }
  tile_fill(m[0].x, 4096, gs_f32_to_bf16);
  m[1] = m[0];
  if (BOTH("moves", m, run_moves)) {
    compare("moves: added through a map", m[0].sum, m[1].sum, sizeof m[0].sum);
    compare("moves: added as it lies", m[0].dq, m[1].dq, sizeof m[0].dq);
    compare("moves: put, turned, zeroed", m[0].z, m[1].z, sizeof m[0].z);
    compare("moves: stored", m[0].y, m[1].y, sizeof m[0].y);
  }
}

int main(void) {
  gs_device *d[2] = {NULL, NULL};
  char why[1024];
  const gs_device_options o = {.arch = "sm_90a"};
  if (!gs_cuda_available(false, why, sizeof why) ||
      gs_device_open("cuda", NULL, &d[1], &err) != GS_OK) {
    printf("no GPU to test on: %s\n", *why ? why : err.message);
    return 77;
  }
  if (!fine("the emulator", gs_device_open("emu", &o, &d[0], &err), &err)) return 1;
  warps(d);
  if (strcmp(gs_device_caps(d[1])->arch, "sm_90a") == 0) warpgroups(d);
  gs_device_close(d[0]);
  gs_device_close(d[1]);
  printf("%d failed\n", failed);
  return failed ? 1 : 0;
}
