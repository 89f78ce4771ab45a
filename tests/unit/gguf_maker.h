/* gguf_maker.h: for tests: a GGUF file put together piece by piece, with random block data, and the
 * value of any element of it in double, read off the format's description one element at a time. */
#ifndef GGUF_MAKER_H
#define GGUF_MAKER_H

#include "base/text.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct maker {
  gs_text meta, infos, data;
  uint64_t nmeta, ntensors;
  uint64_t seed;
  uint32_t version; /* 0: 3 */
  size_t header;    /* bytes before the data, after made */
} maker;

static inline void m_num(gs_text *t, uint64_t v, int bytes) {
  char b[8];
  for (int i = 0; i < bytes; i++) b[i] = (char)(v >> 8 * i);
  gs_text_add_n(t, b, (size_t)bytes);
}

static inline void m_str_n(gs_text *t, const char *s, size_t n) {
  m_num(t, n, 8);
  gs_text_add_n(t, s, n);
}

static inline void m_str(gs_text *t, const char *s) {
  m_str_n(t, s, strlen(s));
}

static inline void m_key(maker *m, const char *key, uint32_t kind) {
  m->nmeta++;
  m_str(&m->meta, key);
  m_num(&m->meta, kind, 4);
}

static inline void m_u32(maker *m, const char *key, uint32_t v) {
  m_key(m, key, 4);
  m_num(&m->meta, v, 4);
}

static inline void m_f32(maker *m, const char *key, float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  m_key(m, key, 6);
  m_num(&m->meta, bits, 4);
}

static inline void m_bool(maker *m, const char *key, int v) {
  m_key(m, key, 7);
  m_num(&m->meta, (uint64_t)v, 1);
}

static inline void m_text(maker *m, const char *key, const char *v) {
  m_key(m, key, 8);
  m_str(&m->meta, v);
}

static inline void m_texts(maker *m, const char *key, const char *const *v, size_t n) {
  m_key(m, key, 9);
  m_num(&m->meta, 8, 4);
  m_num(&m->meta, n, 8);
  for (size_t i = 0; i < n; i++) m_str(&m->meta, v[i]);
}

static inline void m_ints(maker *m, const char *key, const int32_t *v, size_t n) {
  m_key(m, key, 9);
  m_num(&m->meta, 5, 4);
  m_num(&m->meta, n, 8);
  for (size_t i = 0; i < n; i++) m_num(&m->meta, (uint32_t)v[i], 4);
}

static inline uint64_t m_random(maker *m) {
  m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
  return m->seed >> 33;
}

/* id, elements, bytes, and where the f16 scales of a block lie (-1: none). */
typedef struct m_type {
  int id, elements, bytes, half0, half1;
} m_type;

static const m_type m_types[] = {
    {0, 1, 4, -1, -1},       {1, 1, 2, 0, -1},      {2, 32, 18, 0, -1},   {3, 32, 20, 0, 2},
    {6, 32, 22, 0, -1},      {7, 32, 24, 0, 2},     {8, 32, 34, 0, -1},   {10, 256, 84, 80, 82},
    {11, 256, 110, 108, -1}, {12, 256, 144, 0, 2},  {13, 256, 176, 0, 2}, {14, 256, 210, 208, -1},
    {20, 32, 18, 0, -1},     {23, 256, 136, 0, -1}, {28, 1, 8, -1, -1},   {30, 1, 2, -1, -1},
    {39, 32, 17, -1, -1},
};
#define M_NTYPES ((int)(sizeof m_types / sizeof *m_types))

static inline const m_type *m_type_of(int id) {
  for (int i = 0; i < M_NTYPES; i++)
    if (m_types[i].id == id) return &m_types[i];
  return NULL;
}

