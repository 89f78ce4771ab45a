/* load_model.c: the BPE model, the added tokens and the post-processor of tokenizer.json. */
#include "data/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ID (1 << 24)

/* null or ""; anything else changes the ids in a way that is not supported. */
static gs_status want_empty(const json_t *j, const char *where, const char *key, gs_error *err) {
  const json_t *v = json_object_get(j, key);
  if (v == NULL || json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0))
    return GS_OK;
  if (json_is_real(v) && json_real_value(v) == 0.0) return GS_OK; /* dropout */
  return gs_fail(err, GS_ERR_INPUT, "%s.%s is not supported", where, key);
}

static gs_status load_vocab(const json_t *j, const char *where, gs_bpe *b, gs_error *err) {
  const json_t *vocab = json_object_get(j, "vocab");
  const char *key;
  json_t *v;
  if (!json_is_object(vocab))
    return gs_fail(err, GS_ERR_INPUT, "%s.vocab: expected an object of tokens and ids", where);
  json_object_foreach((json_t *)vocab, key, v) {
    json_int_t id = json_integer_value(v);
    if (!json_is_integer(v) || id < 0 || id >= MAX_ID)
      return gs_fail(err, GS_ERR_INPUT, "%s.vocab: token \"%.100s\": expected an id from 0 to %d",
                     where, key, MAX_ID - 1);
    gs_words_put(&b->vocab, key, strlen(key), (int32_t)id);
  }
  return GS_OK;
}

/* A merge's two halves, of ["a", "b"] or "a b"; false when it is neither. */
static bool halves(const json_t *m, const char **a, size_t *an, const char **b, size_t *bn) {
  if (json_is_array(m) && json_array_size(m) == 2) {
    const json_t *x = json_array_get(m, 0), *y = json_array_get(m, 1);
    *a = json_string_value(x), *an = json_string_length(x);
    *b = json_string_value(y), *bn = json_string_length(y);
    return *a != NULL && *b != NULL;
  }
  const char *s = json_string_value(m);
  const char *space = s == NULL ? NULL : strchr(s, ' ');
  if (space == NULL || strchr(space + 1, ' ') != NULL) return false;
  *a = s, *an = (size_t)(space - s);
  *b = space + 1, *bn = json_string_length(m) - *an - 1;
  return true;
}

static gs_status load_merge(const json_t *m, const char *where, size_t i, int32_t rank, gs_bpe *b,
                            char **joined, size_t *cap, gs_error *err) {
  const char *x, *y;
  size_t xn, yn;
  if (!halves(m, &x, &xn, &y, &yn))
    return gs_fail(err, GS_ERR_INPUT, "%s.merges[%zu]: expected \"a b\" or [\"a\", \"b\"]", where,
                   i);
  *joined = gs_tk_grow(*joined, cap, xn + yn + 1, 1);
  memcpy(*joined, x, xn);
  memcpy(*joined + xn, y, yn);
  (*joined)[xn + yn] = 0;
  int32_t l = gs_words_find(&b->vocab, x, xn), r = gs_words_find(&b->vocab, y, yn);
  int32_t id = gs_words_find(&b->vocab, *joined, xn + yn);
  if (l < 0 || r < 0 || id < 0)
    return gs_fail(err, GS_ERR_INPUT, "%s.merges[%zu]: token \"%.100s\" is not in the vocabulary",
                   where, i,
                   l < 0   ? x
                   : r < 0 ? y
                           : *joined);
  gs_pairs_put(&b->merges, l, r, (gs_merge){rank, id});
  return GS_OK;
}

