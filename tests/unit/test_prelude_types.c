/* uses: gs_device */
/* test_prelude_types.c: the host prelude's storage types, rounding at random, random numbers,
 * integers and tables against base/ and against definitions in double written here. The GPU's
 * prelude is held against the host's, bit for bit, by tests/gpu. */
#include "base/half.h"
#include "base/random.h"
#include "device/device.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 1 << 16, BLOCK = 256 };

static gs_device *open_emu(void) {
  gs_device *d = NULL;
  gs_error err = {0};
  gs_device_options o = {.threads = 2};
  cr_assert_eq(gs_device_open("emu", &o, &d, &err), GS_OK, "%s", err.message);
  return d;
}

/* Runs STATEMENT for each i below N, with x[i], r[i] to read and y[i] to write. */
static void run(gs_device *d, const char *before, const char *statement, const char *const type[3],
                const void *x, const void *r, void *y) {
  static int number;
  static const gs_type all[] = {GS_F32,  GS_BF16, GS_F16,  GS_I32, GS_I64,
                                GS_E4M3, GS_E5M2, GS_E8M0, GS_U8,  GS_I8};
  size_t size[3] = {0};
  for (int k = 0; k < 3; k++)
    for (size_t t = 0; t < sizeof all / sizeof *all; t++)
      if (strcmp(type[k], gs_type_name(all[t])) == 0) size[k] = gs_type_size(all[t]);
  char entry[32], text[4096];
  snprintf(entry, sizeof entry, "types%d", number++);
  snprintf(text, sizeof text,
           "%s\nGS_KERNEL(%s, 256, 1, GS_IN(%s, x), GS_IN(%s, r), GS_OUT(%s, y), GS_DIM(N)) {\n"
           "  const i64 i = GS_BID * 256 + GS_TID;\n  if (i < N) {\n    %s\n  }\n}\n",
           before, entry, type[0], type[1], type[2], statement);
  gs_kernel k = {.entry = entry, .text = text, .threads = BLOCK, .barrier_free = true};
  const gs_kernel *list[] = {&k};
  gs_func *f = NULL;
  gs_error err = {0};
  cr_assert_eq(gs_device_compile(d, list, 1, &f, &err), GS_OK, "%s", err.message);
  gs_ptr p[3];
  const void *from[3] = {x, r, y};
  gs_value args[4];
  for (int j = 0; j < 3; j++) {
    cr_assert_eq(gs_device_alloc(d, N * size[j], &p[j], &err), GS_OK);
    cr_assert_eq(gs_device_upload(d, p[j], from[j], N * size[j], &err), GS_OK);
    args[j] = (gs_value){.kind = GS_VALUE_PTR, .ptr = p[j], .bytes = N * size[j]};
  }
  args[3] = (gs_value){.kind = GS_VALUE_I64, .i64 = N};
  cr_assert_eq(gs_device_launch(d, f, N / BLOCK, args, 4, &err), GS_OK, "%s", err.message);
  cr_assert_eq(gs_device_download(d, y, p[2], N * size[2], &err), GS_OK);
  for (int j = 0; j < 3; j++) gs_device_free(d, p[j]);
}

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}
static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}
static uint64_t seed(void) {
  uint64_t s = (uint64_t)time(NULL);
  fprintf(stderr, "seed %llu\n", (unsigned long long)s);
  return s;
}
static bool same(float a, float b) {
  return isnan(a) ? isnan(b) : bits_of(a) == bits_of(b);
}

static const gs_type bytes[] = {GS_E4M3, GS_E5M2, GS_E8M0};

/* Every byte to f32; f32 of every upper half with low bits around ties, and at random, back. */
Test(prelude_types, fp8) {
  static float x[N], wide[N], r[N];
  static uint8_t b[N];
  static const uint32_t low[] = {0, 1, 0xffff, 0x8000, 0x7fff, 0x8001};
  gs_device *d = open_emu();
  uint64_t s = seed();
  for (int k = 0; k < 3; k++) {
    const char *name = gs_type_name(bytes[k]);
    for (int i = 0; i < N; i++) b[i] = (uint8_t)i;
    run(d, "", "gs_put(y, i, gs_get(x, i));", (const char *[]){name, "f32", "f32"}, b, r, wide);
    for (int i = 0; i < N; i++)
      cr_assert(same(wide[i], (float)gs_load_f64(b, bytes[k], (size_t)i)), "%s %02x: %g", name,
                b[i], (double)wide[i]);
    for (int round = 0; round < 8; round++) {
      for (int i = 0; i < N; i++) {
        uint32_t rest = round < 6 ? low[round] : (uint32_t)gs_random_next(&s) & 0xffffu;
        x[i] = float_of((uint32_t)i << 16 | rest);
      }
      run(d, "", "gs_put(y, i, gs_get(x, i));", (const char *[]){"f32", "f32", name}, x, r, b);
      char text[64];
      snprintf(text, sizeof text, "gs_put(y, i, gs_round_%s(gs_get(x, i)));", name);
      run(d, "", text, (const char *[]){"f32", "f32", "f32"}, x, r, wide);
      for (int i = 0; i < N; i++) {
        uint8_t want;
        gs_from_f32(&want, bytes[k], &x[i], 1);
        cr_assert_eq(b[i], want, "%s of %a: %02x, not %02x", name, (double)x[i], b[i], want);
        cr_assert(same(wide[i], (float)gs_load_f64(&want, bytes[k], 0)), "%s of %a", name,
                  (double)x[i]);
      }
    }
  }
  gs_device_close(d);
}