/* One random block; floating point parts are finite and of a moderate size. */
static inline void m_block(maker *m, const m_type *t, unsigned char *b) {
  for (int i = 0; i < t->bytes; i++) b[i] = (unsigned char)m_random(m);
  const int halves[2] = {t->half0, t->half1};
  for (int i = 0; i < 2; i++)
    if (halves[i] >= 0) b[halves[i] + 1] = (unsigned char)((b[halves[i] + 1] & 0x83) | 0x28);
  float f = (float)m_random(m) * 0x1p-31f - 0.5f;
  double d = f;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  if (t->id == 0) memcpy(b, &f, 4);
  if (t->id == 28) memcpy(b, &d, 8);
  if (t->id == 30) b[0] = (unsigned char)(bits >> 16), b[1] = (unsigned char)(bits >> 24);
  if (t->id == 39) b[0] = (unsigned char)(110 + b[0] % 30);
}

/* A tensor [d0] (d1 = 0) or [d0, d1] of random blocks. Returns where its data begin in m->data. */
static inline size_t m_tensor(maker *m, const char *name, int type, uint64_t d0, uint64_t d1) {
  const m_type *t = m_type_of(type);
  unsigned char block[512];
  while (m->data.len % 32) gs_text_add_n(&m->data, "", 1);
  size_t at = m->data.len;
  m->ntensors++;
  m_str(&m->infos, name);
  m_num(&m->infos, d1 ? 2 : 1, 4);
  m_num(&m->infos, d0, 8);
  if (d1) m_num(&m->infos, d1, 8);
  m_num(&m->infos, (uint64_t)type, 4);
  m_num(&m->infos, at, 8);
  for (uint64_t i = 0; i < d0 / (uint64_t)t->elements * (d1 ? d1 : 1); i++) {
    m_block(m, t, block);
    gs_text_add_n(&m->data, (const char *)block, (size_t)t->bytes);
  }
  return at;
}

/* The whole file. */
static inline gs_text m_file(maker *m) {
  gs_text f = {0};
  gs_text_add(&f, "GGUF");
  m_num(&f, m->version ? m->version : 3, 4);
  m_num(&f, m->ntensors, 8);
  m_num(&f, m->nmeta, 8);
  gs_text_add_n(&f, m->meta.s ? m->meta.s : "", m->meta.len);
  gs_text_add_n(&f, m->infos.s ? m->infos.s : "", m->infos.len);
  while (f.len % 32) gs_text_add_n(&f, "", 1);
  m->header = f.len;
  gs_text_add_n(&f, m->data.s ? m->data.s : "", m->data.len);
  return f;
}

static inline void m_free(maker *m) {
  gs_text_free(&m->meta);
  gs_text_free(&m->infos);
  gs_text_free(&m->data);
}

/* ---- the value of one element ---- */

static inline double m_half(const unsigned char *p) {
  int h = p[0] | p[1] << 8, e = h >> 10 & 31, f = h & 1023;
  double v = e ? ldexp(1 + f / 1024.0, e - 15) : ldexp(f, -24);
  return h >> 15 ? -v : v;
}

/* Bits [at, at + n) of a little-endian bit string. */
static inline int m_bits(const unsigned char *p, int at, int n) {
  int v = 0;
  for (int i = 0; i < n; i++) v |= (p[(at + i) / 8] >> (at + i) % 8 & 1) << i;
  return v;
}

/* Element i of 32 four-bit ones: byte i%16, low half first. */
static inline int m_q4(const unsigned char *p, int i) {
  return m_bits(p, 8 * (i % 16) + 4 * (i / 16), 4);
}

/* Scale (which = 0) or minimum (1) of group g of Q4_K and Q5_K. */
static inline int m_k_scale(const unsigned char *s, int g, int which) {
  if (g < 4) return m_bits(s, 8 * (g + 4 * which), 6);
  return m_bits(s, 8 * (g + 4) + 4 * which, 4) + 16 * m_bits(s, 8 * (g - 4 + 4 * which) + 6, 2);
}

