/* half.c: bf16, f16, FP8 and E8M0 to and from f32, and typed loads and stores. The preludes of
 * templates/ convert in the same way, to the bit. */
#include "base/half.h"

#include <math.h>
#include <string.h>

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

float gs_bf16_to_f32(uint16_t h) {
  return float_of((uint32_t)h << 16);
}

uint16_t gs_f32_to_bf16(float f) {
  uint32_t u = bits_of(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u); /* NaN stays NaN */
  u += 0x7fffu + ((u >> 16) & 1u);
  return (uint16_t)(u >> 16);
}

float gs_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu;
  if (e == 31) return float_of(sign | 0x7f800000u | (m << 13));
  if (e) return float_of(sign | ((e + 112u) << 23) | (m << 13));
  float v = (float)m * 0x1p-24f; /* subnormal or zero: exact */
  return sign ? -v : v;
}

uint16_t gs_f32_to_f16(float f) {
  uint32_t u = bits_of(f), sign = (u >> 16) & 0x8000u;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more */
  if (u < 0x38800000u) { /* below 2^-14: let f32 addition round to multiples of 2^-24 */
    float v = float_of(u) + 0.5f;
    return (uint16_t)(sign | (bits_of(v) - 0x3f000000u));
  }
  u += 0xfffu + ((u >> 13) & 1u);
  return (uint16_t)(sign | ((u >> 13) - (112u << 10)));
}

/* ---- FP8 ---- */

typedef struct small_format {
  unsigned mantissa, bias, largest; /* bits, of the exponent, code of the largest finite number */
} small_format;

static const small_format e4m3 = {3, 7, 0x7e}, e5m2 = {2, 15, 0x7b};

static uint8_t to_small(float f, small_format to) {
  uint32_t u = bits_of(f), sign = u >> 24 & 0x80u, code;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return 0x7f;
  if (u < (128u - to.bias) << 23) { /* subnormal: let f32 addition round to its multiples */
    float magic = float_of((151u - to.bias - to.mantissa) << 23);
    code = bits_of(float_of(u) + magic) - bits_of(magic);
  } else {
    unsigned shift = 23 - to.mantissa;
    u += (1u << (shift - 1)) - 1 + (u >> shift & 1u);
    code = (u >> shift) - ((127 - to.bias) << to.mantissa);
  }
  return (uint8_t)(sign | (code < to.largest ? code : to.largest));
}

/* Without the codes of infinity and NaN. */
static float from_small(uint8_t b, small_format from) {
  uint32_t sign = (uint32_t)(b & 0x80u) << 24, e = (b & 0x7fu) >> from.mantissa;
  uint32_t m = b & ((1u << from.mantissa) - 1);
  if (e) return float_of(sign | (e + 127 - from.bias) << 23 | m << (23 - from.mantissa));
  float v = (float)m * float_of((128u - from.bias - from.mantissa) << 23);
  return sign ? -v : v;
}

uint8_t gs_f32_to_e4m3(float f) {
  return to_small(f, e4m3);
}
uint8_t gs_f32_to_e5m2(float f) {
  return to_small(f, e5m2);
}
float gs_e4m3_to_f32(uint8_t b) {
  return (b & 0x7fu) == 0x7f ? NAN : from_small(b, e4m3);
}
float gs_e5m2_to_f32(uint8_t b) {
  if ((b & 0x7fu) <= e5m2.largest) return from_small(b, e5m2);
  if ((b & 0x7fu) > 0x7c) return NAN;
  return b & 0x80u ? -INFINITY : INFINITY;
}

uint8_t gs_f32_to_e8m0(float f) {
  if (isnan(f)) return 0xff;
  if (f <= 0x1p-127f) return 0;
  if (f > 0x1p127f) return 0xfe;
  int e;
  return (uint8_t)((frexpf(f, &e) == 0.5f ? e - 1 : e) + 127);
}
float gs_e8m0_to_f32(uint8_t b) {
  return b == 0xff ? NAN : ldexpf(1, b - 127);
}

