/* half.c: bf16 and f16 to and from f32, round to nearest even, and typed loads and stores. */
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

double gs_load_f64(const void *p, gs_type t, size_t i) {
  switch (t) {
  case GS_F32: return ((const float *)p)[i];
  case GS_BF16: return gs_bf16_to_f32(((const uint16_t *)p)[i]);
  case GS_F16: return gs_f16_to_f32(((const uint16_t *)p)[i]);
  case GS_I32: return ((const int32_t *)p)[i];
  case GS_I64: return (double)((const int64_t *)p)[i];
  case GS_U8:
  case GS_BOOL: return ((const uint8_t *)p)[i];
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

void gs_store_f64(void *p, gs_type t, size_t i, double v) {
  switch (t) {
  case GS_F32: ((float *)p)[i] = (float)v; break;
  case GS_BF16: ((uint16_t *)p)[i] = gs_f32_to_bf16(to_odd(v)); break;
  case GS_F16: ((uint16_t *)p)[i] = gs_f32_to_f16(to_odd(v)); break;
  case GS_I32: ((int32_t *)p)[i] = (int32_t)v; break;
  case GS_I64: ((int64_t *)p)[i] = (int64_t)v; break;
  case GS_U8:
  case GS_BOOL: ((uint8_t *)p)[i] = (uint8_t)v; break;
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