/* ---- rounding at random ---- */

typedef struct format {
  gs_type type;
  int mantissa, least;   /* bits; exponent of the least normal number */
  double most, infinity; /* largest finite value; from here on infinite, or 0 where it saturates */
} format;

static const format formats[] = {
    {GS_BF16, 7, -126, 3.3895313892515355e38, 3.402823669209385e38},
    {GS_F16, 10, -14, 65504, 65536},
    {GS_E4M3, 3, -6, 448, 0},
    {GS_E5M2, 2, -14, 57344, 0},
};

static float by_definition(const format *f, float v, float r) {
  if (isnan(v)) return v;
  double a = fabs((double)v), most = f->infinity != 0 ? f->infinity : f->most;
  int e;
  frexp(a, &e);
  double step = ldexp(1, (e - 1 < f->least ? f->least : e - 1) - f->mantissa);
  double low = floor(a / step) * step, p = (a - low) / step;
  double w = p + (double)r >= 1 ? low + step : low;
  if (a >= most || w >= most) w = f->infinity != 0 ? INFINITY : f->most;
  return (float)copysign(w, (double)v);
}

Test(prelude_types, random_rounding) {
  static float x[N], r[N], y[N];
  gs_device *d = open_emu();
  uint64_t s = seed();
  for (int k = 0; k < 4; k++) {
    char text[64];
    snprintf(text, sizeof text, "gs_put(y, i, gs_round_rand_%s(gs_get(x, i), gs_get(r, i)));",
             gs_type_name(formats[k].type));
    int up = 0, down = 0;
    for (int round = 0; round < 4; round++) {
      for (int i = 0; i < N; i++) {
        x[i] = float_of((uint32_t)i << 16 | ((uint32_t)gs_random_next(&s) & 0xffffu));
        if (round == 3) x[i] = float_of((uint32_t)i << 16); /* much of this is exact */
        r[i] = (float)(gs_random_next(&s) >> 40) * 0x1p-24f;
        if (i % 16 == 5) r[i] = i % 32 == 5 ? 0.0f : 0x0.ffffffp0f;
      }
      run(d, "", text, (const char *[]){"f32", "f32", "f32"}, x, r, y);
      for (int i = 0; i < N; i++) {
        float want = by_definition(&formats[k], x[i], r[i]);
        cr_assert(same(y[i], want), "%s(%a, %a) = %a, not %a", text, (double)x[i], (double)r[i],
                  (double)y[i], (double)want);
        up += fabsf(y[i]) > fabsf(x[i]);
        down += fabsf(y[i]) < fabsf(x[i]);
      }
    }
    cr_assert(up > N / 8 && down > N / 8, "%d up, %d down", up, down);
  }
  gs_device_close(d);
}

/* The mean of many roundings of one value is the value. */
Test(prelude_types, random_rounding_is_unbiased) {
  static float x[N], r[N], y[N];
  gs_device *d = open_emu();
  uint64_t s = seed();
  static const float each[] = {1.003f, -0.30011f, 0.0007f, 17.77f};
  for (int k = 0; k < 4; k++) {
    for (int i = 0; i < N; i++) x[i] = each[i % 4];
    char text[128];
    snprintf(text, sizeof text,
             "gs_put(y, i, gs_round_rand_%s(gs_get(x, i), gs_rand(i, 9, %llu)));",
             gs_type_name(formats[k].type), (unsigned long long)(gs_random_next(&s) >> 33));
    run(d, "", text, (const char *[]){"f32", "f32", "f32"}, x, r, y);
    for (int j = 0; j < 4; j++) {
      double sum = 0, x0 = (double)each[j];
      int e;
      frexp(x0, &e);
      for (int i = j; i < N; i += 4) sum += (double)y[i];
      int least = formats[k].least;
      double step = ldexp(1, (e - 1 < least ? least : e - 1) - formats[k].mantissa);
      double mean = sum / (N / 4), bound = 6 * step / 2 / sqrt(N / 4);
      cr_assert(fabs(mean - x0) <= bound, "%s of %g: mean %g", text, x0, mean);
    }
  }
  gs_device_close(d);
}

