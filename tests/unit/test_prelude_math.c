/* uses: gs_device */
/* test_prelude_math.c: the functions of the host's prelude against double, over dense samples of
 * all magnitudes and special values; conversions exhaustively against base/half.h. */
#include "base/half.h"
#include "device/device.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 1 << 16, BLOCK = 256 };

static double sigmoid(double v) {
  return 1 / (1 + exp(-v));
}
static double rsqrt(double v) {
  return 1 / sqrt(v);
}

static double softplus(double v) {
  return fmax(v, 0) + log1p(exp(-fabs(v)));
}

typedef struct function {
  const char *name;
  double (*exact)(double);
  double ulp;   /* allowed */
  float lo, hi; /* uniform samples; the other half are of every magnitude within it */
} function;

static const function functions[] = {
    {"gs_exp", exp, 2, -110, 90},
    {"gs_log", log, 2, 0, 3e38f},
    {"gs_log", log, 2, 0, 3},
    {"gs_log", log, 2, 0.9f, 1.1f},
    {"gs_log", log, 2, 0, 1e-30f},
    {"gs_expm1", expm1, 2, -110, 88},
    {"gs_expm1", expm1, 2, -1, 1},
    {"gs_log1p", log1p, 3, -1, 3e38f},
    {"gs_log1p", log1p, 3, -0.99f, 1},
    {"gs_softplus", softplus, 4, -103, 103},
    {"gs_softplus", softplus, 4, -2, 2},
    {"gs_rsqrt", rsqrt, 1.5, 1e-37f, 3e38f},
    {"gs_sqrt", sqrt, 0.5, 0, 3e38f},
    {"gs_tanh", tanh, 4, -12, 12},
    {"gs_sigmoid", sigmoid, 4, -87, 90},
    {"gs_sin", sin, 2, -1048576, 1048576},
    {"gs_cos", cos, 2, -1048576, 1048576},
    {"gs_sin", sin, 2, -3e38f, 3e38f},
    {"gs_cos", cos, 2, -3e38f, 3e38f},
    {"gs_erf", erf, 4, -5, 5},
    {"gs_floor", floor, 0, -1e9f, 1e9f},
    {"gs_abs", fabs, 0, -3e38f, 3e38f},
};
enum { NFUNCTIONS = sizeof functions / sizeof *functions };

static float sample(const function *f, int i) {
  float u = (float)(((double)rand() + rand() / 2147483648.0) / 2147483648.0);
  if (i % 2) return f->lo + u * (f->hi - f->lo);
  float edge = rand() % 2 && f->lo < 0 ? f->lo : f->hi;
  float v = edge * exp2f(-60 * u);
  return v < f->lo ? f->lo : v;
}

/* The distance in units of the last place of `want` as f32 (subnormals included). */
static double ulps(float got, double want) {
  if (isnan(want)) return isnan(got) ? 0 : INFINITY;
  float near = (float)want;
  if (near == got)
    return isinf(near)
               ? 0
               : fabs((double)got - want) / (nextafterf(fabsf(near), INFINITY) - fabsf(near));
  if (isinf(near) || isinf(got)) return isinf(near) && fabsf(got) > 3.4028e38f ? 1 : INFINITY;
  int e;
  frexp(want, &e);
  double unit = ldexp(1, (e < -125 ? -125 : e) - 24);
  return fabs((double)got - want) / unit;
}

static gs_device *open_emu(void) {
  gs_device *d = NULL;
  gs_error err = {0};
  gs_device_options o = {.threads = 2};
  cr_assert_eq(gs_device_open("emu", &o, &d, &err), GS_OK, "%s", err.message);
  return d;
}

/* Runs y[i] = BODY with v = x[i]. */
static gs_func *compile_map(gs_device *d, int number, const char *body, const char *from,
                            const char *to) {
  char entry[32], text[512];
  snprintf(entry, sizeof entry, "map%d", number);
  snprintf(text, sizeof text,
           "GS_KERNEL(%s, 256, 1, GS_IN(%s, x), GS_OUT(%s, y), GS_DIM(N)) {\n"
           "  i64 i = GS_BID * 256 + GS_TID;\n"
           "  if (i < N) {\n    f32 v = gs_get(x, i);\n    gs_put(y, i, %s);\n  }\n}\n",
           entry, from, to, body);
  gs_kernel k = {.entry = entry, .text = text, .threads = BLOCK, .barrier_free = true};
  const gs_kernel *list[] = {&k};
  gs_func *f = NULL;
  gs_error err = {0};
  cr_assert_eq(gs_device_compile(d, list, 1, &f, &err), GS_OK, "%s", err.message);
  return f;
}

static void run_map(gs_device *d, gs_func *f, const void *x, size_t xsize, void *y, size_t ysize) {
  gs_ptr px, py;
  gs_error err = {0};
  cr_assert_eq(gs_device_alloc(d, N * xsize, &px, &err), GS_OK);
  cr_assert_eq(gs_device_alloc(d, N * ysize, &py, &err), GS_OK);
  cr_assert_eq(gs_device_upload(d, px, x, N * xsize, &err), GS_OK);
  gs_value args[] = {{.kind = GS_VALUE_PTR, .ptr = px, .bytes = N * xsize},
                     {.kind = GS_VALUE_PTR, .ptr = py, .bytes = N * ysize},
                     {.kind = GS_VALUE_I64, .i64 = N}};
  cr_assert_eq(gs_device_launch(d, f, N / BLOCK, args, 3, &err), GS_OK, "%s", err.message);
  cr_assert_eq(gs_device_download(d, y, py, N * ysize, &err), GS_OK);
  gs_device_free(d, px);
  gs_device_free(d, py);
}

