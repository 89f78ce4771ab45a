/* uses: gs_base */
/* Small storage types: every code there and back, and rounding at and beside every boundary against
 * a search in the table of what the type holds. */
#include "base/half.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

typedef struct small {
  const char *name;
  float (*from)(uint8_t);
  uint8_t (*to)(float);
  gs_type type;
  int bits, bias, largest;
} small;

static const small fp8[] = {{"e4m3", gs_e4m3_to_f32, gs_f32_to_e4m3, GS_E4M3, 3, 7, 0x7e},
                            {"e5m2", gs_e5m2_to_f32, gs_f32_to_e5m2, GS_E5M2, 2, 15, 0x7b}};

/* What the format's definition says of a code without infinity and NaN. */
static double meaning(const small *s, int code) {
  int e = (code & 0x7f) >> s->bits, m = code & ((1 << s->bits) - 1);
  double v = e ? ldexp(1 + ldexp(m, -s->bits), e - s->bias) : ldexp(m, 1 - s->bias - s->bits);
  return code & 0x80 ? -v : v;
}

/* The nearest code of a magnitude, of two equally near ones the even one; the largest at most. */
static int nearest(const small *s, double x) {
  int best = 0;
  if (x >= meaning(s, s->largest)) return s->largest;
  for (int c = 1; c <= s->largest; c++) {
    double d = fabs(meaning(s, c) - x), b = fabs(meaning(s, best) - x);
    if (d < b || (d == b && c % 2 == 0)) best = c;
  }
  return best;
}

static void check(const small *s, float x) {
  for (int sign = 0; sign < 2; sign++) {
    float v = sign ? -x : x;
    int want = nearest(s, x) | sign << 7;
    cr_assert(s->to(v) == want, "%s(%a) is %02x, not %02x", s->name, v, s->to(v), want);
    uint8_t stored;
    gs_store_f64(&stored, s->type, 0, v);
    cr_assert(stored == want);
  }
}

Test(half, fp8_codes_mean_what_the_format_says) {
  for (int k = 0; k < 2; k++)
    for (int c = 0; c < 256; c++) {
      const small *s = &fp8[k];
      float v = s->from((uint8_t)c);
      if ((c & 0x7f) <= s->largest) {
        cr_assert((double)v == meaning(s, c) && !signbit(v) == !(c & 0x80), "%s %02x", s->name, c);
        cr_assert(s->to(v) == c);
      } else if (s->type == GS_E5M2 && (c & 0x7f) == 0x7c) {
        cr_assert(isinf(v) && !signbit(v) == !(c & 0x80));
      } else {
        cr_assert(isnan(v));
      }
    }
}

Test(half, fp8_rounds_to_nearest_even_and_saturates) {
  for (int k = 0; k < 2; k++) {
    const small *s = &fp8[k];
    for (int c = 0; c <= s->largest; c++) {
      float low = s->from((uint8_t)c), high = c < s->largest ? s->from((uint8_t)(c + 1)) : 2 * low;
      float middle = low + (high - low) / 2, points[] = {low, middle, high};
      for (int p = 0; p < 3; p++) {
        check(s, points[p]);
        check(s, nextafterf(points[p], INFINITY));
        if (points[p] > 0) check(s, nextafterf(points[p], 0));
      }
    }
    for (uint32_t u = 0; u < 0x7f80; u += 7) { /* the upper halves of f32 */
      uint32_t bits = u << 16 | 0x1234;
      float v;
      memcpy(&v, &bits, 4);
      check(s, v);
    }
    cr_assert(s->to(INFINITY) == s->largest && s->to(-INFINITY) == (s->largest | 0x80));
    cr_assert(isnan(s->from(s->to(NAN))));
  }
}

/* From f64 in one rounding: a double just above the middle of two codes goes up. */
Test(half, doubles_are_rounded_once) {
  for (int k = 0; k < 2; k++)
    for (int c = 2; c < fp8[k].largest; c++) {
      double middle = (meaning(&fp8[k], c) + meaning(&fp8[k], c + 1)) / 2;
      uint8_t up, down;
      gs_store_f64(&up, fp8[k].type, 0, middle * (1 + 0x1p-50));
      gs_store_f64(&down, fp8[k].type, 0, middle * (1 - 0x1p-50));
      cr_assert(up == c + 1 && down == c, "%s %02x", fp8[k].name, c);
      cr_assert(gs_load_f64(&up, fp8[k].type, 0) == meaning(&fp8[k], c + 1));
    }
}

Test(half, e8m0_rounds_up) {
  for (int c = 0; c < 255; c++) {
    float v = gs_e8m0_to_f32((uint8_t)c);
    cr_assert((double)v == ldexp(1, c - 127));
    cr_assert(gs_f32_to_e8m0(v) == c);
    if (c < 254) cr_assert(gs_f32_to_e8m0(nextafterf(v, INFINITY)) == c + 1, "%d", c);
    if (c > 0) cr_assert(gs_f32_to_e8m0(nextafterf(v, 0)) == c);
  }
  cr_assert(gs_f32_to_e8m0(0) == 0 && gs_f32_to_e8m0(-5) == 0);
  cr_assert(gs_f32_to_e8m0(INFINITY) == 254 && gs_f32_to_e8m0(0x1.8p127f) == 254);
  cr_assert(isnan(gs_e8m0_to_f32(255)) && gs_f32_to_e8m0(NAN) == 255);
}

Test(half, integers_saturate) {
  int8_t i8[4];
  uint8_t u8[3];
  int32_t i32[2];
  int64_t i64[3];
  const double v[] = {200, -200, -3.7, NAN};
  for (size_t k = 0; k < 4; k++) gs_store_f64(i8, GS_I8, k, v[k]);
  cr_assert(i8[0] == 127 && i8[1] == -128 && i8[2] == -3 && i8[3] == 0);
  for (size_t k = 0; k < 3; k++) gs_store_f64(u8, GS_U8, k, 2 * v[k]);
  cr_assert(u8[0] == 255 && u8[1] == 0 && u8[2] == 0);
  for (size_t k = 0; k < 2; k++) gs_store_f64(i32, GS_I32, k, 1e12 * v[k]);
  cr_assert(i32[0] == INT32_MAX && i32[1] == INT32_MIN);
  for (size_t k = 0; k < 2; k++) gs_store_f64(i64, GS_I64, k, 1e30 * v[k]);
  gs_store_f64(i64, GS_I64, 2, 9007199254740993);
  cr_assert(i64[0] == INT64_MAX && i64[1] == INT64_MIN && i64[2] == 9007199254740992);
  cr_assert(gs_load_f64(i8, GS_I8, 1) == -128);
}
