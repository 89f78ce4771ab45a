/* dataset.c: lines of JSON to samples. Whatever the form of a line, it becomes pieces of text of
 * which some are answers; the whole text is tokenised at once, as the reference would, and a token
 * that covers part of an answer is to be learnt. */
#include "base/text.h"
#include "data/jsonl.h"
#include "data/parts.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
  gs_jsonl in;
  const gs_tokenizer *t;
  gs_chat *chat; /* opened at the first conversation */
  gs_dataset *out;
  size_t cap;
  int max_tokens;
} reader;

static gs_status line_fail(const reader *r, gs_error *err, const char *what) {
  return gs_fail(err, GS_ERR_INPUT, "%s:%d: %s", r->in.path, r->in.line, what);
}

static void piece(gs_segments *s, const char *text, size_t n, bool answer) {
  s->v = gs_tk_grow(s->v, &s->cap, s->n + 1, sizeof *s->v);
  s->v[s->n++] = (gs_segment){gs_tk_strndup(text, n), n, answer};
}

static gs_status string_piece(const reader *r, const json_t *o, const char *key, bool answer,
                              gs_segments *out, gs_error *err) {
  const json_t *v = json_object_get(o, key);
  if (!json_is_string(v))
    return gs_fail(err, GS_ERR_INPUT, "%s:%d: \"%s\": expected a string%s", r->in.path, r->in.line,
                   key, json_is_array(v) ? " (conversations go into \"messages\")" : "");
  if (answer && json_string_length(v) == 0)
    return gs_fail(err, GS_ERR_INPUT, "%s:%d: \"%s\" is empty: nothing to learn", r->in.path,
                   r->in.line, key);
  piece(out, json_string_value(v), json_string_length(v), answer);
  return GS_OK;
}

/* One message; fields that would change the rendering are refused, others are not looked at. */
static gs_status read_message(const reader *r, const json_t *o, size_t i, gs_message *m,
                              gs_error *err) {
  static const char *unsupported[] = {"tool_calls", "function_call", "reasoning_content",
                                      "tool_call_id"};
  const json_t *role = json_object_get(o, "role"), *content = json_object_get(o, "content");
  const char *path = r->in.path;
  if (!json_is_string(role) || !json_is_string(content))
    return gs_fail(err, GS_ERR_INPUT,
                   "%s:%d: messages[%zu]: expected {\"role\": \"…\", \"content\": "
                   "\"…\"}, both strings",
                   path, r->in.line, i);
  for (size_t k = 0; k < sizeof unsupported / sizeof *unsupported; k++) {
    const json_t *v = json_object_get(o, unsupported[k]);
    if (v != NULL && !json_is_null(v))
      return gs_fail(err, GS_ERR_INPUT, "%s:%d: messages[%zu]: \"%s\" is not supported", path,
                     r->in.line, i, unsupported[k]);
  }
  *m = (gs_message){json_string_value(role), json_string_value(content),
                    json_string_length(content)};
  if (strcmp(m->role, "system") != 0 && strcmp(m->role, "user") != 0 &&
      strcmp(m->role, "assistant") != 0)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s:%d: messages[%zu]: role \"%.100s\": expected system, user or "
                   "assistant",
                   path, r->in.line, i, m->role);
  return GS_OK;
}

static gs_status read_messages(reader *r, const json_t *o, gs_segments *out, gs_error *err) {
  const json_t *list = json_object_get(o, "messages");
  size_t n = json_array_size(list), cap = 0;
  bool answers = false;
  if (!json_is_array(list) || n == 0)
    return line_fail(r, err, "\"messages\": expected a list of {role, content}, not empty");
  if (json_object_get(o, "tools") != NULL && json_array_size(json_object_get(o, "tools")) > 0)
    return line_fail(r, err, "\"tools\" are not supported");
  gs_message *m = gs_tk_grow(NULL, &cap, n, sizeof *m);
  gs_status st = GS_OK;
  for (size_t i = 0; i < n && st == GS_OK; i++) {
    st = read_message(r, json_array_get(list, i), i, &m[i], err);
    answers = answers || (st == GS_OK && strcmp(m[i].role, "assistant") == 0);
  }
  if (st == GS_OK && !answers)
    st = line_fail(r, err, "no message of the assistant: nothing to learn");
  if (st == GS_OK && r->chat == NULL) {
    st = gs_chat_open(r->t, &r->chat, err);
    if (st != GS_OK) gs_fail_in(err, "%s:%d", r->in.path, r->in.line);
  }
  if (st == GS_OK && gs_chat_render(r->chat, m, n, false, out, err) != GS_OK)
    st = gs_fail_in(err, "%s:%d", r->in.path, r->in.line);
  free(m);
  return st;
}

/* Which of the three forms a line has: 't', 'p', 'm'; 0 with *err when none or several. */
static char form_of(const reader *r, const json_t *o, gs_error *err) {
  bool text = json_object_get(o, "text") != NULL, messages = json_object_get(o, "messages") != NULL;
  bool prompt = json_object_get(o, "prompt") != NULL;
  bool completion = json_object_get(o, "completion") != NULL;
  gs_text keys = {0};
  const char *key;
  json_t *v;
  if (text + messages + (prompt || completion) == 1 && prompt == completion)
    return text ? 't' : messages ? 'm' : 'p';
  json_object_foreach((json_t *)o, key, v) {
    if (keys.len < 200) gs_text_printf(&keys, "%s\"%.40s\"", keys.len > 0 ? ", " : "", key);
  }
  gs_fail(err, GS_ERR_INPUT,
          "%s:%d: expected either \"text\", or \"prompt\" and \"completion\", or "
          "\"messages\"; found %s",
          r->in.path, r->in.line, keys.len > 0 ? keys.s : "no field");
  gs_text_free(&keys);
  return 0;
}

