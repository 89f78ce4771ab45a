/* gguf_tokenizer.c: tokenizer.ggml.* made into tokenizer.json (byte-level BPE) and
 * tokenizer_config.json. The metadata hold the vocabulary and the merges, and only the name of the
 * pre-tokenizer: what the name stands for is the table below. */
#include "model/gguf_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Llama 3's pattern, from its published tokenizer.json. */
#define LLAMA3_PATTERN                                                                             \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"                        \
  " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef struct pre {
  const char *name;    /* tokenizer.ggml.pre */
  bool digits;         /* each digit on its own first */
  const char *pattern; /* instead of GPT-2's own, which ByteLevel has built in */
  bool ignore_merges;  /* a whole word of the vocabulary is one token, whatever the merges say */
  bool bos;            /* add_bos_token when the file does not say */
} pre;

static const pre pres[] = {
    {"gpt-2", false, NULL, false, false},
    {"smollm", true, NULL, false, false},
    {"starcoder", true, NULL, false, false},
    {"llama-bpe", false, LLAMA3_PATTERN, true, true},
};

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED }; /* tokenizer.ggml.token_type */

/* What is gathered before the files are put together. */
typedef struct work {
  const gs_gguf *g;
  gs_error *err;
  const pre *pre;
  json_t *vocab, *merges, *added; /* added: added_tokens, by id */
  char **tokens;                  /* by id, NUL-terminated */
  int64_t *types;
  size_t n;
} work;

static gs_status no_memory(work *w) {
  return gs_fail(w->err, GS_ERR_MEMORY, "%s: out of host memory", w->g->path);
}

static char *copy_string(gs_gguf_string s) {
  char *c = malloc(s.len + 1);
  if (c) {
    memcpy(c, s.s, s.len);
    c[s.len] = 0;
  }
  return c;
}

static bool string_is(const gs_gguf_string *s, const char *text) {
  return s->len == strlen(text) && memcmp(s->s, text, s->len) == 0;
}

static gs_status find_pre(work *w) {
  gs_gguf_string s;
  if (!gs_gguf_str(gs_gguf_find(w->g, "tokenizer.ggml.model"), &s))
    return gs_fail(w->err, GS_ERR_INPUT, "%s: metadata \"tokenizer.ggml.model\" is missing",
                   w->g->path);
  if (!string_is(&s, "gpt2"))
    return gs_fail(w->err, GS_ERR_INPUT,
                   "%s: tokenizer model \"%.*s\"; only gpt2 (byte-level BPE) can be "
                   "imported",
                   w->g->path, (int)(s.len < 64 ? s.len : 64), s.s);
  if (!gs_gguf_str(gs_gguf_find(w->g, "tokenizer.ggml.pre"), &s))
    return gs_fail(w->err, GS_ERR_INPUT,
                   "%s: metadata \"tokenizer.ggml.pre\", which names the "
                   "pre-tokenizer, is missing; a newer conversion of the model has it",
                   w->g->path);
  for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
    if (string_is(&s, pres[i].name)) w->pre = &pres[i];
  if (!w->pre)
    return gs_fail(w->err, GS_ERR_INPUT,
                   "%s: pre-tokenizer \"%.*s\" is not known (gpt-2, smollm, starcoder "
                   "and llama-bpe are)",
                   w->g->path, (int)(s.len < 64 ? s.len : 64), s.s);
  return GS_OK;
}

static gs_status read_types(work *w) {
  const gs_gguf_value *v = gs_gguf_find(w->g, "tokenizer.ggml.token_type");
  gs_gguf_cursor c = {0};
  for (size_t i = 0; i < w->n; i++) w->types[i] = NORMAL;
  if (!v) return GS_OK;
  if (v->count != w->n)
    return gs_fail(w->err, GS_ERR_INPUT, "%s: metadata \"%s\" has %llu values for %zu tokens",
                   w->g->path, v->key, (unsigned long long)v->count, w->n);
  for (size_t i = 0; i < w->n; i++) {
    if (!gs_gguf_next_int(v, &c, &w->types[i]))
      return gs_fail(w->err, GS_ERR_INPUT, "%s: metadata \"%s\" is not a list of integers",
                     w->g->path, v->key);
    if (w->types[i] < NORMAL || w->types[i] > UNUSED)
      return gs_fail(w->err, GS_ERR_INPUT,
                     "%s: token %zu has type %lld, which a byte-level BPE cannot have", w->g->path,
                     i, (long long)w->types[i]);
  }
  return GS_OK;
}