gs_status gs_load_bpe(const json_t *j, const char *where, gs_bpe *b, gs_error *err) {
  const json_t *type = json_object_get(j, "type"), *merges = json_object_get(j, "merges");
  const json_t *unk = json_object_get(j, "unk_token");
  gs_status st = GS_OK;
  char *joined = NULL;
  size_t cap = 0;
  if (!json_is_object(j)) return gs_fail(err, GS_ERR_INPUT, "%s: expected an object", where);
  if (type != NULL && strcmp(json_is_string(type) ? json_string_value(type) : "?", "BPE") != 0)
    return gs_fail(err, GS_ERR_INPUT, "%s: type \"%.100s\" is not supported (supported: BPE)",
                   where, json_is_string(type) ? json_string_value(type) : "?");
  st = gs_json_only(j, where,
                    "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk "
                    "byte_fallback ignore_merges vocab merges",
                    err);
  if (st == GS_OK) st = want_empty(j, where, "dropout", err);
  if (st == GS_OK) st = want_empty(j, where, "continuing_subword_prefix", err);
  if (st == GS_OK) st = want_empty(j, where, "end_of_word_suffix", err);
  if (st == GS_OK) st = gs_json_bool(j, where, "fuse_unk", false, &b->fuse_unk, err);
  if (st == GS_OK) st = gs_json_bool(j, where, "byte_fallback", false, &b->byte_fallback, err);
  if (st == GS_OK) st = gs_json_bool(j, where, "ignore_merges", false, &b->ignore_merges, err);
  if (st == GS_OK) st = load_vocab(j, where, b, err);
  if (st == GS_OK && !json_is_array(merges))
    st = gs_fail(err, GS_ERR_INPUT, "%s.merges: expected a list", where);
  int32_t rank = 0;
  for (size_t i = 0; st == GS_OK && i < json_array_size(merges); i++) {
    const json_t *m = json_array_get(merges, i);
    if (json_is_string(m) && strncmp(json_string_value(m), "#version", 8) == 0) continue;
    st = load_merge(m, where, i, rank++, b, &joined, &cap, err);
  }
  b->unk = -1;
  if (st == GS_OK && json_is_string(unk)) {
    b->unk = gs_words_find(&b->vocab, json_string_value(unk), json_string_length(unk));
    if (b->unk < 0)
      st = gs_fail(err, GS_ERR_INPUT, "%s.unk_token: \"%.100s\" is not in the vocabulary", where,
                   json_string_value(unk));
  }
  gs_bpe_finish(b);
  free(joined);
  return st;
}

/* The id of a token's text: an added token's, else the vocabulary's. */
static int32_t id_of(const gs_tokenizer *t, const char *s, size_t n) {
  int32_t id = gs_words_find(&t->added_id, s, n);
  return id >= 0 ? id : gs_words_find(&t->bpe.vocab, s, n);
}

static gs_status load_added(gs_tokenizer *t, const json_t *j, const char *where, gs_error *err) {
  const json_t *v = json_object_get(j, "id");
  json_int_t id = json_integer_value(v);
  gs_added a = {0};
  const char *s;
  gs_status st =
      gs_json_only(j, where, "id content single_word lstrip rstrip normalized special", err);
  if (st == GS_OK) st = gs_json_text(j, where, "content", &s, &a.n, err);
  if (st == GS_OK) st = gs_json_bool(j, where, "special", false, &a.special, err);
  if (st == GS_OK) st = gs_json_bool(j, where, "single_word", false, &a.single_word, err);
  if (st == GS_OK) st = gs_json_bool(j, where, "lstrip", false, &a.lstrip, err);
  if (st == GS_OK) st = gs_json_bool(j, where, "rstrip", false, &a.rstrip, err);
  if (st == GS_OK) st = gs_json_bool(j, where, "normalized", !a.special, &a.normalized, err);
  if (st != GS_OK || a.n == 0) return st;
  if (!json_is_integer(v) || id < 0 || id >= MAX_ID)
    return gs_fail(err, GS_ERR_INPUT, "%s.id: expected an id from 0 to %d", where, MAX_ID - 1);
  int32_t known = id_of(t, s, a.n);
  if (known >= 0 && known != id)
    return gs_fail(err, GS_ERR_INPUT, "%s: \"%.100s\" has id %d here and %d elsewhere in the file",
                   where, s, (int)id, (int)known);
  a.id = (int32_t)id;
  a.content = gs_tk_strndup(s, a.n);
  gs_words_put(&t->added_id, s, a.n, a.id);
  t->added = gs_tk_grow(t->added, &t->added_cap, t->nadded + 1, sizeof *t->added);
  t->added[t->nadded++] = a;
  return GS_OK;
}

