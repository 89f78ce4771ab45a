/* table.c: the two hash tables of the tokenizer (open addressing, at most half full): vocabulary
 * and merges. Also the growing buffers that text under way lies in. */
#include "data/parts.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t h) {
  h ^= h >> 32;
  h *= 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}

static uint64_t hash(const char *s, size_t n) {
  uint64_t h = 0x9AE16A3B2F90404Fu ^ n;
  for (; n >= 8; s += 8, n -= 8) {
    uint64_t w;
    memcpy(&w, s, 8);
    h = mix(h ^ w);
  }
  uint64_t w = 0;
  memcpy(&w, s, n);
  return mix(mix(h ^ w));
}

void gs_words_free(gs_words *w) {
  free(w->text);
  free(w->v);
  free(w->slot);
  memset(w, 0, sizeof *w);
}

/* The slot of s, or the free one where it belongs. */
static size_t word_slot(const gs_words *w, const char *s, size_t n) {
  size_t i = (size_t)hash(s, n) & (w->nslot - 1);
  for (;; i = (i + 1) & (w->nslot - 1)) {
    if (w->slot[i] == 0) return i;
    const struct gs_word *e = &w->v[w->slot[i] - 1];
    if (e->n == n && memcmp(w->text + e->at, s, n) == 0) return i;
  }
}

int32_t gs_words_find(const gs_words *w, const char *s, size_t n) {
  if (w->nslot == 0) return -1;
  uint32_t e = w->slot[word_slot(w, s, n)];
  return e == 0 ? -1 : w->v[e - 1].id;
}

static void words_rehash(gs_words *w) {
  size_t none = 0, nslot = w->nslot == 0 ? 64 : w->nslot * 2;
  free(w->slot);
  w->slot = gs_tk_grow(NULL, &none, nslot, sizeof *w->slot);
  memset(w->slot, 0, nslot * sizeof *w->slot);
  w->nslot = nslot;
  for (size_t i = 0; i < w->n; i++)
    w->slot[word_slot(w, w->text + w->v[i].at, w->v[i].n)] = (uint32_t)i + 1;
}

void gs_words_put(gs_words *w, const char *s, size_t n, int32_t id) {
  if ((w->n + 1) * 2 > w->nslot) words_rehash(w);
  size_t i = word_slot(w, s, n);
  if (w->slot[i] != 0) {
    w->v[w->slot[i] - 1].id = id;
    return;
  }
  w->v = gs_tk_grow(w->v, &w->cap, w->n + 1, sizeof *w->v);
  w->text = gs_tk_grow(w->text, &w->text_cap, w->text_n + n + 1, 1);
  if (n > 0) memcpy(w->text + w->text_n, s, n);
  w->v[w->n] = (struct gs_word){w->text_n, (uint32_t)n, id};
  w->text_n += n;
  w->slot[i] = (uint32_t)++w->n;
}

void gs_pairs_free(gs_pairs *p) {
  free(p->slot);
  memset(p, 0, sizeof *p);
}

/* Never 0, which marks a free slot. */
static uint64_t pair_key(int32_t a, int32_t b) {
  return ((uint64_t)(uint32_t)a << 32 | (uint32_t)b) + 1;
}

static size_t pair_slot(const gs_pairs *p, uint64_t key) {
  size_t i = (size_t)mix(key * 0xD6E8FEB86659FD93u) & (p->nslot - 1);
  while (p->slot[i].key != 0 && p->slot[i].key != key) i = (i + 1) & (p->nslot - 1);
  return i;
}

const gs_merge *gs_pairs_find(const gs_pairs *p, int32_t a, int32_t b) {
  if (p->nslot == 0) return NULL;
  const struct gs_pair *e = &p->slot[pair_slot(p, pair_key(a, b))];
  return e->key == 0 ? NULL : &e->m;
}

static void pairs_rehash(gs_pairs *p) {
  gs_pairs old = *p;
  size_t none = 0;
  p->nslot = old.nslot == 0 ? 64 : old.nslot * 2;
  p->slot = gs_tk_grow(NULL, &none, p->nslot, sizeof *p->slot);
  memset(p->slot, 0, p->nslot * sizeof *p->slot);
  for (size_t i = 0; i < old.nslot; i++)
    if (old.slot[i].key != 0) p->slot[pair_slot(p, old.slot[i].key)] = old.slot[i];
  free(old.slot);
}

void gs_pairs_put(gs_pairs *p, int32_t a, int32_t b, gs_merge m) {
  if ((p->n + 1) * 2 > p->nslot) pairs_rehash(p);
  struct gs_pair *e = &p->slot[pair_slot(p, pair_key(a, b))];
  if (e->key == 0) p->n++;
  *e = (struct gs_pair){pair_key(a, b), m};
}

void gs_buf_free(gs_buf *b) {
  free(b->s);
  free(b->end);
  memset(b, 0, sizeof *b);
}

static void buf_room(gs_buf *b, size_t n) {
  size_t cap = b->cap;
  b->s = gs_tk_grow(b->s, &cap, b->n + n + 1, 1);
  b->end = gs_tk_grow(b->end, &b->cap, b->n + n + 1, sizeof *b->end);
}

void gs_buf_add(gs_buf *b, const char *s, size_t n, int32_t from, bool each) {
  buf_room(b, n);
  if (n > 0) memcpy(b->s + b->n, s, n);
  for (size_t i = 0; i < n; i++) b->end[b->n + i] = each ? from : from + (int32_t)i + 1;
  b->n += n;
}

void gs_buf_copy(gs_buf *b, const gs_buf *src, size_t at, size_t n) {
  buf_room(b, n);
  if (n > 0) memcpy(b->s + b->n, src->s + at, n);
  if (n > 0) memcpy(b->end + b->n, src->end + at, n * sizeof *b->end);
  b->n += n;
}

void gs_cuts_add(gs_cuts *c, size_t at, size_t n, bool match) {
  c->v = gs_tk_grow(c->v, &c->cap, c->n + 1, sizeof *c->v);
  c->v[c->n++] = (gs_cut){at, n, match};
}

void gs_ids_free(gs_ids *v) {
  free(v->id);
  memset(v, 0, sizeof *v);
}

void gs_ids_add(gs_ids *v, int32_t id) {
  v->id = gs_tk_grow(v->id, &v->cap, v->n + 1, sizeof *v->id);
  v->id[v->n++] = id;
}
