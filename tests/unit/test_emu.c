/* uses: gs_device */
/* test_emu.c: the emulator: kernels written by hand as text, with and without faults. Every fault
 * is found at its line; kernels without faults are not reported and give the same bits for any
 * number of workers and in reverse order. */
#include "base/file.h"
#include "device/device.h"
#include "device/emu/emu.h"
#include "device/launch.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct run {
  const char *entry, *text;
  int threads;
  bool barrier_free;
  int64_t grid;
  gs_value args[8];
  int nargs;
} run;

static gs_device *open_emu(bool checked, bool reverse, int threads) {
  gs_device_options o = {
      .checked = checked, .reverse = reverse, .threads = threads, .compile_jobs = 2};
  gs_device *d = NULL;
  gs_error err = {0};
  cr_assert_eq(gs_device_open("emu", &o, &d, &err), GS_OK, "%s", err.message);
  return d;
}

static gs_func *compile(gs_device *d, const run *r) {
  gs_kernel k = {
      .entry = r->entry, .text = r->text, .threads = r->threads, .barrier_free = r->barrier_free};
  const gs_kernel *list[] = {&k};
  gs_func *f = NULL;
  gs_error err = {0};
  cr_assert_eq(gs_device_compile(d, list, 1, &f, &err), GS_OK, "%s", err.message);
  return f;
}

static gs_status launch(gs_device *d, const run *r, gs_error *err) {
  return gs_device_launch(d, compile(d, r), r->grid, r->args, r->nargs, err);
}

static gs_ptr alloc(gs_device *d, size_t bytes) {
  gs_ptr p = 0;
  gs_error err = {0};
  cr_assert_eq(gs_device_alloc(d, bytes, &p, &err), GS_OK, "%s", err.message);
  return p;
}
static gs_ptr upload(gs_device *d, const float *v, int n) {
  gs_ptr p = alloc(d, sizeof(float) * (size_t)n);
  cr_assert_eq(gs_device_upload(d, p, v, sizeof(float) * (size_t)n, NULL), GS_OK);
  return p;
}
static gs_value ptr(gs_ptr p, int n) {
  return (gs_value){.kind = GS_VALUE_PTR, .ptr = p, .bytes = sizeof(float) * (size_t)n};
}
static gs_value i64(int64_t v) {
  return (gs_value){.kind = GS_VALUE_I64, .i64 = v};
}
static gs_value f32(float v) {
  return (gs_value){.kind = GS_VALUE_F32, .f32 = v};
}