static inline double m_value_256(int id, const unsigned char *b, int i, double *size) {
  static const int code[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};
  int half = i / 128, layer = i / 32 % 4, j = i % 32, g = i / 32;
  double scale, min = 0;
  int q;
  switch (id) {
  case 10:
    scale = m_half(b + 80) * m_bits(b, 8 * (i / 16), 4);
    min = m_half(b + 82) * m_bits(b, 8 * (i / 16) + 4, 4);
    q = m_bits(b + 16, 8 * (32 * half + j) + 2 * layer, 2);
    break;
  case 11: {
    int s = i / 16;
    int bits = m_bits(b + 96, 8 * (s % 8) + 4 * (s / 8), 4) +
               16 * m_bits(b + 104, 8 * (s % 4) + 2 * (s / 4), 2);
    scale = m_half(b + 108) * (bits - 32);
    q = m_bits(b + 32, 8 * (32 * half + j) + 2 * layer, 2) + 4 * m_bits(b, 8 * j + g, 1) - 4;
    break;
  }
  case 12:
  case 13: {
    int qs = id == 12 ? 16 : 48;
    scale = m_half(b) * m_k_scale(b + 4, g, 0);
    min = m_half(b + 2) * m_k_scale(b + 4, g, 1);
    q = m_bits(b + qs, 8 * (32 * (i / 64) + j) + 4 * (g % 2), 4);
    if (id == 13) q += 16 * m_bits(b + 16, 8 * j + g, 1);
    break;
  }
  case 14: {
    scale = m_half(b + 208) * (b[192 + i / 16] > 127 ? b[192 + i / 16] - 256 : b[192 + i / 16]);
    int r = i % 128;
    q = m_bits(b, 8 * (64 * half + r % 64) + 4 * (r / 64), 4) +
        16 * m_bits(b + 128, 8 * (32 * half + j) + 2 * layer, 2) - 32;
    break;
  }
  default: /* 23 */
    scale = m_half(b) * (m_bits(b + 4, 4 * g, 4) + 16 * m_bits(b + 2, 2 * g, 2) - 32);
    q = code[m_q4(b + 8 + 16 * g, j)];
  }
  *size = fabs(scale * q) + fabs(min);
  return scale * q - min;
}

static inline double m_value_32(int id, const unsigned char *b, int i, double *size) {
  static const int code[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};
  static const double fp4[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
  double d = m_half(b), v, m = 0;
  switch (id) {
  case 2: v = d * (m_q4(b + 2, i) - 8); break;
  case 3: v = d * m_q4(b + 4, i), m = m_half(b + 2); break;
  case 6: v = d * (m_q4(b + 6, i) + 16 * m_bits(b + 2, i, 1) - 16); break;
  case 7: v = d * (m_q4(b + 8, i) + 16 * m_bits(b + 4, i, 1)), m = m_half(b + 2); break;
  case 8: v = d * (b[2 + i] > 127 ? b[2 + i] - 256 : b[2 + i]); break;
  case 20: v = d * code[m_q4(b + 2, i)]; break;
  default: v = ldexp(fp4[m_q4(b + 1, i)], b[0] - 127); /* 39 */
  }
  *size = fabs(v) + fabs(m);
  return v + m;
}

/* Element i of packed blocks; *size: the magnitude that its rounding errors are relative to. */
static inline double m_value(int id, const unsigned char *data, size_t i, double *size) {
  const m_type *t = m_type_of(id);
  const unsigned char *b = data + i / (size_t)t->elements * (size_t)t->bytes;
  int in = (int)(i % (size_t)t->elements);
  float f;
  double v;
  if (t->elements == 256) return m_value_256(id, b, in, size);
  if (t->elements == 32) return m_value_32(id, b, in, size);
  uint32_t bits = (uint32_t)b[0] << 16 | (uint32_t)b[1] << 24;
  if (id == 0) memcpy(&f, b, 4);
  if (id == 30) memcpy(&f, &bits, 4);
  if (id == 28)
    memcpy(&v, b, 8);
  else
    v = id == 1 ? m_half(b) : (double)f;
  *size = fabs(v);
  return v;
}

#endif
