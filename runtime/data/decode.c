/* decode.c: ids back to text by the file's decoder: ByteLevel, or a sequence of Replace,
 * ByteFallback, Fuse, Strip, Metaspace. Bytes that are no UTF-8 become U+FFFD, as in the reference.
 */
#include "base/text.h"
#include "data/parts.h"

#include <stdlib.h>
#include <string.h>

/* The tokens' texts under way: piece i is text.s[at .. at + n). */
typedef struct pieces {
  gs_text text, spare;
  gs_cuts v, vspare;
} pieces;

void gs_decs_free(gs_decs *s) {
  for (size_t i = 0; i < s->n; i++) {
    free(s->v[i].text);
    pcre2_code_free(s->v[i].re);
  }
  free(s->v);
  memset(s, 0, sizeof *s);
}

static void emit(pieces *p, const char *s, size_t n) {
  gs_cuts_add(&p->vspare, p->spare.len, n, false);
  gs_text_add_n(&p->spare, s, n);
}

static void turn(pieces *p) {
  gs_text t = p->text;
  gs_cuts v = p->v;
  p->text = p->spare, p->v = p->vspare;
  p->spare = t, p->vspare = v;
  p->spare.len = 0, p->vspare.n = 0;
  gs_text_add_n(&p->text, "", 0); /* never NULL */
}

/* Characters that stand for bytes become them; a token with another character stays as it is. */
static void bytes(pieces *p) {
  gs_text raw = {0};
  for (size_t i = 0; i < p->v.n; i++) {
    const char *s = p->text.s + p->v.v[i].at;
    size_t n = p->v.v[i].n, back = raw.len;
    for (size_t k = 0; k < n;) {
      uint32_t c;
      int step = gs_utf8_next(s + k, n - k, &c);
      int b = step == 0 ? -1 : gs_char_byte(c);
      char one = (char)b;
      if (b < 0) {
        raw.len = back;
        gs_text_add_n(&raw, s, n);
        break;
      }
      gs_text_add_n(&raw, &one, 1);
      k += (size_t)step;
    }
  }
  size_t n;
  char *good = gs_utf8_lossy(raw.len > 0 ? raw.s : "", raw.len, &n);
  emit(p, good, n);
  free(good);
  gs_text_free(&raw);
}

static gs_status replace(const gs_dec *d, const gs_match *m, pieces *p, gs_error *err) {
  gs_cuts cuts = {0};
  gs_status st = GS_OK;
  for (size_t i = 0; i < p->v.n && st == GS_OK; i++) {
    const char *s = p->text.s + p->v.v[i].at;
    size_t start = p->spare.len;
    cuts.n = 0;
    if (p->v.v[i].n > 0) st = gs_regex_cuts(d->re, m, s, p->v.v[i].n, &cuts, err);
    for (size_t k = 0; k < cuts.n && st == GS_OK; k++)
      gs_text_add_n(&p->spare, cuts.v[k].match ? d->text : s + cuts.v[k].at,
                    cuts.v[k].match ? d->text_n : cuts.v[k].n);
    gs_cuts_add(&p->vspare, start, p->spare.len - start, false);
  }
  free(cuts.v);
  return st;
}

static int hex(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

static void flush_bytes(pieces *p, const gs_text *run) {
  if (run->len == 0) return;
  if (gs_utf8_check(run->s, run->len) == run->len) {
    emit(p, run->s, run->len);
    return;
  }
  for (size_t i = 0; i < run->len; i++) emit(p, "\xEF\xBF\xBD", 3);
}

static void fallback(pieces *p) {
  gs_text run = {0};
  for (size_t i = 0; i < p->v.n; i++) {
    const char *s = p->text.s + p->v.v[i].at;
    bool byte = p->v.v[i].n == 6 && memcmp(s, "<0x", 3) == 0 && s[5] == '>' && hex(s[3]) >= 0 &&
                hex(s[4]) >= 0;
    char c = byte ? (char)(hex(s[3]) * 16 + hex(s[4])) : 0;
    if (byte) {
      gs_text_add_n(&run, &c, 1);
      continue;
    }
    flush_bytes(p, &run);
    run.len = 0;
    emit(p, s, p->v.v[i].n);
  }
  flush_bytes(p, &run);
  gs_text_free(&run);
}

static void strip(const gs_dec *d, pieces *p) {
  for (size_t i = 0; i < p->v.n; i++) {
    const char *s = p->text.s + p->v.v[i].at;
    size_t n = p->v.v[i].n, w = d->text_n;
    for (int k = 0; k < d->start && n >= w && memcmp(s, d->text, w) == 0; k++) s += w, n -= w;
    for (int k = 0; k < d->stop && n >= w && memcmp(s + n - w, d->text, w) == 0; k++) n -= w;
    emit(p, s, n);
  }
}

static void metaspace(const gs_dec *d, pieces *p) {
  for (size_t i = 0; i < p->v.n; i++) {
    const char *s = p->text.s + p->v.v[i].at;
    size_t n = p->v.v[i].n, start = p->spare.len;
    for (size_t k = 0; k < n;) {
      if (n - k >= d->text_n && memcmp(s + k, d->text, d->text_n) == 0) {
        gs_text_add_n(&p->spare, " ", i > 0 || d->keep_first);
        k += d->text_n;
      } else {
        gs_text_add_n(&p->spare, s + k++, 1);
      }
    }
    gs_cuts_add(&p->vspare, start, p->spare.len - start, false);
  }
}

static gs_status decode(const gs_decs *s, const gs_match *m, pieces *p, gs_error *err) {
  gs_status st = GS_OK;
  for (size_t i = 0; i < s->n && st == GS_OK; i++) {
    const gs_dec *d = &s->v[i];
    switch (d->kind) {
    case GS_DEC_BYTES: bytes(p); break;
    case GS_DEC_REPLACE: st = replace(d, m, p, err); break;
    case GS_DEC_FALLBACK: fallback(p); break;
    case GS_DEC_FUSE: emit(p, p->text.len > 0 ? p->text.s : "", p->text.len); break;
    case GS_DEC_STRIP: strip(d, p); break;
    case GS_DEC_METASPACE: metaspace(d, p); break;
    }
    turn(p);
  }
  return st;
}

gs_status gs_tokenizer_decode(const gs_tokenizer *t, const int32_t *id, size_t n, int skip_special,
                              char **text, gs_error *err) {
  pieces p = {0};
  gs_match m = {0};
  *text = NULL;
  gs_status st = gs_match_init(&m, err);
  if (st != GS_OK) return st;
  for (size_t i = 0; i < n; i++) {
    if (id[i] < 0 || id[i] >= t->size || t->token[id[i]].s == NULL) continue; /* no such token */
    if (skip_special && t->token[id[i]].added >= 0 && t->added[t->token[id[i]].added].special)
      continue;
    if (t->dec.n == 0 && p.vspare.n > 0) emit(&p, " ", 1); /* without a decoder tokens are spaced */
    gs_cuts_add(&p.vspare, p.spare.len, t->token[id[i]].n, false);
    gs_text_add_n(&p.spare, t->token[id[i]].s, t->token[id[i]].n);
  }
  turn(&p);
  st = decode(&t->dec, &m, &p, err);
  if (st == GS_OK) *text = gs_tk_strndup(p.text.s, p.text.len);
  gs_text_free(&p.text);
  gs_text_free(&p.spare);
  free(p.v.v);
  free(p.vspare.v);
  gs_match_free(&m);
  return st;
}