static void fill_random(float *v, int n) {
  for (int i = 0; i < n; i++) v[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
}

/* ---- clean kernels ---- */

static const char saxpy[] = "GS_KERNEL(saxpy, 64, 1, GS_IN(f32, x), GS_INOUT(f32, y), GS_NUM(a),\n"
                            "          GS_DIM(N)) {\n"
                            "  i64 i = GS_BID * 64 + GS_TID;\n"
                            "  if (i < N) gs_put(y, i, gs_get(x, i) * a + gs_get(y, i));\n"
                            "}\n";

Test(emu, saxpy) {
  enum { N = 10007 };
  static float x[N], y[N], got[N];
  srand((unsigned)time(NULL));
  fill_random(x, N);
  fill_random(y, N);
  for (int mode = 0; mode < 8; mode++) {
    gs_device *d = open_emu(mode & 1, mode & 2, mode & 4 ? 2 : 1);
    gs_ptr px = upload(d, x, N), py = upload(d, y, N);
    run r = {"saxpy", saxpy, 64, true, (N + 63) / 64, {ptr(px, N), ptr(py, N), f32(1.5f), i64(N)},
             4};
    gs_error err = {0};
    cr_assert_eq(launch(d, &r, &err), GS_OK, "%s", err.message);
    cr_assert_eq(gs_device_download(d, got, py, sizeof got, NULL), GS_OK);
    for (int i = 0; i < N; i++) cr_assert_eq(got[i], x[i] * 1.5f + y[i], "mode %d, %d", mode, i);
    gs_device_close(d);
  }
}

/* A row a block: sum by warp and block collectives, a shared array turned around, groups. */
static const char rows[] =
    "GS_KERNEL(rows, 96, 0, GS_IN(f32, x), GS_OUT(f32, y), GS_OUT(f32, stat), GS_DIM(H),\n"
    "          GS_STRIDE(x_ld)) {\n"
    "  GS_SHARED(f32, red, 32);\n"
    "  GS_SHARED(f32, turn, 96);\n"
    "  i64 row = GS_BID;\n"
    "  f32 s = 0, m = -GS_INF;\n"
    "  for (i64 i = GS_TID; i < H; i += 96) {\n"
    "    f32 v = gs_get(x, row * x_ld + i);\n"
    "    s += v;\n"
    "    m = gs_max(m, v);\n"
    "  }\n"
    "  turn[GS_TID] = s;\n"
    "  f32 sum = GS_BLOCK_SUM(s, red);\n"
    "  f32 most = GS_BLOCK_MAX(m, red), least = GS_BLOCK_MIN(-m, red);\n"
    "  f32 warp = GS_WARP_SUM(s), four = GS_GROUP_SUM(4, s), wide = GS_GROUP_MAX(8, m);\n"
    "  GS_SYNC();\n"
    "  f32 other = turn[95 - GS_TID];\n"
    "  GS_SYNC();\n"
    "  turn[GS_TID] = other * 2.0f;\n"
    "  GS_SYNCWARP();\n"
    "  other += turn[GS_TID ^ 1];\n"
    "  gs_put(y, row * 96 + GS_TID, warp + four + wide + other);\n"
    "  if (GS_TID == 0) {\n"
    "    gs_put(stat, row * 3, sum);\n"
    "    gs_put(stat, row * 3 + 1, most);\n"
    "    gs_put(stat, row * 3 + 2, least);\n"
    "  }\n"
    "}\n";

static float tree(float *v, int n) { /* a butterfly, as lane 0 sees it */
  for (int o = n / 2; o > 0; o /= 2)
    for (int i = 0; i < o; i++) v[i] += v[i + o];
  return v[0];
}

static void rows_reference(const float *x, int H, int ld, int T, float *y, float *stat) {
  for (int t = 0; t < T; t++) {
    float s[96], m[96], v[32], top = -INFINITY;
    for (int i = 0; i < 96; i++) {
      s[i] = 0;
      m[i] = -INFINITY;
      for (int h = i; h < H; h += 96) {
        s[i] += x[t * ld + h];
        m[i] = fmaxf(m[i], x[t * ld + h]);
      }
      top = fmaxf(top, m[i]);
    }
    float warp[32] = {0};
    for (int w = 0; w < 3; w++) {
      memcpy(v, s + 32 * w, sizeof v);
      warp[w] = tree(v, 32);
    }
    memcpy(v, warp, sizeof v);
    stat[t * 3] = tree(v, 32);
    stat[t * 3 + 1] = top;
    float low = INFINITY;
    for (int i = 0; i < 96; i++) low = fminf(low, -m[i]);
    stat[t * 3 + 2] = low;
    for (int i = 0; i < 96; i++) {
      const float *g = s + (i & ~3);
      float wide = -INFINITY, four = (g[0] + g[2]) + (g[1] + g[3]);
      for (int k = 0; k < 8; k++) wide = fmaxf(wide, m[(i & ~7) + k]);
      float other = s[95 - i];
      other += s[95 - (i ^ 1)] * 2.0f;
      y[t * 96 + i] = warp[i / 32] + four + wide + other;
    }
  }
}

Test(emu, rows) {
  enum { T = 37, H = 301, LD = 320 };
  static float x[T * LD], y[T * 96], stat[T * 3], wy[T * 96], wstat[T * 3];
  srand((unsigned)time(NULL));
  fill_random(x, T * LD);
  rows_reference(x, H, LD, T, wy, wstat);
  for (int mode = 0; mode < 8; mode++) {
    gs_device *d = open_emu(mode & 1, mode & 2, mode & 4 ? 3 : 1);
    gs_ptr px = upload(d, x, T * LD), py = alloc(d, sizeof y), ps = alloc(d, sizeof stat);
    run r = {"rows", rows, 96,
             false,  T,    {ptr(px, T * LD), ptr(py, T * 96), ptr(ps, T * 3), i64(H), i64(LD)},
             5};
    gs_error err = {0};
    for (int again = 0; again < 2; again++)
      cr_assert_eq(launch(d, &r, &err), GS_OK, "mode %d: %s", mode, err.message);
    size_t hole;
    cr_assert(!gs_emu_unwritten(d, py, sizeof y, &hole));
    cr_assert_eq(gs_device_download(d, y, py, sizeof y, NULL), GS_OK);
    cr_assert_eq(gs_device_download(d, stat, ps, sizeof stat, NULL), GS_OK);
    cr_assert_eq(memcmp(y, wy, sizeof y), 0, "mode %d", mode);
    cr_assert_eq(memcmp(stat, wstat, sizeof stat), 0, "mode %d", mode);
    gs_device_close(d);
  }
}

/* Vectors and every storage type; 1024 threads. */
static const char types[] =
    "GS_CONST f32 two[2] = {2.0f, 4.0f};\n"
    "GS_FN f32 twice(f32 v) { return two[0] * v; }\n"
    "#line 700 \"elsewhere\"\n"
    "GS_KERNEL(types, 1024, 0, GS_IN(f32, x), GS_OUT(bf16, b), GS_OUT(f16, h), GS_OUT(i32, n),\n"
    "          GS_STEP(lr)) {\n"
    "  f32 v[4];\n"
    "  i64 i = ((i64)GS_BID * 1024 + GS_TID) * 4;\n"
    "  gs_load<4>(v, x, i);\n"
    "  GS_UNROLL\n"
    "  for (int k = 0; k < 4; k++) v[k] = twice(v[k]) * gs_step(lr);\n"
    "  gs_store<4>(b, i, v);\n"
    "  gs_store<4>(h, i, v);\n"
    "  f32 all = GS_WARP_MAX((f32)GS_TID);\n"
    "  GS_UNROLL\n"
    "  for (int k = 0; k < 4; k++) gs_puti(n, i + k, (i64)all);\n"
    "}\n";

Test(emu, types) {
  enum { N = 8192 };
  static float x[N];
  static uint16_t b[N], h[N];
  static int32_t n[N];
  fill_random(x, N);
  float half = 0.5f;
  for (int checked = 0; checked < 2; checked++) {
    gs_device *d = open_emu(checked, false, 2);
    gs_ptr px = upload(d, x, N), pb = alloc(d, 2 * N), ph = alloc(d, 2 * N), pn = alloc(d, 4 * N);
    gs_ptr pl = upload(d, &half, 1);
    run r = {"types", types, 1024,
             false,   2,     {ptr(px, N), ptr(pb, N / 2), ptr(ph, N / 2), ptr(pn, N), ptr(pl, 1)},
             5};
    gs_error err = {0};
    cr_assert_eq(launch(d, &r, &err), GS_OK, "%s", err.message);
    gs_device_download(d, b, pb, sizeof b, NULL);
    gs_device_download(d, h, ph, sizeof h, NULL);
    gs_device_download(d, n, pn, sizeof n, NULL);
    for (int i = 0; i < N; i++) {
      uint32_t u = (uint32_t)b[i] << 16;
      float v;
      memcpy(&v, &u, 4);
      cr_assert_leq(fabsf(v - x[i]), fabsf(x[i]) * 0x1p-8f);
      cr_assert_eq(n[i], ((i / 4 % 1024) | 31));
    }
    gs_device_close(d);
  }
}

/* ---- faults: each is one line of a kernel, and the report names it ---- */

typedef struct fault {
  const char *name, *text, *say; /* what the report must contain, beside the line */
  int threads, barrier_free, line;
  int64_t grid;
} fault;

enum { FAULT_N = 64 };

/* All faulty kernels take x (in, FAULT_N), y (out, FAULT_N), z (inout, FAULT_N, uninitialised). */
#define HEAD(name, free)                                                                           \
  "GS_KERNEL(" name ", 32, " free                                                                  \
  ", GS_IN(f32, x), GS_OUT(f32, y), GS_INOUT(f32, z), GS_DIM(N)) {\n"
#define SH "  GS_SHARED(f32, s, 64);\n"

static const fault faults[] = {
    {"over", HEAD("over", "1") "  i64 i = GS_BID * 32 + GS_TID;\n  y[i + 1] = gs_get(x, i);\n}\n",
     "out of bounds: y[64], its extent is 64", 32, 1, 3, 2},
    {"under", HEAD("under", "1") "  i64 i = GS_TID;\n  f32 v = x[i - 1];\n  y[i] = v;\n}\n",
     "out of bounds: x[-1]", 32, 1, 3, 1},
    {"uninit", HEAD("uninit", "1") "  i64 i = GS_TID;\n\n  gs_put(y, i, gs_get(z, i));\n}\n",
     "uninitialised: z[0]", 32, 1, 4, 1},
    {"twice", HEAD("twice", "1") "  y[GS_TID] = 1.0f;\n  if (GS_TID == 7)\n    y[3] = 2.0f;\n}\n",
     "double write: y[3]", 32, 1, 4, 1},
    {"misaligned",
     HEAD("misaligned", "1") "  f32 v[4];\n  if (GS_TID == 0) {\n  gs_load<4>(v, x, 6);\n  "
                             "gs_store<4>(y, 0, v); }\n}\n",
     "misaligned: x[6]", 32, 1, 4, 1},
    {"crossing",
     HEAD("crossing", "1") "  if (GS_BID == 0) z[GS_TID] = 1.0f;\n  if (GS_BID == 1)\n    "
                           "y[GS_TID] = (f32)z[GS_TID];\n}\n",
     "race between blocks: z[0]", 32, 1, 4, 2},
    {"after",
     HEAD("after", "1") "  if (GS_BID == 0) { z[GS_TID] = 1.0f; y[GS_TID] = (f32)z[GS_TID]; }\n"
                        "  if (GS_BID == 1)\n    z[GS_TID] = 3.0f;\n}\n",
     "race between blocks: z[0]", 32, 1, 4, 2},
    {"threads",
     HEAD("threads",
          "1") "  z[GS_TID] = 1.0f;\n  if (GS_TID > 0)\n    y[GS_TID] = (f32)z[GS_TID - 1];\n}\n",
     "data race: z[0]", 32, 1, 4, 1},
    {"race", HEAD("race", "0") SH "  s[GS_TID] = 1.0f;\n  y[GS_TID] = (f32)s[31 - GS_TID];\n}\n",
     "shared s[31]", 32, 0, 4, 1},
    {"removed",
     HEAD("removed", "0") SH "  s[GS_TID] = 1.0f;\n  GS_SYNC();\n  f32 v = s[31 - GS_TID];\n"
                             "  s[GS_TID] = v;\n  y[GS_TID] = v;\n}\n",
     "data race: s[", 32, 0, 5, 1},
    {"shuninit",
     HEAD("shuninit", "0") SH
     "  if (GS_TID > 0) s[GS_TID] = 1.0f;\n  GS_SYNC();\n  y[GS_TID] = (f32)s[GS_TID];\n}\n",
     "uninitialised: shared s[0]", 32, 0, 5, 1},
    {"shover",
     HEAD("shover", "0") SH "  s[GS_TID * 3] = 1.0f;\n  GS_SYNC();\n  y[GS_TID] = 0.0f;\n}\n",
     "out of bounds: shared s[66], its extent is 64", 32, 0, 3, 1},
    {"leaves",
     HEAD("leaves", "0") "  if (GS_TID == 5) return;\n  GS_SYNC();\n  y[GS_TID] = 0.0f;\n}\n",
     "31 threads of 32 are here, while 1 have ended", 32, 0, 3, 1},
    {"divergent",
     HEAD(
         "divergent",
         "0") "  if (GS_TID < 8)\n    GS_SYNC();\n  else\n    GS_SYNC();\n  y[GS_TID] = 0.0f;\n}\n",
     "divergent barrier", 32, 0, 5, 1},
    {"lanes",
     HEAD(
         "lanes",
         "0") "  f32 v = 1.0f;\n  if (GS_TID < 31)\n    v = GS_WARP_SUM(v);\n  y[GS_TID] = v;\n}\n",
     "divergent collective", 32, 0, 4, 1},
    {"barrier", HEAD("barrier", "1") "  y[GS_TID] = 0.0f;\n  GS_SYNC();\n}\n",
     "a barrier in a kernel declared barrier-free", 32, 1, 3, 1},
    {"shfree", HEAD("shfree", "1") SH "  s[GS_TID] = 1.0f;\n  y[GS_TID] = (f32)s[GS_TID];\n}\n",
     "shared memory (s) in a kernel declared barrier-free", 32, 1, 2, 1},
    {"toomuch", HEAD("toomuch", "0") "  GS_SHARED(f32, s, 100000);\n  s[GS_TID] = 1.0f;\n}\n",
     "shared memory: 400000 bytes", 32, 0, 2, 1},
};

enum { NFAULTS = sizeof faults / sizeof *faults };

static void compile_faults(gs_device *d) { /* together, which is faster */
  gs_kernel k[NFAULTS];
  const gs_kernel *list[NFAULTS];
  gs_func *f[NFAULTS];
  gs_error err = {0};
  for (int i = 0; i < NFAULTS; i++) {
    k[i] = (gs_kernel){.entry = faults[i].name,
                       .text = faults[i].text,
                       .threads = faults[i].threads,
                       .barrier_free = faults[i].barrier_free};
    list[i] = &k[i];
  }
  cr_assert_eq(gs_device_compile(d, list, NFAULTS, f, &err), GS_OK, "%s", err.message);
}

Test(emu, faults) {
  float x[FAULT_N];
  fill_random(x, FAULT_N);
  for (int back = 0; back < 2; back++) {
    gs_device *d = open_emu(true, back, 2);
    compile_faults(d);
    for (int i = 0; i < NFAULTS; i++) {
      const fault *f = &faults[i];
      gs_ptr px = upload(d, x, FAULT_N), py = alloc(d, 4 * FAULT_N), pz = alloc(d, 4 * FAULT_N);
      run r = {f->name,    f->text,
               f->threads, f->barrier_free,
               f->grid,    {ptr(px, FAULT_N), ptr(py, FAULT_N), ptr(pz, FAULT_N), i64(FAULT_N)},
               4};
      gs_error err = {0};
      cr_assert_eq(launch(d, &r, &err), GS_ERR_CHECK, "%s: %s", f->name, err.message);
      char place[64];
      snprintf(place, sizeof place, "kernel %s, line %d,", f->name, f->line);
      if (!back) {
        cr_assert(strstr(err.message, place), "%s: %s", place, err.message);
        cr_assert(strstr(err.message, f->say) || strstr(f->say, "shared s[31]"), "%s: %s", f->say,
                  err.message);
      }
      /* The device goes on after a report. */
      gs_ptr pw = upload(d, x, FAULT_N);
      run ok = {"saxpy", saxpy, 64,
                true,    1,     {ptr(px, FAULT_N), ptr(pw, FAULT_N), f32(2), i64(FAULT_N)},
                4};
      cr_assert_eq(launch(d, &ok, &err), GS_OK, "after %s: %s", f->name, err.message);
    }
    gs_device_close(d);
  }
}

/* Without checks, threads that wait for each other are an error, never a hang. */
Test(emu, stuck_without_checks) {
  gs_device *d = open_emu(false, false, 2);
  static const char *const names[] = {"leaves", "lanes", "toomuch"};
  for (size_t k = 0; k < 3; k++)
    for (int i = 0; i < NFAULTS; i++) {
      const fault *f = &faults[i];
      if (strcmp(f->name, names[k]) != 0) continue;
      gs_ptr p = alloc(d, 4 * FAULT_N);
      gs_value v = ptr(p, FAULT_N);
      run r = {f->name, f->text, 32, false, 40, {v, v, v, i64(FAULT_N)}, 4};
      gs_error err = {0};
      cr_assert_eq(launch(d, &r, &err), GS_ERR_CHECK, "%s", f->name);
      cr_assert(strstr(err.message, f->name), "%s", err.message);
    }
  float x[96 * 2];
  fill_random(x, 96 * 2);
  gs_ptr px = upload(d, x, 192), py = alloc(d, 4 * 192), ps = alloc(d, 24);
  run r = {"rows", rows, 96, false, 2, {ptr(px, 192), ptr(py, 192), ptr(ps, 6), i64(96), i64(96)},
           5};
  gs_error err = {0};
  cr_assert_eq(launch(d, &r, &err), GS_OK, "%s", err.message);
  gs_device_close(d);
}

Test(emu, unwritten_tail) {
  gs_device *d = open_emu(true, false, 1);
  static const char text[] = "GS_KERNEL(tail, 32, 1, GS_OUT(f32, y), GS_DIM(N)) {\n"
                             "  i64 i = GS_BID * 32 + GS_TID;\n  if (i < N - 1) y[i] = 0.0f;\n}\n";
  gs_ptr p = alloc(d, 4 * 70);
  run r = {"tail", text, 32, true, 3, {ptr(p, 70), i64(70)}, 2};
  gs_error err = {0};
  size_t at = 0;
  cr_assert_eq(launch(d, &r, &err), GS_OK, "%s", err.message);
  cr_assert(gs_emu_unwritten(d, p, 280, &at));
  cr_assert_eq(at, 276);
  cr_assert(!gs_emu_unwritten(d, p, 276, &at));
  cr_assert_eq(gs_emu_poison(d, p, 280, &err), GS_OK);
  cr_assert(gs_emu_unwritten(d, p, 276, &at) && at == 0);
  cr_assert_eq(gs_device_fill(d, p, 0, 280, &err), GS_OK);
  cr_assert(!gs_emu_unwritten(d, p, 280, &at));
  gs_device_close(d);
}

/* ---- the rest of the device ---- */

/* The folder that a failed compilation left. */
static void remove_kept(gs_error *err) {
  char *at = strstr(err->message, "kept as ");
  if (at == NULL) return;
  at += 8;
  char *slash = strstr(at, ".cu");
  while (slash > at && *slash != '/') slash--;
  *slash = '\0';
  gs_remove_tree(at);
}

Test(emu, compile_error) {
  gs_device *d = open_emu(false, false, 1);
  gs_kernel good = {.entry = "saxpy", .text = saxpy, .threads = 64, .barrier_free = true};
  gs_kernel bad = {.entry = "bad",
                   .threads = 32,
                   .barrier_free = true,
                   .text = "GS_KERNEL(bad, 32, 1, GS_OUT(f32, y)) {\n  y[GS_TID] = nonsense;\n}\n"};
  gs_kernel meets = {.entry = "meets",
                     .threads = 32,
                     .barrier_free = true,
                     .text = "GS_KERNEL(meets, 32, 1, GS_OUT(f32, y)) {\n  GS_SYNC();\n}\n"};
  gs_kernel wrong = {.entry = "wrong",
                     .threads = 64,
                     .barrier_free = true,
                     .text = "GS_KERNEL(wrong, 32, 1, GS_OUT(f32, y)) { y[GS_TID] = 0.0f; }\n"};
  const gs_kernel *list[] = {&good, &bad, &good}, *free_list[] = {&meets}, *threads[] = {&wrong};
  gs_func *out[3];
  gs_error err = {0};
  cr_assert_eq(gs_device_compile(d, list, 3, out, &err), GS_ERR_COMPILE);
  cr_assert(strstr(err.message, "kernel bad") && strstr(err.message, "bad.cu:2"), "%s",
            err.message);
  char *kept = strstr(err.message, "kept as "), *end = kept ? strstr(kept, "):") : NULL;
  cr_assert(end, "%s", err.message);
  *end = '\0';
  char *text = NULL;
  size_t len = 0;
  cr_assert_eq(gs_file_read(kept + 8, &text, &len, NULL), GS_OK, "%s", kept + 8);
  cr_assert_str_eq(text, bad.text);
  free(text);
  remove_kept(&err);
  cr_assert_eq(gs_device_compile(d, free_list, 1, out, &err), GS_ERR_COMPILE);
  cr_assert(strstr(err.message, "kernel meets"), "%s", err.message);
  remove_kept(&err);
  cr_assert_eq(gs_device_compile(d, threads, 1, out, &err), GS_ERR_COMPILE);
  list[1] = &good;
  cr_assert_eq(gs_device_compile(d, list, 3, out, &err), GS_OK, "%s", err.message);
  cr_assert(out[0] == out[1] && out[1] == out[2]);
  gs_device_close(d);
}

Test(emu, wrong_use) {
  gs_error err = {0};
  gs_device *d = NULL;
  cr_assert_eq(gs_device_open("gpu", NULL, &d, &err), GS_ERR_USE);
  cr_assert(strstr(err.message, "\"gpu\"") && strstr(err.message, "emu"), "%s", err.message);
  gs_device_options o = {.arch = "sm_12"};
  cr_assert_eq(gs_device_open("emu", &o, &d, &err), GS_ERR_USE);
  cr_assert(strstr(err.message, "sm_12"), "%s", err.message);
  o.arch = "sm_90";
  cr_assert_eq(gs_device_open("emu", &o, &d, &err), GS_OK, "%s", err.message);
  cr_assert(gs_device_is_emulator(d));
  cr_assert_str_eq(gs_device_caps(d)->arch, "sm_90a");
  gs_device_close(d);
  d = open_emu(true, false, 1);
  gs_ptr p = alloc(d, 64);
  run r = {"saxpy", saxpy, 64, true, 1, {ptr(p, 16), ptr(p, 16), f32(1), f32(1)}, 4};
  cr_assert_eq(launch(d, &r, &err), GS_ERR_USE);
  cr_assert(strstr(err.message, "parameter N is an i64"), "%s", err.message);
  r.nargs = 3;
  cr_assert_eq(launch(d, &r, &err), GS_ERR_USE);
  r = (run){"saxpy", saxpy, 64, true, 1, {ptr(p, 17), ptr(p, 16), f32(1), i64(1)}, 4};
  cr_assert_eq(launch(d, &r, &err), GS_ERR_CHECK);
  cr_assert_eq(gs_device_fill(d, p, 0, 65, &err), GS_ERR_CHECK);
  gs_device_close(d);
}

Test(emu, memory_peak) {
  gs_device *d = open_emu(false, false, 1);
  gs_ptr p[200];
  for (int i = 0; i < 200; i++) p[i] = alloc(d, 1000);
  cr_assert_eq(gs_device_memory_peak(d), 200000);
  for (int i = 0; i < 200; i++) {
    cr_assert_eq(p[i] % 256, 0);
    gs_device_free(d, p[i]);
  }
  alloc(d, 150000);
  cr_assert_eq(gs_device_memory_peak(d), 200000);
  alloc(d, 50001);
  cr_assert_eq(gs_device_memory_peak(d), 200001);
  gs_device_close(d);
}

Test(emu, capture) {
  enum { N = 100 };
  float x[N], y[N], got[N];
  fill_random(x, N);
  fill_random(y, N);
  gs_device *d = open_emu(true, false, 2);
  gs_ptr px = upload(d, x, N), py = upload(d, y, N), pz = alloc(d, sizeof x);
  run r = {"saxpy", saxpy, 64, true, 2, {ptr(px, N), ptr(py, N), f32(1), i64(N)}, 4};
  gs_func *f = compile(d, &r);
  gs_exec *x1 = NULL;
  gs_error err = {0};
  cr_assert_eq(gs_device_capture_begin(d, &err), GS_OK);
  cr_assert_eq(gs_device_launch(d, f, 2, r.args, 4, &err), GS_OK);
  cr_assert_eq(gs_device_copy(d, pz, py, sizeof x, &err), GS_OK);
  cr_assert_eq(gs_device_upload(d, pz, x, sizeof x, &err), GS_ERR_USE);
  cr_assert_eq(gs_device_capture_end(d, &x1, &err), GS_OK);
  memset(r.args, 0, sizeof r.args);
  for (int i = 0; i < 3; i++) cr_assert_eq(gs_exec_launch(x1, &err), GS_OK, "%s", err.message);
  gs_device_download(d, got, pz, sizeof got, NULL);
  for (int i = 0; i < N; i++) cr_assert_eq(got[i], ((x[i] + y[i]) + x[i]) + x[i]);
  gs_exec_free(x1);
  gs_device_close(d);
}

/* ---- launch lists ---- */

Test(emu, launch_list) {
  enum { T = 5, H = 40, LD = 48 };
  static const char first[] =
      "GS_KERNEL(first, 32, 1, GS_IN(f32, x), GS_STRIDE(x_ld), GS_INOUT(f32, part), GS_STEP(lr),\n"
      "          GS_DIM(T)) {\n"
      "  i64 h = GS_BID * 32 + GS_TID;\n"
      "  if (h < 40) {\n"
      "    f32 sum = 0.0f;\n"
      "    for (i64 t = 0; t < T; t++) sum += gs_get(x, t * x_ld + h) * gs_step(lr);\n"
      "    gs_put(part, h, sum);\n"
      "  }\n"
      "}\n";
  static const char second[] =
      "GS_KERNEL(second, 64, 1, GS_INOUT(f32, part), GS_OUT(f32, y), GS_NUM(a)) {\n"
      "  if (GS_TID < 40) gs_put(y, GS_TID, gs_get(part, GS_TID) * a);\n}\n";
  gs_arg a1[] = {{.kind = GS_ARG_TENSOR, .index = 0, .is_read = true},
                 {.kind = GS_ARG_STRIDE, .index = 0},
                 {.kind = GS_ARG_TEMP, .index = 0, .is_read = true, .is_written = true},
                 {.kind = GS_ARG_STEP_SCALAR, .index = 2, .is_read = true},
                 {.kind = GS_ARG_DIM, .index = 0}};
  gs_arg a2[] = {{.kind = GS_ARG_TEMP, .index = 0, .is_read = true, .is_written = true},
                 {.kind = GS_ARG_TENSOR, .index = 1, .is_written = true},
                 {.kind = GS_ARG_SCALAR, .index = 3}};
  gs_kernel k[] = {{.entry = "first",
                    .text = first,
                    .nargs = 5,
                    .args = a1,
                    .grid = {.coef = H, .div = 32},
                    .threads = 32,
                    .barrier_free = true},
                   {.entry = "second",
                    .text = second,
                    .nargs = 3,
                    .args = a2,
                    .grid = {.coef = 1, .div = 1},
                    .threads = 64,
                    .barrier_free = true}};
  gs_temp temp = {.type = GS_F32, .count = {.coef = H, .div = 1}};
  gs_launch_list list = {.nkernels = 2, .kernels = k, .ntemps = 1, .temps = &temp};
  gs_device *d = open_emu(true, false, 2);
  float x[T * LD], y[H], lr = 0.5f;
  fill_random(x, T * LD);
  gs_ptr part = alloc(d, gs_launch_temp_bytes(&list, 0, NULL)), py = alloc(d, sizeof y);
  gs_bound bound[4] = {{.ptr = upload(d, x, T * LD), .bytes = sizeof x, .stride = LD},
                       {.ptr = py, .bytes = sizeof y},
                       {.ptr = upload(d, &lr, 1), .bytes = 4},
                       {.value = 3}};
  const gs_kernel *both[] = {&k[0], &k[1]};
  gs_func *funcs[2];
  gs_error err = {0};
  cr_assert_eq(gs_device_compile(d, both, 2, funcs, &err), GS_OK, "%s", err.message);
  gs_compiled c = {&list, funcs};
  int64_t sizes[GS_MAX_DIMS] = {T};
  for (int again = 0; again < 2; again++)
    cr_assert_eq(gs_launch(d, &c, bound, sizes, &part, &err), GS_OK, "%s", err.message);
  gs_device_download(d, y, py, sizeof y, NULL);
  for (int h = 0; h < H; h++) {
    float sum = 0;
    for (int t = 0; t < T; t++) sum += x[t * LD + h] * 0.5f;
    cr_assert_eq(y[h], sum * 3);
  }
  gs_device_close(d);
}
