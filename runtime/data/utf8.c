/* utf8.c: reading and checking UTF-8. Well formed as Unicode's table 3-7 says: no overlong forms,
 * no surrogates, nothing above U+10FFFF. */
#include "data/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *gs_tk_grow(void *p, size_t *cap, size_t need, size_t size) {
  if (need <= *cap && p != NULL) return p;
  size_t n = *cap < 16 ? 16 : *cap;
  while (n < need) n += n / 2;
  p = n > SIZE_MAX / size ? NULL : realloc(p, n * size);
  if (p == NULL) {
    fprintf(stderr, "out of memory in the tokenizer\n");
    abort();
  }
  *cap = n;
  return p;
}

char *gs_tk_strndup(const char *s, size_t n) {
  size_t cap = 0;
  char *p = gs_tk_grow(NULL, &cap, n + 1, 1);
  if (n > 0) memcpy(p, s, n);
  p[n] = 0;
  return p;
}

/* How many bytes of the form are right, and in *want how long it should be (0: not a first byte).
 */
static int well_formed(const unsigned char *s, size_t n, int *want) {
  unsigned char lo = 0x80, hi = 0xBF;
  unsigned char c = s[0];
  *want = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
  if (c == 0xE0) lo = 0xA0;
  if (c == 0xED) hi = 0x9F;
  if (c == 0xF0) lo = 0x90;
  if (c == 0xF4) hi = 0x8F;
  if (*want == 0) return 0;
  int i = 1;
  for (; i < *want && (size_t)i < n; i++) {
    if (s[i] < lo || s[i] > hi) break;
    lo = 0x80, hi = 0xBF;
  }
  return i;
}

int gs_utf8_next(const char *s, size_t n, uint32_t *c) {
  const unsigned char *u = (const unsigned char *)s;
  int want, got;
  if (u[0] < 0x80) {
    *c = u[0];
    return 1;
  }
  got = well_formed(u, n, &want);
  if (want == 0 || got < want) return 0;
  *c = u[0] & (0xFFu >> (want + 1));
  for (int i = 1; i < want; i++) *c = *c << 6 | (u[i] & 0x3F);
  return want;
}

int gs_utf8_put(char *out, uint32_t c) {
  static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  if (c < 0x80) {
    out[0] = (char)c;
    return 1;
  }
  int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
  out[0] = (char)(lead[n] | c);
  return n;
}

size_t gs_utf8_check(const char *s, size_t n) {
  size_t i = 0;
  while (i < n) {
    uint32_t c;
    int k = gs_utf8_next(s + i, n - i, &c);
    if (k == 0) return i;
    i += (size_t)k;
  }
  return n;
}

bool gs_utf8_white(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

char *gs_utf8_lossy(const char *s, size_t n, size_t *len) {
  size_t cap = 0, out_n = 0, i = 0;
  char *out = gs_tk_grow(NULL, &cap, n * 3 + 1, 1);
  while (i < n) {
    int want;
    int got = well_formed((const unsigned char *)s + i, n - i, &want);
    bool good = want > 0 && got == want;
    size_t step = got > 0 ? (size_t)got : 1;
    memcpy(out + out_n, good ? s + i : "\xEF\xBF\xBD", good ? step : 3);
    out_n += good ? step : 3;
    i += step;
  }
  out[out_n] = 0;
  *len = out_n;
  return out;
}