/* One token into the vocabulary. */
static gs_status add_token(work *w, size_t id, gs_gguf_string s) {
  char *t = w->tokens[id] = copy_string(s);
  if (!t) return no_memory(w);
  if (memchr(t, 0, s.len) || s.len == 0)
    return gs_fail(w->err, GS_ERR_INPUT, "%s: token %zu is empty or holds a zero byte", w->g->path,
                   id);
  if (w->types[id] == UNUSED) return GS_OK;
  if (json_object_get(w->vocab, t))
    return gs_fail(w->err, GS_ERR_INPUT, "%s: token %zu, \"%s\", is there twice", w->g->path, id,
                   t);
  if (json_object_set_new(w->vocab, t, json_integer((json_int_t)id)) != 0)
    return gs_fail(w->err, GS_ERR_INPUT, "%s: token %zu is not UTF-8", w->g->path, id);
  return GS_OK;
}

static gs_status read_tokens(work *w, int64_t vocab) {
  const gs_gguf_value *v = gs_gguf_find(w->g, "tokenizer.ggml.tokens");
  gs_gguf_cursor c = {0};
  gs_gguf_string s;
  if (!v || !v->is_array || v->kind != GS_GGUF_STRING || v->count == 0)
    return gs_fail(w->err, GS_ERR_INPUT,
                   "%s: metadata \"tokenizer.ggml.tokens\" is missing or no list of "
                   "strings",
                   w->g->path);
  if (v->count > (uint64_t)vocab)
    return gs_fail(w->err, GS_ERR_INPUT, "%s: %llu tokens, but the embedding has %lld rows",
                   w->g->path, (unsigned long long)v->count, (long long)vocab);
  w->n = (size_t)v->count;
  w->tokens = calloc(w->n, sizeof *w->tokens);
  w->types = calloc(w->n, sizeof *w->types);
  w->vocab = json_object();
  if (!w->tokens || !w->types || !w->vocab) return no_memory(w);
  gs_status st = read_types(w);
  for (size_t id = 0; st == GS_OK && gs_gguf_next_str(v, &c, &s); id++) st = add_token(w, id, s);
  return st;
}

/* "left right": both, and what they make, must be tokens. */
static gs_status add_merge(work *w, uint64_t i, gs_gguf_string s) {
  char *t = copy_string(s), *gap;
  if (!t) return no_memory(w);
  gs_status st = GS_OK;
  gap = strchr(t, ' ');
  bool ok = strlen(t) == s.len && gap && gap != t && gap[1] && !strchr(gap + 1, ' ');
  if (ok) {
    *gap = 0;
    ok = json_object_get(w->vocab, t) && json_object_get(w->vocab, gap + 1);
    *gap = ' ';
    if (json_array_append_new(w->merges, json_string(t)) != 0) ok = false;
    memmove(gap, gap + 1, strlen(gap));
    ok = ok && json_object_get(w->vocab, t);
  }
  if (!ok)
    st = gs_fail(w->err, GS_ERR_INPUT,
                 "%s: merge %llu, \"%.*s\", is not two tokens that make a third", w->g->path,
                 (unsigned long long)i, (int)(s.len < 64 ? s.len : 64), s.s);
  free(t);
  return st;
}

static gs_status read_merges(work *w) {
  const gs_gguf_value *v = gs_gguf_find(w->g, "tokenizer.ggml.merges");
  gs_gguf_cursor c = {0};
  gs_gguf_string s;
  gs_status st = GS_OK;
  w->merges = json_array();
  if (!w->merges) return no_memory(w);
  if (!v || !v->is_array || v->kind != GS_GGUF_STRING)
    return gs_fail(w->err, GS_ERR_INPUT,
                   "%s: metadata \"tokenizer.ggml.merges\" is missing or no list of "
                   "strings",
                   w->g->path);
  for (uint64_t i = 0; st == GS_OK && gs_gguf_next_str(v, &c, &s); i++) st = add_merge(w, i, s);
  return st;
}