Test(prelude_math, functions) {
  static float x[N], y[N];
  gs_device *d = open_emu();
  srand((unsigned)time(NULL));
  for (int k = 0; k < NFUNCTIONS; k++) {
    const function *f = &functions[k];
    char body[64];
    snprintf(body, sizeof body, "%s(v)", f->name);
    gs_func *map = compile_map(d, k, body, "f32", "f32");
    double worst = 0;
    float at = 0;
    for (int round = 0; round < 4; round++) {
      for (int i = 0; i < N; i++) x[i] = sample(f, i);
      run_map(d, map, x, 4, y, 4);
      for (int i = 0; i < N; i++) {
        double u = ulps(y[i], f->exact(x[i]));
        if (u > worst) worst = u, at = x[i];
      }
    }
    fprintf(stderr, "%-10s %.2f ulp at %.9g\n", f->name, worst, (double)at);
    cr_assert_leq(worst, f->ulp, "%s: %g ulp at %.9g", f->name, worst, (double)at);
  }
  gs_device_close(d);
}

Test(prelude_math, special) {
  static float x[N], y[N];
  static const float odd[] = {0.0f,    -0.0f,  INFINITY, -INFINITY, NAN,        1e-45f,
                              -1e-45f, 1e-38f, 3.4e38f,  -3.4e38f,  1,          -1,
                              88.8f,   -87.4f, -103.9f,  -104.5f,   16777217.0f};
  enum { ODD = sizeof odd / sizeof *odd };
  gs_device *d = open_emu();
  for (int i = 0; i < N; i++) x[i] = odd[i % ODD];
  for (int k = 0; k < NFUNCTIONS; k++) {
    char body[64];
    snprintf(body, sizeof body, "%s(v)", functions[k].name);
    run_map(d, compile_map(d, k, body, "f32", "f32"), x, 4, y, 4);
    for (int i = 0; i < ODD; i++) {
      bool below = functions[k].exact == sigmoid && x[i] < -87; /* exp(-x) overflows: 0 */
      double want = functions[k].exact(x[i]);
      cr_assert(below ? y[i] <= 1.2e-38f : ulps(y[i], want) <= 2, "%s(%g) = %g, not %g",
                functions[k].name, (double)x[i], (double)y[i], want);
      if (want == 0 && !below)
        cr_assert_eq(!signbit(want), !signbit(y[i]), "%s(%g)", functions[k].name, (double)x[i]);
    }
  }
  gs_device_close(d);
}

/* min and max: a NaN loses, -0 is below +0. */
Test(prelude_math, min_max) {
  static float x[N], y[N];
  static const float odd[] = {0.0f, -0.0f, NAN, 1, -1, INFINITY, -INFINITY};
  gs_device *d = open_emu();
  for (int i = 0; i < N; i++) x[i] = odd[i % 7];
  for (int k = 0; k < 2; k++) {
    gs_func *f = compile_map(
        d, 50 + k, k ? "gs_max(v, gs_get(x, N - 1 - i))" : "gs_min(v, gs_get(x, N - 1 - i))", "f32",
        "f32");
    run_map(d, f, x, 4, y, 4);
    for (int i = 0; i < N; i++) {
      float a = x[i], b = x[N - 1 - i], want = k ? fmaxf(a, b) : fminf(a, b);
      if (a == 0 && b == 0)
        want = k ? (signbit(a) && signbit(b) ? -0.0f : 0.0f)
                 : (signbit(a) || signbit(b) ? -0.0f : 0.0f);
      cr_assert(isnan(want) ? isnan(y[i]) : memcmp(&y[i], &want, 4) == 0, "%g %g: %g", (double)a,
                (double)b, (double)y[i]);
    }
  }
  gs_device_close(d);
}

/* Every 16-bit pattern to f32, and f32 near every 16-bit value, its neighbours and its midpoints,
 * back. */
Test(prelude_math, conversions) {
  static uint16_t h[N], back[N];
  static float wide[N];
  gs_device *d = open_emu();
  for (int k = 0; k < 2; k++) {
    const char *type = k ? "f16" : "bf16";
    gs_func *up = compile_map(d, 20 + k, "v", type, "f32");
    gs_func *down = compile_map(d, 30 + k, "v", "f32", type);
    for (int i = 0; i < N; i++) h[i] = (uint16_t)i;
    run_map(d, up, h, 2, wide, 4);
    for (int i = 0; i < N; i++) {
      float want = k ? gs_f16_to_f32(h[i]) : gs_bf16_to_f32(h[i]);
      cr_assert(isnan(want) ? isnan(wide[i]) : memcmp(&wide[i], &want, 4) == 0, "%s %04x", type, i);
    }
    for (int offset = 0; offset < 7; offset++) {
      static const int32_t steps[2][7] = {{0, 1, -1, 0x7fff, 0x8000, 0x8001, 0x4321},
                                          {0, 1, -1, 0xfff, 0x1000, 0x1001, 0x321}};
      static float x[N];
      for (int i = 0; i < N; i++) {
        uint32_t u;
        memcpy(&u, &wide[i], 4);
        u += (uint32_t)steps[k][offset];
        memcpy(&x[i], &u, 4);
      }
      run_map(d, down, x, 4, back, 2);
      for (int i = 0; i < N; i++) {
        uint16_t want = k ? gs_f32_to_f16(x[i]) : gs_f32_to_bf16(x[i]);
        cr_assert_eq(back[i], isnan(x[i]) ? 0x7fff : want, "%s of %g (%04x)", type, (double)x[i],
                     i);
      }
    }
  }
  gs_device_close(d);
}
