/* normalize.c: Unicode normal forms, Prepend, Replace; each keeps for every byte where its source
 * ends. A normal form is taken from one ASCII character to the next: nothing composes across the
 * start of one, so the pieces are those of the whole. */
#include "data/parts.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void gs_norms_free(gs_norms *s) {
  for (size_t i = 0; i < s->n; i++) {
    free(s->v[i].text);
    pcre2_code_free(s->v[i].re);
  }
  free(s->v);
  memset(s, 0, sizeof *s);
}

static bool ascii(char c) {
  return ((unsigned char)c & 0x80) == 0;
}

static gs_status form(int options, const gs_buf *in, gs_buf *out, gs_error *err) {
  for (size_t i = 0; i < in->n;) {
    size_t k = i + 1;
    if (ascii(in->s[i]) && (k == in->n || ascii(in->s[k]))) { /* nothing can change here */
      while (k < in->n && ascii(in->s[k]) && (k + 1 == in->n || ascii(in->s[k + 1]))) k++;
      gs_buf_copy(out, in, i, k - i);
      i = k;
      continue;
    }
    while (k < in->n && !ascii(in->s[k])) k++;
    utf8proc_uint8_t *made = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)in->s + i,
                                      (utf8proc_ssize_t)(k - i), &made, (utf8proc_option_t)options);
    if (n < 0) return gs_fail(err, GS_ERR_INPUT, "normalising: %s", utf8proc_errmsg(n));
    if ((size_t)n == k - i && memcmp(made, in->s + i, k - i) == 0)
      gs_buf_copy(out, in, i, k - i);
    else
      gs_buf_add(out, (const char *)made, (size_t)n, in->end[k - 1], true);
    free(made);
    i = k;
  }
  return GS_OK;
}

static gs_status replace(const gs_norm *r, const gs_match *m, const gs_buf *in, gs_buf *out,
                         gs_error *err) {
  gs_cuts cuts = {0};
  gs_status st = gs_regex_cuts(r->re, m, in->s, in->n, &cuts, err);
  for (size_t i = 0; st == GS_OK && i < cuts.n; i++) {
    gs_cut c = cuts.v[i];
    if (!c.match)
      gs_buf_copy(out, in, c.at, c.n);
    else if (c.at + c.n > 0)
      gs_buf_add(out, r->text, r->text_n, in->end[c.at + c.n - 1], true);
  }
  free(cuts.v);
  return st;
}

/* Where the source of a text's first byte begins, near enough: prepended text ends there. */
static int32_t begin(const gs_buf *b) {
  return b->end[0] > 0 ? b->end[0] - 1 : 0;
}

gs_status gs_normalize(const gs_norms *s, const gs_match *m, gs_buf *text, gs_buf *spare,
                       gs_error *err) {
  gs_status st = GS_OK;
  for (size_t i = 0; i < s->n && st == GS_OK; i++) {
    if (text->n == 0) return GS_OK;
    spare->n = 0;
    if (s->v[i].kind == GS_NORM_FORM) {
      st = form(s->v[i].form, text, spare, err);
    } else if (s->v[i].kind == GS_NORM_REPLACE) {
      st = replace(&s->v[i], m, text, spare, err);
    } else {
      gs_buf_add(spare, s->v[i].text, s->v[i].text_n, begin(text), true);
      gs_buf_copy(spare, text, 0, text->n);
    }
    gs_buf swap = *text;
    *text = *spare;
    *spare = swap;
  }
  return st;
}