static gs_status read_id(work *w, const char *key, int64_t *id) {
  char full[96];
  snprintf(full, sizeof full, "tokenizer.ggml.%s_token_id", key);
  const gs_gguf_value *v = gs_gguf_find(w->g, full);
  *id = -1;
  if (!v) return GS_OK;
  if (!gs_gguf_int(v, id) || *id < 0 || (size_t)*id >= w->n)
    return gs_fail(w->err, GS_ERR_INPUT, "%s: metadata \"%s\" is not the id of a token", w->g->path,
                   full);
  if (w->types[*id] == UNUSED)
    return gs_fail(w->err, GS_ERR_INPUT, "%s: metadata \"%s\": token %lld is marked unused",
                   w->g->path, full, (long long)*id);
  if (w->types[*id] == NORMAL) w->types[*id] = CONTROL; /* special by its office */
  return GS_OK;
}

static gs_status list_added(work *w) {
  w->added = json_array();
  if (!w->added) return no_memory(w);
  for (size_t i = 0; i < w->n; i++) {
    if (w->types[i] == NORMAL || w->types[i] == UNUSED) continue;
    json_t *t = json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)i, "content",
                          w->tokens[i], "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0,
                          "special", w->types[i] != USER_DEFINED);
    if (json_array_append_new(w->added, t) != 0) return no_memory(w);
  }
  return GS_OK;
}

/* ---- the files ---- */

static json_t *byte_level(bool use_regex) {
  return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                   "trim_offsets", 1, "use_regex", use_regex);
}

static json_t *pre_tokenizer(const pre *p) {
  json_t *bytes = byte_level(!p->pattern);
  if (!p->digits && !p->pattern) return bytes;
  json_t *first = p->digits ? json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1)
                            : json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern",
                                        "Regex", p->pattern, "behavior", "Isolated", "invert", 0);
  return json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers", first, bytes);
}

static json_t *special_piece(const char *token) {
  return json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", token, "type_id", 0);
}

static json_t *sequence_piece(const char *id, int type) {
  return json_pack("{s:{s:s, s:i}}", "Sequence", "id", id, "type_id", type);
}

static json_t *template_of(const char *bos, const char *eos, bool pair) {
  json_t *a = json_array();
  for (int i = 0; i < (pair ? 2 : 1); i++) {
    if (bos) json_array_append_new(a, special_piece(bos));
    json_array_append_new(a, sequence_piece(i ? "B" : "A", i));
    if (eos) json_array_append_new(a, special_piece(eos));
  }
  return a;
}

/* What is put around a text; null when nothing is. */
static json_t *post_processor(const work *w, int64_t bos, int64_t eos) {
  json_t *special = json_object();
  int64_t ids[2] = {bos, eos};
  for (int i = 0; i < 2; i++) {
    if (ids[i] < 0) continue;
    const char *t = w->tokens[ids[i]];
    json_object_set_new(
        special, t,
        json_pack("{s:s, s:[I], s:[s]}", "id", t, "ids", (json_int_t)ids[i], "tokens", t));
  }
  if (json_object_size(special) == 0) {
    json_decref(special);
    return json_null();
  }
  const char *b = bos < 0 ? NULL : w->tokens[bos], *e = eos < 0 ? NULL : w->tokens[eos];
  return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single",
                   template_of(b, e, false), "pair", template_of(b, e, true), "special_tokens",
                   special);
}

/* A yes or no of the metadata, or the default. */
static bool flag(const gs_gguf *g, const char *key, bool otherwise) {
  int64_t v;
  return gs_gguf_int(gs_gguf_find(g, key), &v) ? v != 0 : otherwise;
}

static json_t *tokenizer_file(const work *w, bool bos, bool eos, const gs_gguf_tokens *t) {
  json_t *model = json_pack(
      "{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:O, s:O}", "type", "BPE", "dropout", "unk_token",
      "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
      "ignore_merges", w->pre->ignore_merges, "vocab", w->vocab, "merges", w->merges);
  return json_pack("{s:s, s:n, s:n, s:O, s:n, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation",
                   "padding", "added_tokens", w->added, "normalizer", "pre_tokenizer",
                   pre_tokenizer(w->pre), "post_processor",
                   post_processor(w, bos ? t->bos : -1, eos ? t->eos : -1), "decoder",
                   byte_level(true), "model", model);
}

