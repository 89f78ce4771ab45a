/* gguf_blocks.c: decoding ggml's block formats to f32. One row a type in the table at the end.
 * Facts of the formats: ggml's ggml-common.h and the gguf Python package, whose order of operations
 * is kept, so that values agree to the bit: a product is stored before it is added to, never
 * contracted. */
#include "model/gguf_blocks.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

static float half_at(const unsigned char *p) {
  return gs_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* a*b - c and a*b + c with the product rounded: two statements are never contracted into one fma.
 */
static float mul_sub(float a, float b, float c) {
  float p = a * b;
  return p - c;
}

static float mul_add(float a, float b, float c) {
  return mul_sub(a, b, -c);
}

static void f32_block(const unsigned char *b, float *out) {
  memcpy(out, b, 4);
}

static void f64_block(const unsigned char *b, float *out) {
  double v;
  memcpy(&v, b, 8);
  *out = (float)v;
}

static void f16_block(const unsigned char *b, float *out) {
  *out = half_at(b);
}

static void bf16_block(const unsigned char *b, float *out) {
  *out = gs_bf16_to_f32((uint16_t)(b[0] | b[1] << 8));
}

/* Low nibbles are elements 0 to 15, high nibbles 16 to 31. */
static int nibble(const unsigned char *qs, int i) {
  return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

/* Bit i of 32 bits, as the fifth bit of an element. */
static int fifth(const unsigned char *qh, int i) {
  return (qh[i / 8] >> i % 8 & 1) << 4;
}

static void q4_0(const unsigned char *b, float *out) {
  float d = half_at(b);
  for (int i = 0; i < 32; i++) out[i] = d * (float)(nibble(b + 2, i) - 8);
}

static void q4_1(const unsigned char *b, float *out) {
  float d = half_at(b), m = half_at(b + 2);
  for (int i = 0; i < 32; i++) out[i] = mul_add(d, (float)nibble(b + 4, i), m);
}

static void q5_0(const unsigned char *b, float *out) {
  float d = half_at(b);
  for (int i = 0; i < 32; i++) out[i] = d * (float)((nibble(b + 6, i) | fifth(b + 2, i)) - 16);
}

static void q5_1(const unsigned char *b, float *out) {
  float d = half_at(b), m = half_at(b + 2);
  for (int i = 0; i < 32; i++) out[i] = mul_add(d, (float)(nibble(b + 8, i) | fifth(b + 4, i)), m);
}

static void q8_0(const unsigned char *b, float *out) {
  float d = half_at(b);
  for (int i = 0; i < 32; i++) out[i] = (float)(signed char)b[2 + i] * d;
}

/* ---- the 256-element super-blocks ---- */

/* Two-bit field of element i: 64 bytes, each 32-byte half holds 128 elements in four layers. */
static int crumb(const unsigned char *qs, int i) {
  return qs[i / 128 * 32 + i % 32] >> 2 * (i / 32 % 4) & 3;
}

static void q2_k(const unsigned char *b, float *out) { /* scales 16, qs 64, d, dmin */
  float d = half_at(b + 80), dmin = half_at(b + 82);
  for (int i = 0; i < 256; i++) {
    int s = b[i / 16];
    float dl = d * (float)(s & 15), ml = dmin * (float)(s >> 4);
    out[i] = mul_sub(dl, (float)crumb(b + 16, i), ml);
  }
}

/* Six-bit scale g of 16, offset 32: low nibbles in bytes 0 to 7, high two bits in bytes 8 to 11. */
static int q3_scale(const unsigned char *s, int g) {
  int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
  int high = s[8 + g % 4] >> 2 * (g / 4) & 3;
  return (low | high << 4) - 32;
}

static void q3_k(const unsigned char *b, float *out) { /* hmask 32, qs 64, scales 12, d */
  float d = half_at(b + 108);
  for (int i = 0; i < 256; i++) {
    float dl = d * (float)q3_scale(b + 96, i / 16);
    int high = b[i % 32] >> i / 32 & 1; /* set: nothing to take off */
    out[i] = dl * (float)(crumb(b + 32, i) - (high ? 0 : 4));
  }
}

/* Six-bit scale and minimum g of 8, packed in 12 bytes. */
static void k4_scale(const unsigned char *s, int g, float *scale, float *min) {
  if (g < 4) {
    *scale = (float)(s[g] & 63);
    *min = (float)(s[g + 4] & 63);
  } else {
    *scale = (float)((s[g + 4] & 15) | (s[g - 4] >> 2 & 0x30));
    *min = (float)(s[g + 4] >> 4 | (s[g] >> 2 & 0x30));
  }
}

static void q4_k(const unsigned char *b, float *out) { /* d, dmin, scales 12, qs 128 */
  float d = half_at(b), dmin = half_at(b + 2), s, m;
  for (int i = 0; i < 256; i++) {
    k4_scale(b + 4, i / 32, &s, &m);
    int q = b[16 + i / 64 * 32 + i % 32] >> 4 * (i / 32 % 2) & 15;
    float dl = d * s, ml = dmin * m;
    out[i] = mul_sub(dl, (float)q, ml);
  }
}

static void q5_k(const unsigned char *b, float *out) { /* d, dmin, scales 12, qh 32, qs 128 */
  float d = half_at(b), dmin = half_at(b + 2), s, m;
  for (int i = 0; i < 256; i++) {
    k4_scale(b + 4, i / 32, &s, &m);
    int q = b[48 + i / 64 * 32 + i % 32] >> 4 * (i / 32 % 2) & 15;
    q |= (b[16 + i % 32] >> i / 32 & 1) << 4;
    float dl = d * s, ml = dmin * m;
    out[i] = mul_sub(dl, (float)q, ml);
  }
}

static void q6_k(const unsigned char *b, float *out) { /* ql 128, qh 64, scales 16, d */
  float d = half_at(b + 208);
  for (int i = 0; i < 256; i++) {
    float dl = d * (float)(signed char)b[192 + i / 16];
    int low = b[i / 128 * 64 + i % 64] >> 4 * (i / 64 % 2) & 15;
    out[i] = dl * (float)((low | crumb(b + 128, i) << 4) - 32);
  }
}

/* ---- tables of values ---- */

static const signed char iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};
static const signed char fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void iq4_nl(const unsigned char *b, float *out) {
  float d = half_at(b);
  for (int i = 0; i < 32; i++) out[i] = d * (float)iq4_values[nibble(b + 2, i)];
}

static void iq4_xs(const unsigned char *b, float *out) { /* d, scales_h, scales_l 4, qs 128 */
  float d = half_at(b);
  int high = b[2] | b[3] << 8;
  for (int g = 0; g < 8; g++) {
    int s = (b[4 + g / 2] >> 4 * (g % 2) & 15) | (high >> 2 * g & 3) << 4;
    float dl = d * (float)(s - 32);
    for (int i = 0; i < 32; i++)
      out[32 * g + i] = dl * (float)iq4_values[nibble(b + 8 + 16 * g, i)];
  }
}

/* Values are doubled in the table, so the power of two is one lower. */
static void mxfp4(const unsigned char *b, float *out) {
  float d = ldexpf(1.0f, b[0] - 128);
  for (int i = 0; i < 32; i++) out[i] = d * (float)fp4_values[nibble(b + 1, i)];
}

static const gs_gguf_block_type types[] = {
    {0, "F32", 1, 4, f32_block},    {1, "F16", 1, 2, f16_block},
    {2, "Q4_0", 32, 18, q4_0},      {3, "Q4_1", 32, 20, q4_1},
    {6, "Q5_0", 32, 22, q5_0},      {7, "Q5_1", 32, 24, q5_1},
    {8, "Q8_0", 32, 34, q8_0},      {9, "Q8_1", 32, 40, NULL},
    {10, "Q2_K", 256, 84, q2_k},    {11, "Q3_K", 256, 110, q3_k},
    {12, "Q4_K", 256, 144, q4_k},   {13, "Q5_K", 256, 176, q5_k},
    {14, "Q6_K", 256, 210, q6_k},   {15, "Q8_K", 256, 292, NULL},
    {16, "IQ2_XXS", 256, 66, NULL}, {17, "IQ2_XS", 256, 74, NULL},
    {18, "IQ3_XXS", 256, 98, NULL}, {19, "IQ1_S", 256, 50, NULL},
    {20, "IQ4_NL", 32, 18, iq4_nl}, {21, "IQ3_S", 256, 110, NULL},
    {22, "IQ2_S", 256, 82, NULL},   {23, "IQ4_XS", 256, 136, iq4_xs},
    {24, "I8", 1, 1, NULL},         {25, "I16", 1, 2, NULL},
    {26, "I32", 1, 4, NULL},        {27, "I64", 1, 8, NULL},
    {28, "F64", 1, 8, f64_block},   {29, "IQ1_M", 256, 56, NULL},
    {30, "BF16", 1, 2, bf16_block}, {34, "TQ1_0", 256, 54, NULL},
    {35, "TQ2_0", 256, 66, NULL},   {39, "MXFP4", 32, 17, mxfp4},
};

const gs_gguf_block_type *gs_gguf_block(int id) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].id == id) return &types[i];
  return NULL;
}

void gs_gguf_decode(const gs_gguf_block_type *t, const unsigned char *data, float *out, size_t n) {
  for (size_t i = 0; i < n / t->elements; i++)
    t->decode(data + i * t->bytes, out + i * t->elements);
}