Test(prelude_types, random_numbers) {
  static int64_t x[N], r[N];
  static float y[N];
  gs_device *d = open_emu();
  uint64_t s = seed();
  for (int i = 0; i < N; i++) {
    x[i] = (int64_t)(gs_random_next(&s) >> (i % 40));
    r[i] = (int64_t)(gs_random_next(&s) >> 32) - (i % 3);
  }
  const char *const types[] = {"i64", "i64", "f32"};
  run(d, "", "gs_put(y, i, gs_rand(gs_geti(x, i), 3735928559, gs_geti(r, i)));", types, x, r, y);
  for (int i = 0; i < N; i++)
    cr_assert_eq(y[i], gs_random_at(x[i], 3735928559, r[i]), "%lld", (long long)x[i]);
  gs_device_close(d);
}

/* ---- integers ---- */

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q * b > a ? q - 1 : q;
}

Test(prelude_types, quotients) {
  static int64_t x[N], r[N], y[N];
  static int32_t a[N], b[N], c[N];
  gs_device *d = open_emu();
  uint64_t s = seed();
  for (int i = 0; i < N; i++) {
    x[i] = (int64_t)gs_random_next(&s) >> (i % 63);
    r[i] = (int64_t)(gs_random_next(&s) >> (1 + i % 63));
    if (r[i] == 0) r[i] = 1;
    a[i] = (int32_t)x[i];
    b[i] = (int32_t)(r[i] & 0x7fffffff) ? (int32_t)(r[i] & 0x7fffffff) : 1;
  }
  for (int k = 0; k < 2; k++) {
    const char *f = k ? "gs_remainder" : "gs_quotient";
    char text[128];
    snprintf(text, sizeof text, "gs_puti(y, i, %s(gs_geti(x, i), gs_geti(r, i)));", f);
    run(d, "", text, (const char *[]){"i64", "i64", "i64"}, x, r, y);
    snprintf(text, sizeof text, "gs_puti(y, i, %s((int)gs_geti(x, i), (int)gs_geti(r, i)));", f);
    run(d, "", text, (const char *[]){"i32", "i32", "i32"}, a, b, c);
    for (int i = 0; i < N; i++) {
      int64_t q = floor_div(x[i], r[i]), q32 = floor_div(a[i], b[i]);
      int64_t rest = (int64_t)((uint64_t)x[i] - (uint64_t)q * (uint64_t)r[i]);
      cr_assert_eq(y[i], k ? rest : q, "%s(%lld, %lld)", f, (long long)x[i],
                   (long long)r[i]);
      cr_assert_eq(c[i], k ? a[i] - q32 * b[i] : q32, "%s(%d, %d)", f, a[i], b[i]);
    }
  }
  memset(r, 0, sizeof r);
  run(d, "", "gs_puti(y, i, gs_quotient(gs_geti(x, i), gs_geti(r, i)));",
      (const char *[]){"i64", "i64", "i64"}, x, r, y);
  for (int i = 0; i < N; i++) cr_assert_eq(y[i], 0);
  gs_device_close(d);
}

