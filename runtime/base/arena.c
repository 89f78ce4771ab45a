/* arena.c: chunks in a list; an allocation larger than a chunk gets its own. */
#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 * 1024, ALIGN = 16 };

typedef struct chunk {
  struct chunk *next;
  size_t used, cap;
} chunk;

struct gs_arena {
  chunk *head;
};

static void *checked(void *p) {
  if (!p) {
    fputs("gradsmith: out of host memory\n", stderr);
    abort();
  }
  return p;
}

gs_arena *gs_arena_new(void) {
  return checked(calloc(1, sizeof(gs_arena)));
}

void gs_arena_free(gs_arena *a) {
  if (!a) return;
  for (chunk *c = a->head, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  free(a);
}

void *gs_arena_alloc(gs_arena *a, size_t bytes) {
  size_t head = (sizeof(chunk) + ALIGN - 1) / ALIGN * ALIGN;
  bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  if (!a->head || a->head->cap - a->head->used < bytes) {
    size_t cap = bytes > CHUNK ? bytes : CHUNK;
    chunk *c = checked(calloc(1, head + cap));
    c->cap = cap;
    c->next = a->head;
    a->head = c;
  }
  char *p = (char *)a->head + head + a->head->used;
  a->head->used += bytes;
  return p;
}

void *gs_arena_copy(gs_arena *a, const void *p, size_t bytes) {
  void *q = gs_arena_alloc(a, bytes);
  if (bytes) memcpy(q, p, bytes);
  return q;
}

void *gs_arena_room(gs_arena *a, void *old, int n, int *cap, size_t size) {
  if (n < *cap) return old;
  *cap = *cap ? 2 * *cap : 16;
  void *p = gs_arena_alloc(a, (size_t)*cap * size);
  if (n) memcpy(p, old, (size_t)n * size);
  return p;
}

char *gs_arena_strdup(gs_arena *a, const char *s) {
  return gs_arena_copy(a, s, strlen(s) + 1);
}

char *gs_arena_printf(gs_arena *a, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  char *s = gs_arena_alloc(a, (size_t)(n < 0 ? 0 : n) + 1);
  if (n > 0) vsnprintf(s, (size_t)n + 1, fmt, again);
  va_end(again);
  return s;
}
