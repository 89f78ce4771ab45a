/* prelude_bits.c: the two preludes against each other, on a machine with a GPU: what
 * templates/README.md says agrees to the bit is run on both for every upper half of an f32 with 256
 * lower ones, those at ties among them. One line a function; closes with "N passed, N failed". */
#include "base/random.h"
#include "device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 1 << 24, BLOCK = 256 };

typedef struct function {
  const char *type, *statement; /* y[i] from v, and r in [0, 1) */
} function;

#define ROUND(t)                                                                                   \
  { "f32", "gs_put(y, i, gs_round_" t "(v));" }
#define EITHER(t)                                                                                  \
  { "f32", "gs_put(y, i, gs_round_rand_" t "(v, r));" }
static const function functions[] = {
    {"bf16", "gs_put(y, i, v);"},
    {"f16", "gs_put(y, i, v);"},
    {"e4m3", "gs_put(y, i, v);"},
    {"e5m2", "gs_put(y, i, v);"},
    {"e8m0", "gs_put(y, i, v);"},
    {"u8", "gs_put(y, i, v);"},
    {"i8", "gs_put(y, i, v);"},
    {"i32", "gs_put(y, i, v);"},
    {"i64", "gs_put(y, i, v);"},
    {"i64", "gs_puti(y, i, gs_integer(v));"},
    {"i32", "gs_puti(y, i, gs_integer32(v));"},
    {"u8", "gs_puti(y, i, gs_integer(v));"},
    ROUND("bf16"),
    ROUND("f16"),
    ROUND("e4m3"),
    ROUND("e5m2"),
    ROUND("e8m0"),
    EITHER("bf16"),
    EITHER("f16"),
    EITHER("e4m3"),
    EITHER("e5m2"),
    {"f32", "gs_put(y, i, gs_rand(gs_integer(v), i, i - 9));"},
    {"i32", "gs_puti(y, i, gs_bucket(table, v));"},
    {"f32", "gs_put(y, i, gs_lookup(table, gs_integer(v)));"},
    {"i64", "gs_puti(y, i, gs_quotient(gs_integer(v), i + 1));"},
    {"i64", "gs_puti(y, i, gs_remainder(gs_integer(v), i + 1));"},
    {"f32", "gs_put(y, i, gs_rsqrt(v));"},
};
enum { NFUNCTIONS = sizeof functions / sizeof *functions };

static size_t size_of(const char *type) {
  for (gs_type t = GS_F32; t <= GS_E8M0; t++)
    if (strcmp(gs_type_name(t), type) == 0) return gs_type_size(t);
  return 0;
}

static gs_status run(gs_device *d, int number, const float *x, void *y, gs_error *err) {
  const function *f = &functions[number];
  char entry[32], text[1024];
  snprintf(entry, sizeof entry, "bits%d", number);
  snprintf(text, sizeof text,
           "GS_TABLE(table, 20) = {-1e30f, -100, -3, -1, -0.5f, -0.1f, -1e-20f, 0, 1e-30f, 0.1f,\n"
           "  0.5f, 0.75f, 1, 2, 3, 7, 100, 1e10f, 1e20f, 1e30f};\n"
           "GS_KERNEL(%s, 256, 1, GS_IN(f32, x), GS_OUT(%s, y)) {\n"
           "  const i64 i = GS_BID * 256 + GS_TID;\n  const f32 v = gs_get(x, i);\n"
           "  [[maybe_unused]] const f32 r = gs_rand(i, 3, 4);\n  %s\n}\n",
           entry, f->type, f->statement);
  gs_arg params[] = {{.kind = GS_ARG_TENSOR}, {.kind = GS_ARG_TENSOR}};
  gs_kernel k = {.entry = entry,
                 .text = text,
                 .nargs = 2,
                 .args = params,
                 .threads = BLOCK,
                 .barrier_free = true};
  const gs_kernel *list[] = {&k};
  gs_func *func;
  gs_ptr p[2] = {0, 0};
  size_t bytes[2] = {COUNT * sizeof *x, COUNT * size_of(f->type)};
  gs_status st = gs_device_compile(d, list, 1, &func, err);
  for (int i = 0; i < 2 && st == GS_OK; i++) st = gs_device_alloc(d, bytes[i], &p[i], err);
  gs_value args[] = {{.kind = GS_VALUE_PTR, .ptr = p[0], .bytes = bytes[0]},
                     {.kind = GS_VALUE_PTR, .ptr = p[1], .bytes = bytes[1]}};
  if (st == GS_OK) st = gs_device_upload(d, p[0], x, bytes[0], err);
  if (st == GS_OK) st = gs_device_launch(d, func, COUNT / BLOCK, args, 2, err);
  if (st == GS_OK) st = gs_device_download(d, y, p[1], bytes[1], err);
  for (int i = 0; i < 2; i++)
    if (p[i]) gs_device_free(d, p[i]);
  return st;
}

static bool same(const char *type, const char *a, const char *b, size_t size) {
  float fa, fb;
  if (memcmp(a, b, size) == 0) return true;
  if (strcmp(type, "f32") != 0) return false;
  memcpy(&fa, a, 4);
  memcpy(&fb, b, 4);
  return isnan(fa) && isnan(fb);
}

static void fill(float *x) {
  static const uint32_t low[] = {0, 1, 0xffff, 0x8000, 0x7fff, 0x8001, 0x0fff, 0x1000, 0x1001};
  uint64_t s = (uint64_t)time(NULL);
  printf("seed %llu\n", (unsigned long long)s);
  for (uint32_t i = 0; i < COUNT; i++) {
    uint32_t k = i & 255u, rest = k < 9 ? low[k] : (uint32_t)gs_random_next(&s) & 0xffffu;
    uint32_t u = i >> 8 << 16 | rest;
    memcpy(&x[i], &u, 4);
  }
}

int main(void) {
  gs_error err = {0};
  gs_device *gpu, *host;
  gs_device_options o = {0};
  if (gs_device_open("cuda", &o, &gpu, &err) || gs_device_open("emu", &o, &host, &err)) {
    printf("%s\n", err.message);
    return 77;
  }
  float *x = malloc(COUNT * sizeof *x);
  char *a = malloc((size_t)COUNT * 8), *b = malloc((size_t)COUNT * 8);
  int failed = 0;
  if (!x || !a || !b) return 1;
  fill(x);
  for (int k = 0; k < NFUNCTIONS; k++) {
    const function *f = &functions[k];
    size_t size = size_of(f->type), bad = 0, at = 0;
    gs_status st = run(gpu, k, x, a, &err);
    if (st == GS_OK) st = run(host, k, x, b, &err);
    for (size_t i = 0; i < COUNT && st == GS_OK; i++)
      if (!same(f->type, a + i * size, b + i * size, size) && bad++ == 0) at = i;
    failed += st != GS_OK || bad > 0;
    printf("%s %s %s", st || bad ? "FAIL" : "ok  ", f->type, f->statement);
    if (st) printf(": %s", err.message);
    if (bad) printf(": %zu differ, first of %a (element %zu)", bad, (double)x[at], at);
    putchar('\n');
  }
  printf("%d passed, %d failed\n", NFUNCTIONS - failed, failed);
  free(x), free(a), free(b);
  gs_device_close(gpu);
  gs_device_close(host);
  return failed > 0;
}