/* ---- by type ---- */

double gs_load_f64(const void *p, gs_type t, size_t i) {
  switch (t) {
  case GS_F32: return ((const float *)p)[i];
  case GS_BF16: return gs_bf16_to_f32(((const uint16_t *)p)[i]);
  case GS_F16: return gs_f16_to_f32(((const uint16_t *)p)[i]);
  case GS_I32: return ((const int32_t *)p)[i];
  case GS_I64: return (double)((const int64_t *)p)[i];
  case GS_U8:
  case GS_BOOL: return ((const uint8_t *)p)[i];
  case GS_I8: return ((const int8_t *)p)[i];
  case GS_E4M3: return gs_e4m3_to_f32(((const uint8_t *)p)[i]);
  case GS_E5M2: return gs_e5m2_to_f32(((const uint8_t *)p)[i]);
  case GS_E8M0: return gs_e8m0_to_f32(((const uint8_t *)p)[i]);
  case GS_TYPE_NONE: break;
  }
  return NAN;
}

/* To f32 with the sticky bit kept, so that the second rounding is right: round to odd. */
static float to_odd(double v) {
  float f = (float)v;
  if (!isfinite(f) || (double)f == v) return f;
  if (fabs((double)f) > fabs(v)) f = nextafterf(f, 0.0f);
  return float_of(bits_of(f) | 1u);
}

/* Toward zero, within the type; 0 for NaN. */
static double whole(double v, double least, double most) {
  return isnan(v) ? 0 : v < least ? least : v > most ? most : v;
}

static int64_t whole64(double v) {
  if (v >= 0x1p63) return INT64_MAX;
  return (int64_t)whole(v, -0x1p63, 0x1p63);
}

void gs_store_f64(void *p, gs_type t, size_t i, double v) {
  switch (t) {
  case GS_F32: ((float *)p)[i] = (float)v; break;
  case GS_BF16: ((uint16_t *)p)[i] = gs_f32_to_bf16(to_odd(v)); break;
  case GS_F16: ((uint16_t *)p)[i] = gs_f32_to_f16(to_odd(v)); break;
  case GS_I32: ((int32_t *)p)[i] = (int32_t)whole(v, INT32_MIN, INT32_MAX); break;
  case GS_I64: ((int64_t *)p)[i] = whole64(v); break;
  case GS_U8:
  case GS_BOOL: ((uint8_t *)p)[i] = (uint8_t)whole(v, 0, 255); break;
  case GS_I8: ((int8_t *)p)[i] = (int8_t)whole(v, -128, 127); break;
  case GS_E4M3: ((uint8_t *)p)[i] = gs_f32_to_e4m3(to_odd(v)); break;
  case GS_E5M2: ((uint8_t *)p)[i] = gs_f32_to_e5m2(to_odd(v)); break;
  case GS_E8M0: ((uint8_t *)p)[i] = gs_f32_to_e8m0(to_odd(v)); break;
  case GS_TYPE_NONE: break;
  }
}

void gs_to_f32(float *out, const void *p, gs_type t, size_t n) {
  if (t == GS_F32) {
    memcpy(out, p, n * 4);
  } else if (t == GS_BF16) {
    for (size_t i = 0; i < n; i++) out[i] = gs_bf16_to_f32(((const uint16_t *)p)[i]);
  } else {
    for (size_t i = 0; i < n; i++) out[i] = (float)gs_load_f64(p, t, i);
  }
}

void gs_from_f32(void *out, gs_type t, const float *p, size_t n) {
  if (t == GS_F32) {
    memcpy(out, p, n * 4);
  } else if (t == GS_BF16) {
    for (size_t i = 0; i < n; i++) ((uint16_t *)out)[i] = gs_f32_to_bf16(p[i]);
  } else {
    for (size_t i = 0; i < n; i++) gs_store_f64(out, t, i, (double)p[i]);
  }
}
