/* tokenizer.c: the public face: open, encode, look up. Encoding holds all that changes in a `work`
 * of its own, so a tokenizer may be read by several threads. */
#include "base/file.h"
#include "base/text.h"
#include "data/parts.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct work {
  gs_match match;
  gs_buf norm, spare;
  gs_pieces pieces;
  gs_parts outer, inner;
  gs_bpe_work bpe;
} work;

gs_status gs_tokenizer_open(const char *dir, gs_tokenizer **out, gs_error *err) {
  size_t cap = 0;
  gs_text path = {0};
  json_t *j = NULL;
  gs_tokenizer *t = gs_tk_grow(NULL, &cap, 1, sizeof *t);
  memset(t, 0, sizeof *t);
  t->bos = t->eos = -1;
  gs_text_printf(&path, "%s/tokenizer.json", dir);
  gs_status st = gs_path_exists(dir)
                     ? gs_json_file(path.s, &j, err)
                     : gs_fail(err, GS_ERR_IO,
                               "%s: there is no such model folder; name one with config.json, "
                               "*.safetensors and tokenizer.json",
                               dir);
  if (st == GS_OK) st = gs_load_tokenizer(t, j, path.s, err);
  json_decref(j);
  if (st == GS_OK) st = gs_load_config(t, dir, err);
  gs_text_free(&path);
  if (st != GS_OK) {
    gs_tokenizer_free(t);
    t = NULL;
  }
  *out = t;
  return st;
}

void gs_tokenizer_free(gs_tokenizer *t) {
  if (t == NULL) return;
  for (size_t i = 0; i < t->nadded; i++) free(t->added[i].content);
  free(t->added);
  gs_finder_free(&t->raw);
  gs_finder_free(&t->normal);
  gs_words_free(&t->added_id);
  pcre2_code_free(t->word);
  gs_norms_free(&t->norm);
  gs_pres_free(&t->pre);
  gs_bpe_free(&t->bpe);
  gs_decs_free(&t->dec);
  gs_ids_free(&t->before);
  gs_ids_free(&t->after);
  free(t->token);
  free(t->bos_text);
  free(t->eos_text);
  free(t->chat);
  free(t);
}

static void work_free(work *w) {
  gs_match_free(&w->match);
  gs_buf_free(&w->norm);
  gs_buf_free(&w->spare);
  gs_pieces_free(&w->pieces);
  free(w->outer.v);
  free(w->inner.v);
  free(w->bpe.sym);
  free(w->bpe.heap);
}

/* w->norm[at .. at + n) holds no added token: words, then tokens. */
static gs_status encode_words(const gs_tokenizer *t, work *w, bool first, size_t at, size_t n,
                              gs_ids *ids, gs_ids *ends, gs_error *err) {
  gs_pieces *p = &w->pieces;
  p->text.n = 0;
  p->v.n = 0;
  gs_buf_copy(&p->text, &w->norm, at, n);
  gs_cuts_add(&p->v, 0, n, false);
  gs_status st = gs_pretokenize(&t->pre, &w->match, first, p, err);
  for (size_t i = 0; st == GS_OK && i < p->v.n; i++)
    gs_bpe_word(&t->bpe, &w->bpe, p->text.s + p->v.v[i].at, p->text.end + p->v.v[i].at, p->v.v[i].n,
                ids, ends);
  return st;
}

