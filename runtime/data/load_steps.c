/* load_steps.c: the normalizer, pre_tokenizer and decoder of tokenizer.json, each a step or a
 * Sequence of steps. A kind or a field that is not known is refused by name. */
#include "data/parts.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_DEPTH 8
#define GPT2_WORDS                                                                                 \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

typedef gs_status (*load_one)(const json_t *j, const char *type, const char *where, void *out,
                              gs_error *err);

/* Calls one for j, or for each of its steps when it is a Sequence, however deep. */
static gs_status each(const json_t *j, const char *where, const char *list, int depth, load_one one,
                      void *out, gs_error *err) {
  const char *type;
  size_t n;
  if (j == NULL || json_is_null(j)) return GS_OK;
  if (!json_is_object(j)) return gs_fail(err, GS_ERR_INPUT, "%s: expected an object", where);
  gs_status st = gs_json_text(j, where, "type", &type, &n, err);
  if (st != GS_OK || strcmp(type, "Sequence") != 0)
    return st != GS_OK ? st : one(j, type, where, out, err);
  const json_t *steps = json_object_get(j, list);
  char keys[64];
  snprintf(keys, sizeof keys, "type %s", list);
  st = gs_json_only(j, where, keys, err);
  if (st == GS_OK && (!json_is_array(steps) || depth >= MAX_DEPTH))
    st = gs_fail(err, GS_ERR_INPUT, "%s.%s: expected a list of steps", where, list);
  for (size_t i = 0; st == GS_OK && i < json_array_size(steps); i++) {
    char inner[256];
    snprintf(inner, sizeof inner, "%.200s[%zu]", where, i);
    const json_t *s = json_array_get(steps, i);
    if (!json_is_object(s))
      st = gs_fail(err, GS_ERR_INPUT, "%s: expected an object", inner);
    else
      st = each(s, inner, list, depth + 1, one, out, err);
  }
  return st;
}

gs_status gs_load_pattern(const json_t *o, const char *where, pcre2_code **out, gs_error *err) {
  const json_t *p = json_object_get(o, "pattern"), *s = json_object_get(p, "String");
  const json_t *r = json_object_get(p, "Regex");
  if (json_object_size(p) != 1 || !json_is_string(s != NULL ? s : r))
    return gs_fail(err, GS_ERR_INPUT, "%s.pattern: expected {\"String\": …} or {\"Regex\": …}",
                   where);
  const json_t *text = s != NULL ? s : r;
  if (gs_regex_compile(json_string_value(text), json_string_length(text), s != NULL, out, err) !=
      GS_OK)
    return gs_fail_in(err, "%s.pattern", where);
  return GS_OK;
}

static gs_status unknown(const char *where, const char *type, const char *known, gs_error *err) {
  return gs_fail(err, GS_ERR_INPUT, "%s: \"%.100s\" is not supported (supported: %s)", where, type,
                 known);
}

