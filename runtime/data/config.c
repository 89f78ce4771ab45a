/* config.c: what the files beside tokenizer.json say: bos, eos, the chat template. In order of
 * trust: tokenizer_config.json (chat_template.jinja before its chat_template),
 * special_tokens_map.json, config.json. Tokens that tokenizer_config.json adds to those of
 * tokenizer.json are refused: their place in the vocabulary would be a guess. */
#include "base/file.h"
#include "base/text.h"
#include "data/parts.h"

#include <stdlib.h>
#include <string.h>

/* A token given as "text" or {"content": "text"}; NULL when it is neither. */
static const char *token_text(const json_t *v) {
  if (json_is_object(v)) v = json_object_get(v, "content");
  return json_string_value(v);
}

static gs_status set_token(const gs_tokenizer *t, const json_t *v, const char *path,
                           const char *key, char **text, int32_t *id, gs_error *err) {
  const char *s = token_text(v);
  if (v == NULL || json_is_null(v) || *text != NULL) return GS_OK;
  if (s == NULL) return gs_fail(err, GS_ERR_INPUT, "%s: %s: expected a token's text", path, key);
  *id = gs_tokenizer_id(t, s);
  if (*id < 0)
    return gs_fail(err, GS_ERR_INPUT, "%s: %s: \"%.100s\" is not in tokenizer.json", path, key, s);
  *text = gs_tk_strndup(s, strlen(s));
  return GS_OK;
}

static gs_status check_added(const gs_tokenizer *t, const json_t *c, const char *path,
                             gs_error *err) {
  const char *key;
  json_t *v;
  json_object_foreach(json_object_get(c, "added_tokens_decoder"), key, v) {
    const char *s = token_text(v);
    if (s != NULL && s[0] != 0 && gs_tokenizer_id(t, s) != (int32_t)strtol(key, NULL, 10))
      return gs_fail(err, GS_ERR_INPUT,
                     "%s: added_tokens_decoder: token \"%.100s\" with id %.20s is not so in "
                     "tokenizer.json; save the tokenizer again so that the two agree",
                     path, s, key);
  }
  return GS_OK;
}

/* chat_template: a text, or [{"name": …, "template": …}], of which "default" is taken. */
static void chat_template(gs_tokenizer *t, const json_t *v) {
  const json_t *item;
  size_t i;
  if (json_is_array(v)) {
    const json_t *found = NULL;
    json_array_foreach((json_t *)v, i, item) {
      const char *name = json_string_value(json_object_get(item, "name"));
      if (name != NULL && strcmp(name, "default") == 0) found = json_object_get(item, "template");
    }
    v = found;
  }
  if (json_is_string(v) && t->chat == NULL)
    t->chat = gs_tk_strndup(json_string_value(v), json_string_length(v));
}

static int flag(const json_t *c, const char *key) {
  const json_t *v = json_object_get(c, key);
  return json_is_boolean(v) ? json_is_true(v) : -1;
}

static gs_status tokens_of(gs_tokenizer *t, const json_t *c, const char *path, gs_error *err) {
  gs_status st =
      set_token(t, json_object_get(c, "bos_token"), path, "bos_token", &t->bos_text, &t->bos, err);
  if (st != GS_OK) return st;
  return set_token(t, json_object_get(c, "eos_token"), path, "eos_token", &t->eos_text, &t->eos,
                   err);
}

/* DIR/name's JSON; *out NULL when there is no such file. */
static gs_status optional(const char *dir, const char *name, gs_text *path, json_t **out,
                          gs_error *err) {
  *out = NULL;
  path->len = 0;
  gs_text_printf(path, "%s/%s", dir, name);
  return gs_path_exists(path->s) ? gs_json_file(path->s, out, err) : GS_OK;
}

static void eos_of_model(gs_tokenizer *t, const json_t *c) {
  const json_t *v = json_object_get(c, "eos_token_id");
  if (json_is_array(v)) v = json_array_get(v, 0);
  json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
  if (t->eos >= 0 || id < 0 || id >= t->size || t->token[id].s == NULL) return;
  t->eos = (int32_t)id;
  t->eos_text = gs_tk_strndup(t->token[id].s, t->token[id].n);
}

static gs_status load_jinja(gs_tokenizer *t, const char *dir, gs_text *path, gs_error *err) {
  size_t n;
  path->len = 0;
  gs_text_printf(path, "%s/chat_template.jinja", dir);
  return gs_path_exists(path->s) ? gs_file_read(path->s, &t->chat, &n, err) : GS_OK;
}

gs_status gs_load_config(gs_tokenizer *t, const char *dir, gs_error *err) {
  gs_text path = {0};
  json_t *c = NULL;
  gs_status st = load_jinja(t, dir, &path, err);
  t->add_bos = t->add_eos = -1;
  if (st == GS_OK) st = optional(dir, "tokenizer_config.json", &path, &c, err);
  if (st == GS_OK) st = check_added(t, c, path.s, err);
  if (st == GS_OK) st = tokens_of(t, c, path.s, err);
  if (st == GS_OK) {
    t->add_bos = flag(c, "add_bos_token");
    t->add_eos = flag(c, "add_eos_token");
    chat_template(t, json_object_get(c, "chat_template"));
  }
  json_decref(c);
  c = NULL;
  if (st == GS_OK) st = optional(dir, "special_tokens_map.json", &path, &c, err);
  if (st == GS_OK) st = tokens_of(t, c, path.s, err);
  json_decref(c);
  c = NULL;
  if (st == GS_OK && t->eos < 0) st = optional(dir, "config.json", &path, &c, err);
  if (st == GS_OK) eos_of_model(t, c);
  json_decref(c);
  gs_text_free(&path);
  return st;
}