/* Marks the tokens that cover part of an answer. */
static void mark(const gs_segments *s, const gs_ids *ends, bool *answer) {
  size_t k = 0;
  int64_t from = 0, at = 0; /* piece k begins at from */
  for (size_t i = 0; i < ends->n; i++) {
    int64_t end = ends->id[i];
    answer[i] = false;
    while (k < s->n && from + (int64_t)s->v[k].n <= at) from += (int64_t)s->v[k++].n;
    int64_t f = from;
    for (size_t j = k; j < s->n && f < end; f += (int64_t)s->v[j++].n)
      if (s->v[j].answer && at < f + (int64_t)s->v[j].n && end > f) answer[i] = true;
    if (end > at) at = end;
  }
}

static void add_sample(reader *r, gs_ids *ids, bool *answer) {
  gs_dataset *d = r->out;
  d->sample = gs_tk_grow(d->sample, &r->cap, (size_t)d->n + 1, sizeof *d->sample);
  if (ids->n > (size_t)r->max_tokens) {
    ids->n = (size_t)r->max_tokens;
    d->ntruncated++;
  }
  d->sample[d->n++] = (gs_sample){ids->id, answer, (int32_t)ids->n, r->in.line};
}

static gs_status tokenise(reader *r, const gs_segments *s, char form, gs_error *err) {
  gs_text all = {0};
  gs_ids ids = {0}, ends = {0};
  size_t cap = 0;
  int32_t eos = form == 'm' ? -1 : r->t->eos;
  for (size_t i = 0; i < s->n; i++) gs_text_add_n(&all, s->v[i].text, s->v[i].n);
  gs_status st = gs_tokenizer_encode_ends(r->t, all.len > 0 ? all.s : "", all.len, form != 'm',
                                          &ids, &ends, err);
  if (st != GS_OK) {
    gs_fail_in(err, "%s:%d", r->in.path, r->in.line);
    goto done;
  }
  bool *answer = gs_tk_grow(NULL, &cap, ids.n + 1, sizeof *answer);
  mark(s, &ends, answer);
  for (size_t i = 0; i < ids.n && form == 't'; i++) answer[i] = true;
  if (eos >= 0 && (ids.n == 0 || ids.id[ids.n - 1] != eos)) gs_ids_add(&ids, eos);
  if (eos >= 0) answer[ids.n - 1] = true;
  add_sample(r, &ids, answer);
  ids = (gs_ids){0};
done:
  gs_text_free(&all);
  gs_ids_free(&ids);
  gs_ids_free(&ends);
  return st;
}

static gs_status read_sample(reader *r, const json_t *o, gs_error *err) {
  gs_segments s = {0};
  char form = form_of(r, o, err);
  gs_status st = form == 0 ? GS_ERR_INPUT : GS_OK;
  if (form == 't') st = string_piece(r, o, "text", true, &s, err);
  if (form == 'p') st = string_piece(r, o, "prompt", false, &s, err);
  if (form == 'p' && st == GS_OK) st = string_piece(r, o, "completion", true, &s, err);
  if (form == 'm') st = read_messages(r, o, &s, err);
  if (st == GS_OK) st = tokenise(r, &s, form, err);
  gs_segments_free(&s);
  return st;
}

static bool any_label(const gs_dataset *d) {
  for (int i = 0; i < d->n; i++)
    for (int32_t k = 1; k < d->sample[i].n; k++)
      if (d->sample[i].answer[k]) return true;
  return false;
}

gs_status gs_dataset_read(const char *path, const gs_tokenizer *t, int max_tokens, gs_dataset *out,
                          gs_error *err) {
  reader r = {.t = t, .out = out, .max_tokens = max_tokens};
  json_t *o = NULL;
  *out = (gs_dataset){0};
  if (max_tokens < 2)
    return gs_fail(err, GS_ERR_USE,
                   "samples of at most %d tokens teach nothing: 2 or more are needed", max_tokens);
  gs_status st = gs_jsonl_open(&r.in, path, err);
  if (st != GS_OK) return st;
  while ((st = gs_jsonl_next(&r.in, &o, err)) == GS_OK && o != NULL) {
    st = read_sample(&r, o, err);
    json_decref(o);
    if (st != GS_OK) break;
  }
  if (st == GS_OK && out->n == 0)
    st = gs_fail(err, GS_ERR_INPUT, "%s: no samples: one JSON object a line is expected", path);
  if (st == GS_OK && !any_label(out))
    st = gs_fail(err, GS_ERR_INPUT,
                 "%s: nothing to learn: every answer lies beyond the %d tokens that "
                 "a sample may have",
                 path, max_tokens);
  gs_jsonl_close(&r.in);
  gs_chat_free(r.chat);
  if (st != GS_OK) gs_dataset_free(out);
  return st;
}

void gs_dataset_free(gs_dataset *d) {
  for (int i = 0; i < d->n; i++) {
    free(d->sample[i].id);
    free(d->sample[i].answer);
  }
  free(d->sample);
  memset(d, 0, sizeof *d);
}