/* One round over the added tokens, special ones first as in the reference. */
static gs_status find_added(gs_tokenizer *t, bool special, const gs_match *m, gs_error *err) {
  gs_status st = GS_OK;
  gs_buf text = {0}, spare = {0};
  for (size_t i = 0; i < t->nadded && st == GS_OK; i++) {
    const gs_added *a = &t->added[i];
    if (a->special != special) continue;
    if (!a->normalized) {
      gs_finder_put(&t->raw, a->content, a->n, (int32_t)i);
      continue;
    }
    text.n = 0;
    gs_buf_add(&text, a->content, a->n, 0, false);
    st = gs_normalize(&t->norm, m, &text, &spare, err);
    if (st == GS_OK) gs_finder_put(&t->normal, text.s, text.n, (int32_t)i);
  }
  gs_buf_free(&text);
  gs_buf_free(&spare);
  return st;
}

static gs_status load_all_added(gs_tokenizer *t, const json_t *list, const char *where,
                                gs_error *err) {
  gs_match m = {0};
  gs_status st = gs_match_init(&m, err);
  if (st == GS_OK && list != NULL && !json_is_null(list) && !json_is_array(list))
    st = gs_fail(err, GS_ERR_INPUT, "%s: added_tokens: expected a list", where);
  for (size_t i = 0; st == GS_OK && i < json_array_size(list); i++) {
    char inner[512];
    snprintf(inner, sizeof inner, "%.400s: added_tokens[%zu]", where, i);
    st = load_added(t, json_array_get(list, i), inner, err);
  }
  if (st == GS_OK) st = find_added(t, true, &m, err);
  if (st == GS_OK) st = find_added(t, false, &m, err);
  gs_match_free(&m);
  return st;
}

/* Ids that {"SpecialToken": {"id": NAME}} stands for; NAME is looked up in special_tokens. */
static gs_status template_ids(const json_t *post, const json_t *item, const char *where,
                              gs_ids *out, gs_error *err) {
  const json_t *name = json_object_get(json_object_get(item, "SpecialToken"), "id");
  const json_t *all = json_object_get(post, "special_tokens");
  const json_t *ids = json_is_string(name)
                          ? json_object_get(json_object_get(all, json_string_value(name)), "ids")
                          : NULL;
  if (!json_is_array(ids))
    return gs_fail(err, GS_ERR_INPUT, "%s.single: a special token without ids", where);
  for (size_t i = 0; i < json_array_size(ids); i++) {
    const json_t *v = json_array_get(ids, i);
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= MAX_ID)
      return gs_fail(err, GS_ERR_INPUT, "%s.special_tokens: expected ids", where);
    gs_ids_add(out, (int32_t)json_integer_value(v));
  }
  return GS_OK;
}