static gs_status load_norm(const json_t *j, const char *type, const char *where, void *out,
                           gs_error *err) {
  static const struct {
    const char *name;
    int options;
  } forms[] = {{"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
               {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
               {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
               {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
  gs_norms *s = out;
  gs_norm n = {.kind = GS_NORM_FORM};
  const char *text = NULL;
  gs_status st = GS_OK;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (strcmp(type, forms[i].name) == 0) n.form = forms[i].options;
  if (strcmp(type, "Prepend") == 0) {
    n.kind = GS_NORM_PREPEND;
    st = gs_json_only(j, where, "type prepend", err);
    if (st == GS_OK) st = gs_json_text(j, where, "prepend", &text, &n.text_n, err);
  } else if (strcmp(type, "Replace") == 0) {
    n.kind = GS_NORM_REPLACE;
    st = gs_json_only(j, where, "type pattern content", err);
    if (st == GS_OK) st = gs_json_text(j, where, "content", &text, &n.text_n, err);
    if (st == GS_OK) st = gs_load_pattern(j, where, &n.re, err);
  } else if (n.form != 0) {
    st = gs_json_only(j, where, "type", err);
  } else {
    st = unknown(where, type, "NFC NFD NFKC NFKD Prepend Replace Sequence", err);
  }
  if (st != GS_OK) return st;
  if (text != NULL) n.text = gs_tk_strndup(text, n.text_n);
  s->v = gs_tk_grow(s->v, &s->cap, s->n + 1, sizeof *s->v);
  s->v[s->n++] = n;
  return GS_OK;
}

gs_status gs_load_norms(const json_t *j, const char *where, gs_norms *out, gs_error *err) {
  return each(j, where, "normalizers", 0, load_norm, out, err);
}

static gs_status load_split(const json_t *j, const char *where, gs_pre *p, gs_error *err) {
  static const char *names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                "MergedWithNext"};
  const char *b;
  size_t n;
  gs_status st = gs_json_only(j, where, "type pattern behavior invert", err);
  if (st == GS_OK) st = gs_json_text(j, where, "behavior", &b, &n, err);
  if (st == GS_OK) st = gs_json_bool(j, where, "invert", false, &p->invert, err);
  if (st != GS_OK) return st;
  for (int i = 0; i < 5; i++) {
    if (strcmp(b, names[i]) != 0) continue;
    p->behavior = (gs_behavior)i;
    return gs_load_pattern(j, where, &p->re, err);
  }
  return unknown(where, b, "Isolated Removed Contiguous MergedWithPrevious MergedWithNext", err);
}

static gs_status load_bytes(const json_t *j, const char *where, gs_pre *p, gs_error *err) {
  bool prefix, words;
  gs_status st = gs_json_only(j, where, "type add_prefix_space trim_offsets use_regex", err);
  if (st == GS_OK) st = gs_json_bool(j, where, "add_prefix_space", true, &prefix, err);
  if (st == GS_OK) st = gs_json_bool(j, where, "use_regex", true, &words, err);
  if (st != GS_OK) return st;
  p->kind = GS_PRE_BYTES;
  p->prepend = prefix ? GS_PREPEND_ALWAYS : GS_PREPEND_NEVER;
  return words ? gs_regex_compile(GPT2_WORDS, strlen(GPT2_WORDS), false, &p->re, err) : GS_OK;
}

static gs_status load_digits(const json_t *j, const char *where, gs_pre *p, gs_error *err) {
  bool single;
  gs_status st = gs_json_only(j, where, "type individual_digits", err);
  if (st == GS_OK) st = gs_json_bool(j, where, "individual_digits", false, &single, err);
  if (st != GS_OK) return st;
  p->behavior = single ? GS_ISOLATED : GS_CONTIGUOUS;
  return gs_regex_compile("\\p{N}", 5, false, &p->re, err);
}

/* The mark and the prepend scheme that pre-tokenizer and decoder share. */
static gs_status load_metaspace(const json_t *j, const char *where, const char **mark, size_t *n,
                                gs_prepend *prepend, bool *split, gs_error *err) {
  const json_t *scheme = json_object_get(j, "prepend_scheme");
  const char *s = json_is_string(scheme) ? json_string_value(scheme) : "always";
  uint32_t c;
  bool old = true;
  gs_status st =
      gs_json_only(j, where, "type replacement add_prefix_space prepend_scheme split str_rep", err);
  if (st == GS_OK) st = gs_json_text(j, where, "replacement", mark, n, err);
  if (st == GS_OK) st = gs_json_bool(j, where, "split", true, split, err);
  if (st == GS_OK) st = gs_json_bool(j, where, "add_prefix_space", true, &old, err);
  if (st != GS_OK) return st;
  if (*n == 0 || gs_utf8_next(*mark, *n, &c) != (int)*n)
    return gs_fail(err, GS_ERR_INPUT, "%s.replacement: expected one character", where);
  *prepend = strcmp(s, "first") == 0   ? GS_PREPEND_FIRST
             : strcmp(s, "never") == 0 ? GS_PREPEND_NEVER
                                       : GS_PREPEND_ALWAYS;
  if (strcmp(s, "always") != 0 && *prepend == GS_PREPEND_ALWAYS)
    return unknown(where, s, "always first never", err);
  if (!old && scheme != NULL && *prepend != GS_PREPEND_NEVER)
    return gs_fail(err, GS_ERR_INPUT, "%s: add_prefix_space contradicts prepend_scheme", where);
  if (!old) *prepend = GS_PREPEND_NEVER;
  return GS_OK;
}

static gs_status load_pre(const json_t *j, const char *type, const char *where, void *out,
                          gs_error *err) {
  gs_pres *s = out;
  gs_pre p = {.kind = GS_PRE_SPLIT};
  gs_status st;
  if (strcmp(type, "Split") == 0) {
    st = load_split(j, where, &p, err);
  } else if (strcmp(type, "ByteLevel") == 0) {
    st = load_bytes(j, where, &p, err);
  } else if (strcmp(type, "Digits") == 0) {
    st = load_digits(j, where, &p, err);
  } else if (strcmp(type, "Metaspace") == 0) {
    const char *mark;
    size_t n;
    bool split;
    st = load_metaspace(j, where, &mark, &n, &p.prepend, &split, err);
    p.kind = GS_PRE_METASPACE;
    p.behavior = GS_WITH_NEXT;
    if (st == GS_OK) memcpy(p.mark, mark, n), p.mark_n = (int)n;
    if (st == GS_OK && split) st = gs_regex_compile(mark, n, true, &p.re, err);
  } else {
    st = unknown(where, type, "ByteLevel Split Digits Metaspace Sequence", err);
  }
  if (st != GS_OK) {
    pcre2_code_free(p.re);
    return st;
  }
  s->v = gs_tk_grow(s->v, &s->cap, s->n + 1, sizeof *s->v);
  s->v[s->n++] = p;
  return GS_OK;
}

gs_status gs_load_pres(const json_t *j, const char *where, gs_pres *out, gs_error *err) {
  return each(j, where, "pretokenizers", 0, load_pre, out, err);
}

static gs_status load_strip(const json_t *j, const char *where, gs_dec *d, const char **text,
                            gs_error *err) {
  const json_t *a = json_object_get(j, "start"), *b = json_object_get(j, "stop");
  gs_status st = gs_json_only(j, where, "type content start stop", err);
  if (st == GS_OK) st = gs_json_text(j, where, "content", text, &d->text_n, err);
  if (st != GS_OK) return st;
  if (!json_is_integer(a) || !json_is_integer(b) || d->text_n == 0)
    return gs_fail(err, GS_ERR_INPUT, "%s: expected a content and the numbers start and stop",
                   where);
  d->start = (int)json_integer_value(a);
  d->stop = (int)json_integer_value(b);
  return GS_OK;
}

static gs_status load_dec(const json_t *j, const char *type, const char *where, void *out,
                          gs_error *err) {
  gs_decs *s = out;
  gs_dec d = {.kind = GS_DEC_FUSE};
  const char *text = NULL;
  gs_status st = GS_OK;
  if (strcmp(type, "ByteLevel") == 0) {
    d.kind = GS_DEC_BYTES;
    st = gs_json_only(j, where, "type add_prefix_space trim_offsets use_regex", err);
  } else if (strcmp(type, "Replace") == 0) {
    d.kind = GS_DEC_REPLACE;
    st = gs_json_only(j, where, "type pattern content", err);
    if (st == GS_OK) st = gs_json_text(j, where, "content", &text, &d.text_n, err);
    if (st == GS_OK) st = gs_load_pattern(j, where, &d.re, err);
  } else if (strcmp(type, "ByteFallback") == 0) {
    d.kind = GS_DEC_FALLBACK;
  } else if (strcmp(type, "Strip") == 0) {
    d.kind = GS_DEC_STRIP;
    st = load_strip(j, where, &d, &text, err);
  } else if (strcmp(type, "Metaspace") == 0) {
    gs_prepend p;
    bool split;
    d.kind = GS_DEC_METASPACE;
    st = load_metaspace(j, where, &text, &d.text_n, &p, &split, err);
    d.keep_first = st == GS_OK && p == GS_PREPEND_NEVER;
  } else if (strcmp(type, "Fuse") != 0) {
    st = unknown(where, type, "ByteLevel Replace ByteFallback Fuse Strip Metaspace Sequence", err);
  }
  if (st != GS_OK) return st;
  if (text != NULL) d.text = gs_tk_strndup(text, d.text_n);
  s->v = gs_tk_grow(s->v, &s->cap, s->n + 1, sizeof *s->v);
  s->v[s->n++] = d;
  return GS_OK;
}

gs_status gs_load_decs(const json_t *j, const char *where, gs_decs *out, gs_error *err) {
  return each(j, where, "decoders", 0, load_dec, out, err);
}
