/* text.c: a growing string. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reserve(gs_text *t, size_t more) {
  if (t->len + more + 1 <= t->cap) return;
  size_t cap = t->cap ? t->cap : 256;
  while (cap < t->len + more + 1) cap *= 2;
  char *s = realloc(t->s, cap);
  if (!s) {
    fputs("gradsmith: out of host memory\n", stderr);
    abort();
  }
  t->s = s;
  t->cap = cap;
}

void gs_text_free(gs_text *t) {
  free(t->s);
  *t = (gs_text){0};
}

void gs_text_add_n(gs_text *t, const char *s, size_t n) {
  reserve(t, n);
  memcpy(t->s + t->len, s, n);
  t->len += n;
  t->s[t->len] = 0;
}

void gs_text_add(gs_text *t, const char *s) {
  gs_text_add_n(t, s, strlen(s));
}

void gs_text_printf(gs_text *t, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  if (n >= 0) {
    reserve(t, (size_t)n);
    vsnprintf(t->s + t->len, (size_t)n + 1, fmt, again);
    t->len += (size_t)n;
  }
  va_end(again);
}