/* text[at .. at + n) holds no raw added token: normalise, cut at normalised added tokens. */
static gs_status encode_part(const gs_tokenizer *t, work *w, const char *text, size_t at, size_t n,
                             gs_ids *ids, gs_ids *ends, gs_error *err) {
  w->norm.n = 0;
  w->inner.n = 0;
  gs_buf_add(&w->norm, text + at, n, (int32_t)at, false);
  gs_status st = gs_normalize(&t->norm, &w->match, &w->norm, &w->spare, err);
  if (st != GS_OK || w->norm.n == 0) return st;
  gs_finder_split(&t->normal, t->added, t->word, &w->match, w->norm.s, w->norm.n, &w->inner);
  for (size_t i = 0; st == GS_OK && i < w->inner.n; i++) {
    gs_part p = w->inner.v[i];
    if (p.token < 0) {
      st = encode_words(t, w, at == 0 && p.at == 0, p.at, p.n, ids, ends, err);
    } else {
      gs_ids_add(ids, t->added[p.token].id);
      gs_ids_add(ends, w->norm.end[p.at + p.n - 1]);
    }
  }
  return st;
}

static void around(const gs_tokenizer *t, bool front, size_t len, gs_ids *ids, gs_ids *ends) {
  const gs_ids *v = front ? &t->before : &t->after;
  int32_t alone = front ? (t->add_bos == 1 ? t->bos : -1) : (t->add_eos == 1 ? t->eos : -1);
  for (size_t i = 0; i < v->n; i++) {
    gs_ids_add(ids, v->id[i]);
    gs_ids_add(ends, front ? 0 : (int32_t)len);
  }
  if (v->n > 0 || alone < 0) return;
  gs_ids_add(ids, alone);
  gs_ids_add(ends, front ? 0 : (int32_t)len);
}

gs_status gs_tokenizer_encode_ends(const gs_tokenizer *t, const char *text, size_t len,
                                   int add_special, gs_ids *ids, gs_ids *ends, gs_error *err) {
  work w = {0};
  size_t bad = gs_utf8_check(text, len), ids_before = ids->n, ends_before = ends->n;
  if (bad < len)
    return gs_fail(err, GS_ERR_INPUT, "text is not UTF-8: byte 0x%02X at offset %zu",
                   (unsigned char)text[bad], bad);
  if (len > INT_MAX / 4)
    return gs_fail(err, GS_ERR_INPUT, "a text of %zu bytes is too long to tokenise at once", len);
  gs_status st = gs_match_init(&w.match, err);
  if (st != GS_OK) return st;
  if (add_special) around(t, true, len, ids, ends);
  gs_finder_split(&t->raw, t->added, t->word, &w.match, text, len, &w.outer);
  for (size_t i = 0; st == GS_OK && i < w.outer.n; i++) {
    gs_part p = w.outer.v[i];
    if (p.token < 0) {
      st = encode_part(t, &w, text, p.at, p.n, ids, ends, err);
    } else {
      gs_ids_add(ids, t->added[p.token].id);
      gs_ids_add(ends, (int32_t)(p.at + p.n));
    }
  }
  if (add_special) around(t, false, len, ids, ends);
  if (st != GS_OK) ids->n = ids_before, ends->n = ends_before;
  work_free(&w);
  return st;
}

gs_status gs_tokenizer_encode(const gs_tokenizer *t, const char *text, size_t len, int add_special,
                              gs_ids *out, gs_error *err) {
  gs_ids ends = {0};
  gs_status st = gs_tokenizer_encode_ends(t, text, len, add_special, out, &ends, err);
  gs_ids_free(&ends);
  return st;
}

int32_t gs_tokenizer_id(const gs_tokenizer *t, const char *token) {
  int32_t id = gs_words_find(&t->added_id, token, strlen(token));
  return id >= 0 ? id : gs_words_find(&t->bpe.vocab, token, strlen(token));
}

int32_t gs_tokenizer_eos(const gs_tokenizer *t) {
  return t->eos;
}

int32_t gs_tokenizer_bos(const gs_tokenizer *t) {
  if (t->before.n > 0) return t->before.id[0] == t->bos ? t->bos : -1;
  return t->add_bos == 1 ? t->bos : -1;
}

int32_t gs_tokenizer_size(const gs_tokenizer *t) {
  return t->size;
}

const char *gs_tokenizer_chat_template(const gs_tokenizer *t) {
  return t->chat;
}