static gs_status load_post(gs_tokenizer *t, const json_t *j, const char *where, int depth,
                           gs_error *err) {
  const json_t *kind = json_object_get(j, "type");
  const char *type = json_is_string(kind) ? json_string_value(kind) : "?";
  const json_t *list = json_object_get(j, "processors");
  gs_status st = GS_OK;
  if (j == NULL || json_is_null(j) || strcmp(type, "ByteLevel") == 0)
    return GS_OK; /* offsets only */
  if (strcmp(type, "Sequence") == 0 && json_is_array(list) && depth < 8) {
    for (size_t i = 0; st == GS_OK && i < json_array_size(list); i++)
      st = load_post(t, json_array_get(list, i), where, depth + 1, err);
    return st;
  }
  if (strcmp(type, "TemplateProcessing") != 0)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: \"%.100s\" is not supported (supported: ByteLevel "
                   "TemplateProcessing Sequence)",
                   where, type);
  list = json_object_get(j, "single");
  int sequences = 0;
  gs_ids front = {0}; /* templates one inside another: the later goes outside */
  for (size_t i = 0; st == GS_OK && i < json_array_size(list); i++) {
    const json_t *item = json_array_get(list, i);
    if (json_object_get(item, "Sequence") != NULL)
      sequences++;
    else
      st = template_ids(j, item, where, sequences == 0 ? &front : &t->after, err);
  }
  for (size_t i = 0; i < t->before.n; i++) gs_ids_add(&front, t->before.id[i]);
  gs_ids_free(&t->before);
  t->before = front;
  if (st == GS_OK && sequences != 1)
    st = gs_fail(err, GS_ERR_INPUT, "%s.single: expected the sequence exactly once", where);
  return st;
}

/* The text of every id, added tokens over the vocabulary. */
static void index_tokens(gs_tokenizer *t) {
  size_t cap = 0;
  const gs_words *w = &t->bpe.vocab;
  for (size_t i = 0; i < w->n; i++)
    if (w->v[i].id >= t->size) t->size = w->v[i].id + 1;
  for (size_t i = 0; i < t->nadded; i++)
    if (t->added[i].id >= t->size) t->size = t->added[i].id + 1;
  size_t n = (size_t)t->size;
  t->token = gs_tk_grow(NULL, &cap, n + 1, sizeof *t->token);
  memset(t->token, 0, (n + 1) * sizeof *t->token);
  for (size_t i = 0; i < n; i++) t->token[i].added = -1;
  for (size_t i = 0; i < w->n; i++) {
    t->token[w->v[i].id].s = w->text + w->v[i].at;
    t->token[w->v[i].id].n = w->v[i].n;
  }
  for (size_t i = 0; i < t->nadded; i++) {
    const gs_added *a = &t->added[i];
    t->token[a->id].s = a->content;
    t->token[a->id].n = a->n;
    t->token[a->id].added = (int32_t)i;
  }
}

/* truncation and padding are left-overs of a training run: the reference's callers set their own.
 */
gs_status gs_load_tokenizer(gs_tokenizer *t, const json_t *j, const char *where, gs_error *err) {
  static const char word[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]";
  char at[512];
  gs_status st = gs_json_only(
      j, where,
      "version truncation padding added_tokens normalizer pre_tokenizer post_processor "
      "decoder model",
      err);
  if (st == GS_OK) st = gs_regex_compile(word, sizeof word - 1, false, &t->word, err);
  snprintf(at, sizeof at, "%.400s: model", where);
  if (st == GS_OK) st = gs_load_bpe(json_object_get(j, "model"), at, &t->bpe, err);
  snprintf(at, sizeof at, "%.400s: normalizer", where);
  if (st == GS_OK) st = gs_load_norms(json_object_get(j, "normalizer"), at, &t->norm, err);
  snprintf(at, sizeof at, "%.400s: pre_tokenizer", where);
  if (st == GS_OK) st = gs_load_pres(json_object_get(j, "pre_tokenizer"), at, &t->pre, err);
  snprintf(at, sizeof at, "%.400s: decoder", where);
  if (st == GS_OK) st = gs_load_decs(json_object_get(j, "decoder"), at, &t->dec, err);
  snprintf(at, sizeof at, "%.400s: post_processor", where);
  if (st == GS_OK) st = load_post(t, json_object_get(j, "post_processor"), at, 0, err);
  if (st == GS_OK) st = load_all_added(t, json_object_get(j, "added_tokens"), where, err);
  if (st == GS_OK) index_tokens(t);
  return st;
}