static json_t *added_by_id(const work *w) {
  json_t *all = json_object(), *t;
  size_t i;
  char id[32];
  json_array_foreach(w->added, i, t) {
    json_t *c = json_copy(t);
    snprintf(id, sizeof id, "%lld", (long long)json_integer_value(json_object_get(t, "id")));
    json_object_del(c, "id");
    json_object_set_new(all, id, c);
  }
  return all;
}

static json_t *config_file(const work *w, bool bos, bool eos, int64_t context,
                           const gs_gguf_tokens *t) {
  const struct {
    const char *key;
    int64_t id;
  } named[] = {
      {"bos_token", t->bos}, {"eos_token", t->eos}, {"pad_token", t->pad}, {"unk_token", t->unk}};
  gs_gguf_string s;
  json_t *c = json_pack("{s:b, s:b, s:b, s:o, s:b, s:I, s:s}", "add_bos_token", bos,
                        "add_eos_token", eos, "add_prefix_space", 0, "added_tokens_decoder",
                        added_by_id(w), "clean_up_tokenization_spaces", 0, "model_max_length",
                        (json_int_t)context, "tokenizer_class", "PreTrainedTokenizerFast");
  for (int i = 0; i < 4; i++)
    if (named[i].id >= 0) json_object_set_new(c, named[i].key, json_string(w->tokens[named[i].id]));
  if (gs_gguf_str(gs_gguf_find(w->g, "tokenizer.chat_template"), &s))
    json_object_set_new(c, "chat_template", json_stringn(s.s, s.len));
  return c;
}

static gs_status check_chat_template(work *w) {
  gs_gguf_string s;
  if (!gs_gguf_str(gs_gguf_find(w->g, "tokenizer.chat_template"), &s)) return GS_OK;
  json_t *v = json_stringn(s.s, s.len);
  json_decref(v);
  if (v) return GS_OK;
  return gs_fail(w->err, GS_ERR_INPUT, "%s: metadata \"tokenizer.chat_template\" is not UTF-8",
                 w->g->path);
}

static gs_status make_files(work *w, int64_t context, gs_gguf_tokens *out) {
  bool bos = flag(w->g, "tokenizer.ggml.add_bos_token", w->pre->bos) && out->bos >= 0;
  bool eos = flag(w->g, "tokenizer.ggml.add_eos_token", false) && out->eos >= 0;
  if (flag(w->g, "tokenizer.ggml.add_space_prefix", false))
    return gs_fail(w->err, GS_ERR_INPUT,
                   "%s: metadata \"tokenizer.ggml.add_space_prefix\" is true, which is "
                   "not supported for a byte-level BPE",
                   w->g->path);
  out->tokenizer = tokenizer_file(w, bos, eos, out);
  out->config = config_file(w, bos, eos, context, out);
  return out->tokenizer && out->config ? GS_OK : no_memory(w);
}

static void work_free(work *w) {
  for (size_t i = 0; w->tokens && i < w->n; i++) free(w->tokens[i]);
  free(w->tokens);
  free(w->types);
  json_decref(w->vocab);
  json_decref(w->merges);
  json_decref(w->added);
}

gs_status gs_gguf_tokens_read(const gs_gguf *g, int64_t vocab, int64_t context, gs_gguf_tokens *out,
                              gs_error *err) {
  work w = {.g = g, .err = err};
  *out = (gs_gguf_tokens){0};
  gs_status st = find_pre(&w);
  if (st == GS_OK) st = read_tokens(&w, vocab);
  if (st == GS_OK) st = read_merges(&w);
  if (st == GS_OK) st = read_id(&w, "bos", &out->bos);
  if (st == GS_OK) st = read_id(&w, "eos", &out->eos);
  if (st == GS_OK) st = read_id(&w, "padding", &out->pad);
  if (st == GS_OK) st = read_id(&w, "unknown", &out->unk);
  if (st == GS_OK) st = check_chat_template(&w);
  if (st == GS_OK) st = list_added(&w);
  if (st == GS_OK) st = make_files(&w, context, out);
  work_free(&w);
  if (st != GS_OK) gs_gguf_tokens_free(out);
  return st;
}

void gs_gguf_tokens_free(gs_gguf_tokens *t) {
  json_decref(t->tokenizer);
  json_decref(t->config);
  t->tokenizer = t->config = NULL;
}
