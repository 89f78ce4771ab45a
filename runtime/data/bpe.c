/* bpe.c: one word's characters merged by rank, lowest first, leftmost among equals: a linked list
 * of symbols and a heap of possible merges, O(n log n). */
#include "data/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gs_bpe_free(gs_bpe *b) {
  gs_words_free(&b->vocab);
  gs_pairs_free(&b->merges);
}

void gs_bpe_finish(gs_bpe *b) {
  char name[8];
  for (int i = 0; i < 256; i++) {
    int n = snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
    b->byte_id[i] = gs_words_find(&b->vocab, name, (size_t)n);
  }
  for (int i = 0; i < 512; i++) {
    int n = gs_utf8_put(name, (uint32_t)i);
    b->char_id[i] = gs_words_find(&b->vocab, name, (size_t)n);
  }
}

static bool before(gs_entry a, gs_entry b) {
  return a.rank != b.rank ? a.rank < b.rank : a.pos < b.pos;
}

static void push(gs_bpe_work *w, gs_entry e) {
  w->heap = gs_tk_grow(w->heap, &w->heap_cap, w->nheap + 1, sizeof *w->heap);
  size_t i = w->nheap++;
  for (; i > 0 && before(e, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
    w->heap[i] = w->heap[(i - 1) / 2];
  w->heap[i] = e;
}

static gs_entry pop(gs_bpe_work *w) {
  gs_entry top = w->heap[0], e = w->heap[--w->nheap];
  size_t i = 0, n = w->nheap;
  for (size_t k = 1; k < n; k = 2 * i + 1) {
    if (k + 1 < n && before(w->heap[k + 1], w->heap[k])) k++;
    if (!before(w->heap[k], e)) break;
    w->heap[i] = w->heap[k];
    i = k;
  }
  if (n > 0) w->heap[i] = e;
  return top;
}

static void offer(const gs_bpe *b, gs_bpe_work *w, int32_t pos) {
  const gs_symbol *s = &w->sym[pos];
  if (s->next < 0) return;
  const gs_merge *m = gs_pairs_find(&b->merges, s->id, w->sym[s->next].id);
  if (m != NULL) push(w, (gs_entry){m->rank, pos, m->id});
}

static void symbol(gs_bpe_work *w, size_t *n, int32_t id, int32_t end) {
  w->sym = gs_tk_grow(w->sym, &w->sym_cap, *n + 1, sizeof *w->sym);
  w->sym[*n] = (gs_symbol){id, (int32_t)*n - 1, -1, end};
  if (*n > 0) w->sym[*n - 1].next = (int32_t)*n;
  ++*n;
}

/* The bytes of a character as tokens; false when one of them has none. */
static bool fall_back(const gs_bpe *b, gs_bpe_work *w, size_t *n, const char *s, int k,
                      const int32_t *end) {
  for (int i = 0; i < k; i++)
    if (b->byte_id[(unsigned char)s[i]] < 0) return false;
  for (int i = 0; i < k; i++) symbol(w, n, b->byte_id[(unsigned char)s[i]], end[i]);
  return true;
}

/* The word's characters as tokens; how many there are. */
static size_t characters(const gs_bpe *b, gs_bpe_work *w, const char *s, const int32_t *end,
                         size_t n) {
  size_t nsym = 0;
  bool unknown = false; /* one waits, to be fused with the next */
  int32_t unknown_end = 0;
  for (size_t i = 0; i < n;) {
    uint32_t c;
    int k = gs_utf8_next(s + i, n - i, &c);
    if (k == 0) k = 1, c = 0xFFFD; /* cannot be: the text was checked */
    int32_t last = end[i + (size_t)k - 1];
    int32_t id = c < 512 ? b->char_id[c] : gs_words_find(&b->vocab, s + i, (size_t)k);
    if (id >= 0) {
      if (unknown) symbol(w, &nsym, b->unk, unknown_end);
      unknown = false;
      symbol(w, &nsym, id, last);
    } else if (!(b->byte_fallback && fall_back(b, w, &nsym, s + i, k, end + i)) && b->unk >= 0) {
      if (unknown && !b->fuse_unk) symbol(w, &nsym, b->unk, unknown_end);
      unknown = true;
      unknown_end = last;
    }
    i += (size_t)k;
  }
  if (unknown) symbol(w, &nsym, b->unk, unknown_end);
  return nsym;
}

void gs_bpe_word(const gs_bpe *b, gs_bpe_work *w, const char *s, const int32_t *end, size_t n,
                 gs_ids *ids, gs_ids *ends) {
  if (n == 0) return;
  if (b->ignore_merges) {
    int32_t id = gs_words_find(&b->vocab, s, n);
    if (id >= 0) {
      gs_ids_add(ids, id);
      gs_ids_add(ends, end[n - 1]);
      return;
    }
  }
  size_t nsym = characters(b, w, s, end, n);
  w->nheap = 0;
  for (size_t i = 0; i < nsym; i++) offer(b, w, (int32_t)i);
  while (w->nheap > 0) {
    gs_entry e = pop(w);
    gs_symbol *left = &w->sym[e.pos];
    if (left->id < 0 || left->next < 0) continue; /* merged into its left, or the last */
    gs_symbol *right = &w->sym[left->next];
    const gs_merge *m = gs_pairs_find(&b->merges, left->id, right->id);
    if (m == NULL || m->id != e.id) continue; /* out of date */
    *left = (gs_symbol){e.id, left->prev, right->next, right->end};
    right->id = -1;
    if (left->next >= 0) w->sym[left->next].prev = e.pos;
    if (left->prev >= 0) offer(b, w, left->prev);
    offer(b, w, e.pos);
  }
  for (size_t i = 0; i < nsym; i++) {
    if (w->sym[i].id < 0) continue;
    gs_ids_add(ids, w->sym[i].id);
    gs_ids_add(ends, w->sym[i].end);
  }
}
