/* added.c: finds added tokens in text: leftmost, the longest there; then what lstrip, rstrip and
 * single_word make of the place, as in the reference. */
#include "data/parts.h"

#include <stdlib.h>
#include <string.h>

void gs_finder_free(gs_finder *f) {
  free(f->node);
  memset(f, 0, sizeof *f);
}

static int32_t child(const gs_finder *f, int32_t at, unsigned char c) {
  while (at > 0 && f->node[at].byte != c) at = f->node[at].sibling;
  return at;
}

static int32_t add_node(gs_finder *f, unsigned char c, int32_t sibling) {
  if (f->n == 0) f->n = 1; /* 0 means none */
  f->node = gs_tk_grow(f->node, &f->cap, f->n + 1, sizeof *f->node);
  f->node[f->n] = (struct gs_node){0, sibling, -1, c};
  return (int32_t)f->n++;
}

void gs_finder_put(gs_finder *f, const char *s, size_t n, int32_t token) {
  int32_t at = 0;
  if (n == 0) return;
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    int32_t list = i == 0 ? f->root[c] : f->node[at].child;
    int32_t next = child(f, list, c);
    if (next == 0) {
      next = add_node(f, c, list);
      if (i == 0)
        f->root[c] = next;
      else
        f->node[at].child = next;
    }
    at = next;
  }
  if (f->node[at].token < 0) f->node[at].token = token;
}

/* The longest token that begins at s; -1 when none does. */
static int32_t longest(const gs_finder *f, const char *s, size_t n, size_t *len) {
  int32_t at = f->root[(unsigned char)s[0]], found = -1;
  for (size_t i = 0; at > 0;) {
    if (f->node[at].token >= 0) found = f->node[at].token, *len = i + 1;
    if (++i == n) break;
    at = child(f, f->node[at].child, (unsigned char)s[i]);
  }
  return found;
}

static bool is_word(const pcre2_code *word, const gs_match *m, const char *s, size_t n) {
  return pcre2_match(word, (PCRE2_SPTR)s, n, 0, PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, m->data,
                     m->context) > 0;
}

static size_t last_char(const char *s, size_t n) {
  size_t i = n - 1;
  while (i > 0 && ((unsigned char)s[i] & 0xC0) == 0x80) i--;
  return i;
}

static bool stands_alone(const pcre2_code *word, const gs_match *m, const char *s, size_t n,
                         size_t from, size_t to) {
  if (to < n && is_word(word, m, s + to, n - to)) return false;
  if (from == 0) return true;
  size_t c = last_char(s, from);
  return !is_word(word, m, s + c, from - c);
}

static size_t white_before(const char *s, size_t from) {
  while (from > 0) {
    size_t i = last_char(s, from);
    uint32_t c;
    if (gs_utf8_next(s + i, from - i, &c) == 0 || !gs_utf8_white(c)) break;
    from = i;
  }
  return from;
}

static size_t white_after(const char *s, size_t n, size_t to) {
  while (to < n) {
    uint32_t c;
    int k = gs_utf8_next(s + to, n - to, &c);
    if (k == 0 || !gs_utf8_white(c)) break;
    to += (size_t)k;
  }
  return to;
}

static void part(gs_parts *out, size_t at, size_t n, int32_t token) {
  out->v = gs_tk_grow(out->v, &out->cap, out->n + 1, sizeof *out->v);
  out->v[out->n++] = (gs_part){at, n, token};
}

void gs_finder_split(const gs_finder *f, const gs_added *added, const pcre2_code *word,
                     const gs_match *m, const char *s, size_t n, gs_parts *out) {
  size_t done = 0;
  for (size_t i = 0; i < n && f->n > 0;) {
    size_t len = 0;
    int32_t k = longest(f, s + i, n - i, &len);
    if (k < 0) {
      i++;
      continue;
    }
    const gs_added *a = &added[k];
    size_t from = i, to = i + len;
    i = to;
    if (a->single_word && !stands_alone(word, m, s, n, from, to)) continue;
    if (a->lstrip) from = white_before(s, from);
    if (a->lstrip && from < done) from = done;
    if (a->rstrip) to = white_after(s, n, to);
    if (done < from) part(out, done, from - done, -1);
    part(out, from, to - from, k);
    done = to;
  }
  if (done < n) part(out, done, n - done, -1);
}
