/* pretokenize.c: cuts normalised text into the words that are merged one by one: Split, Digits,
 * ByteLevel, Metaspace, one after another. Empty pieces vanish. */
#include "data/parts.h"

#include <stdlib.h>
#include <string.h>

void gs_pres_free(gs_pres *s) {
  for (size_t i = 0; i < s->n; i++) pcre2_code_free(s->v[i].re);
  free(s->v);
  memset(s, 0, sizeof *s);
}

void gs_pieces_free(gs_pieces *p) {
  gs_buf_free(&p->text);
  gs_buf_free(&p->spare);
  free(p->v.v);
  free(p->vspare.v);
  free(p->cuts.v);
  memset(p, 0, sizeof *p);
}

/* GPT-2's table: the 188 printable bytes of Latin-1 stand for themselves, the others for U+0100 on.
 */
static bool printable(int b) {
  return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

/* The number of bytes below b that are not printable. */
static int rank(int b) {
  return b <= 0x20 ? b : b <= 0xA0 ? 33 + b - 0x7F : 67;
}

int gs_byte_char(unsigned char b, char out[4]) {
  return gs_utf8_put(out, printable(b) ? b : 0x100 + (uint32_t)rank(b));
}

int gs_char_byte(uint32_t c) {
  if (c < 0x100) return printable((int)c) ? (int)c : -1;
  int k = (int)(c - 0x100);
  if (c > 0x143) return -1;
  return k <= 32 ? k : k <= 66 ? 0x7F + k - 33 : 0xAD;
}

/* Pieces of the cuts by the reference's rules for delimiters. */
static void join(const gs_cuts *in, gs_behavior b, bool invert, gs_cuts *out) {
  bool before = false;
  size_t n = in->n, first = out->n;
  for (size_t k = 0; k < n; k++) {
    gs_cut c = in->v[b == GS_WITH_NEXT ? n - 1 - k : k];
    bool match = c.match != invert;
    bool joins = b == GS_CONTIGUOUS ? match == before : match && !before;
    gs_cut *last = out->n > first ? &out->v[out->n - 1] : NULL;
    if (joins && last != NULL) {
      if (b == GS_WITH_NEXT) last->at = c.at;
      last->n += c.n;
    } else {
      gs_cuts_add(out, c.at, c.n, false);
    }
    before = match;
  }
  for (size_t i = first, j = out->n; b == GS_WITH_NEXT && i + 1 < j; i++) {
    gs_cut swap = out->v[i];
    out->v[i] = out->v[--j];
    out->v[j] = swap;
  }
}

void gs_cuts_apply(const gs_cuts *in, gs_behavior b, bool invert, size_t base, gs_cuts *out) {
  size_t first = out->n, keep = out->n;
  if (b == GS_ISOLATED || b == GS_REMOVED) {
    for (size_t i = 0; i < in->n; i++)
      if (b == GS_ISOLATED || in->v[i].match == invert)
        gs_cuts_add(out, in->v[i].at, in->v[i].n, false);
  } else {
    join(in, b, invert, out);
  }
  for (size_t i = first; i < out->n; i++)
    if (out->v[i].n > 0) out->v[keep++] = (gs_cut){out->v[i].at + base, out->v[i].n, false};
  out->n = keep;
}

static gs_status split(const gs_pre *s, const gs_match *m, gs_pieces *p, gs_error *err) {
  p->vspare.n = 0;
  for (size_t i = 0; i < p->v.n; i++) {
    gs_cut c = p->v.v[i];
    p->cuts.n = 0;
    gs_status st = gs_regex_cuts(s->re, m, p->text.s + c.at, c.n, &p->cuts, err);
    if (st != GS_OK) return st;
    gs_cuts_apply(&p->cuts, s->behavior, s->invert, c.at, &p->vspare);
  }
  gs_cuts swap = p->v;
  p->v = p->vspare;
  p->vspare = swap;
  return GS_OK;
}

static void swap_text(gs_pieces *p) {
  gs_buf swap = p->text;
  p->text = p->spare;
  p->spare = swap;
  p->spare.n = 0;
}

static int32_t begin(const gs_pieces *p, size_t at) {
  if (at > 0) return p->text.end[at - 1];
  return p->text.end[0] > 0 ? p->text.end[0] - 1 : 0;
}

/* Spaces become marks, and a mark goes in front where the scheme says so. */
static void metaspace(const gs_pre *s, bool first, gs_pieces *p) {
  size_t mark_n = (size_t)s->mark_n;
  p->spare.n = 0;
  for (size_t i = 0; i < p->v.n; i++) {
    gs_cut c = p->v.v[i];
    const char *t = p->text.s + c.at;
    bool marked = t[0] == ' ' || (c.n >= mark_n && memcmp(t, s->mark, mark_n) == 0);
    bool wanted =
        s->prepend == GS_PREPEND_ALWAYS || (s->prepend == GS_PREPEND_FIRST && first && i == 0);
    size_t start = p->spare.n;
    if (wanted && !marked) gs_buf_add(&p->spare, s->mark, mark_n, begin(p, c.at), true);
    for (size_t k = 0; k < c.n; k++) {
      if (t[k] == ' ')
        gs_buf_add(&p->spare, s->mark, mark_n, p->text.end[c.at + k], true);
      else
        gs_buf_copy(&p->spare, &p->text, c.at + k, 1);
    }
    p->v.v[i] = (gs_cut){start, p->spare.n - start, false};
  }
  swap_text(p);
}

static void prefix_space(gs_pieces *p) {
  p->spare.n = 0;
  for (size_t i = 0; i < p->v.n; i++) {
    gs_cut c = p->v.v[i];
    size_t start = p->spare.n;
    if (p->text.s[c.at] != ' ') gs_buf_add(&p->spare, " ", 1, begin(p, c.at), true);
    gs_buf_copy(&p->spare, &p->text, c.at, c.n);
    p->v.v[i] = (gs_cut){start, p->spare.n - start, false};
  }
  swap_text(p);
}

static void to_byte_chars(gs_pieces *p) {
  p->spare.n = 0;
  for (size_t i = 0; i < p->v.n; i++) {
    gs_cut c = p->v.v[i];
    size_t start = p->spare.n;
    for (size_t k = c.at; k < c.at + c.n; k++) {
      char u[4];
      int n = gs_byte_char((unsigned char)p->text.s[k], u);
      gs_buf_add(&p->spare, u, (size_t)n, p->text.end[k], true);
    }
    p->v.v[i] = (gs_cut){start, p->spare.n - start, false};
  }
  swap_text(p);
}

gs_status gs_pretokenize(const gs_pres *s, const gs_match *m, bool first, gs_pieces *p,
                         gs_error *err) {
  gs_status st = GS_OK;
  for (size_t i = 0; i < s->n && st == GS_OK; i++) {
    const gs_pre *e = &s->v[i];
    if (p->v.n == 0) break;
    if (e->kind == GS_PRE_METASPACE) metaspace(e, first, p);
    if (e->kind == GS_PRE_BYTES && e->prepend == GS_PREPEND_ALWAYS) prefix_space(p);
    if (e->re != NULL) st = split(e, m, p, err);
    if (st == GS_OK && e->kind == GS_PRE_BYTES) to_byte_chars(p);
  }
  return st;
}