/* Integers and reals into every integer type: the nearest that it has. */
Test(prelude_types, integer_stores) {
  static const gs_type types[] = {GS_U8, GS_I8, GS_I32, GS_I64};
  static int64_t x[N];
  static float v[N], r[N];
  static unsigned char y[8 * N], want[8];
  gs_device *d = open_emu();
  uint64_t s = seed();
  for (int i = 0; i < N; i++) {
    x[i] = (int64_t)gs_random_next(&s) >> (i % 64);
    v[i] = float_of((uint32_t)i << 16 | ((uint32_t)gs_random_next(&s) & 0xffffu));
    if (i % 4 == 0) v[i] = (float)(int32_t)((uint32_t)gs_random_next(&s) % 1200) / 4 - 150;
  }
  for (int k = 0; k < 4; k++) {
    const char *name = gs_type_name(types[k]);
    size_t size = gs_type_size(types[k]);
    run(d, "", "gs_puti(y, i, gs_geti(x, i));", (const char *[]){"i64", "f32", name}, x, r, y);
    for (int i = 0; i < N; i++) {
      int64_t lo = k == 0 ? 0 : k == 1 ? -128 : INT32_MIN;
      int64_t hi = k == 0 ? 255 : k == 1 ? 127 : INT32_MAX;
      int64_t w = k == 3 ? x[i] : x[i] < lo ? lo : x[i] > hi ? hi : x[i], got = 0;
      if (k == 0) got = y[i];
      if (k == 1) got = ((int8_t *)y)[i];
      if (k == 2) memcpy(&(int32_t){0}, y + 4 * i, 4), got = ((int32_t *)(void *)y)[i];
      if (k == 3) got = ((int64_t *)(void *)y)[i];
      cr_assert_eq(got, w, "%s of %lld: %lld", name, (long long)x[i], (long long)got);
    }
    run(d, "", "gs_put(y, i, gs_get(x, i));", (const char *[]){"f32", "f32", name}, v, r, y);
    for (int i = 0; i < N; i++) {
      gs_store_f64(want, types[k], 0, (double)v[i]);
      cr_assert_eq(memcmp(want, y + size * (size_t)i, size), 0, "%s of %g", name, (double)v[i]);
    }
  }
  gs_device_close(d);
}

Test(prelude_types, floors) {
  static float v[N], r[N];
  static int64_t y[N];
  gs_device *d = open_emu();
  uint64_t s = seed();
  for (int i = 0; i < N; i++)
    v[i] = float_of((uint32_t)i << 16 | ((uint32_t)gs_random_next(&s) & 0xffffu));
  for (int k = 0; k < 2; k++) {
    const char *text = k ? "gs_puti(y, i, (i64)gs_integer32(gs_get(x, i)));"
                         : "gs_puti(y, i, gs_integer(gs_get(x, i)));";
    run(d, "", text, (const char *[]){"f32", "f32", "i64"}, v, r, y);
    for (int i = 0; i < N; i++) {
      double w = floor((double)v[i]), lo = k ? INT32_MIN : -0x1p63, hi = k ? INT32_MAX : 0x1p63;
      int64_t want = isnan(w)  ? 0
                     : w <= lo ? (k ? INT32_MIN : INT64_MIN)
                     : w >= hi ? (k ? INT32_MAX : INT64_MAX)
                               : (int64_t)w;
      cr_assert_eq(y[i], want, "floor of %g: %lld", (double)v[i], (long long)y[i]);
    }
  }
  gs_device_close(d);
}

/* ---- tables ---- */

static void table_text(char *out, size_t cap, const float *t, int n) {
  size_t at = (size_t)snprintf(out, cap, "GS_TABLE(cuts, %d) = {", n);
  for (int i = 0; i < n; i++)
    at += (size_t)snprintf(out + at, cap - at, "(f32)%.9g,", (double)t[i]);
  snprintf(out + at, cap - at, "};");
}

Test(prelude_types, tables) {
  static const int sizes[] = {1, 2, 7, 15, 16, 17, 31, 32, 100, 127, 128, 255};
  static float x[N], r[N], y[N], t[256];
  static int32_t n[N];
  static char table[3500];
  gs_device *d = open_emu();
  uint64_t s = seed();
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    float at = -100;
    for (int i = 0; i < sizes[k]; i++) /* ascending, some twice */
      t[i] = at += (float)(gs_random_next(&s) % 5) + (i % 3 == 0 ? 0.5f : 0.0f);
    for (int i = 0; i < N; i++) {
      x[i] = (float)(gs_random_next(&s) >> 40) * 0x1p-24f * (at + 110) - 105;
      if (i % 2) x[i] = t[(size_t)i % (size_t)sizes[k]];
      if (i % 101 == 0) x[i] = i % 202 ? NAN : INFINITY;
    }
    table_text(table, sizeof table, t, sizes[k]);
    run(d, table, "gs_puti(y, i, gs_bucket(cuts, gs_get(x, i)));",
        (const char *[]){"f32", "f32", "i32"}, x, r, n);
    run(d, table, "gs_put(y, i, gs_lookup(cuts, i - 100));", (const char *[]){"f32", "f32", "f32"},
        x, r, y);
    for (int i = 0; i < N; i++) {
      int want = 0, place = i < 100 ? 0 : i - 100 < sizes[k] ? i - 100 : sizes[k] - 1;
      for (int j = 0; j < sizes[k]; j++) want += t[j] < x[i];
      cr_assert_eq(n[i], want, "%d of %d below %g: %d", want, sizes[k], (double)x[i], n[i]);
      cr_assert_eq(y[i], t[place]);
    }
  }
  gs_device_close(d);
}
