/* source.c: finds fields and returns in a layer file, token by token, without running it. */
#include "check/source.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef enum token_kind { TOKEN_NAME, TOKEN_TEXT, TOKEN_SIGN } token_kind;

typedef struct token {
  size_t from, to;
  token_kind kind;
  int braces, blocks; /* open before it: brackets of any kind; function, if, do, repeat */
} token;

/* ---- tokens ---- */

/* The end of [[...]] or [==[...]] that begins at i; i itself when none does. */
static size_t long_end(const char *s, size_t len, size_t i) {
  size_t j = i + 1, level = 0;
  while (j < len && s[j] == '=') j++, level++;
  if (j >= len || s[i] != '[' || s[j] != '[') return i;
  for (; j < len; j++) {
    if (s[j] != ']') continue;
    size_t k = j + 1, same = 0;
    while (k < len && s[k] == '=') k++, same++;
    if (same == level && k < len && s[k] == ']') return k + 1;
  }
  return len;
}

static size_t skip_space(const char *s, size_t len, size_t i) {
  for (;;) {
    while (i < len && isspace((unsigned char)s[i])) i++;
    if (i + 1 >= len || s[i] != '-' || s[i + 1] != '-') return i;
    size_t end = i + 2 < len ? long_end(s, len, i + 2) : i + 2;
    if (end > i + 2)
      i = end;
    else
      while (i < len && s[i] != '\n') i++;
  }
}

static size_t token_end(const char *s, size_t len, size_t i, token_kind *kind) {
  unsigned char c = (unsigned char)s[i];
  size_t j = i + 1;
  *kind = TOKEN_SIGN;
  if (isalnum(c) || c == '_') {
    while (j < len && (isalnum((unsigned char)s[j]) || s[j] == '_' || (isdigit(c) && s[j] == '.')))
      j++;
    *kind = TOKEN_NAME;
  } else if (c == '"' || c == '\'') {
    while (j < len && s[j] != (char)c && s[j] != '\n') j += s[j] == '\\' ? 2 : 1;
    j = j < len ? j + 1 : len;
    *kind = TOKEN_TEXT;
  } else if (c == '[' && long_end(s, len, i) > i) {
    j = long_end(s, len, i);
    *kind = TOKEN_TEXT;
  } else if (strchr("=~<>.", c)) {
    while (j < len && j < i + 3 && (s[j] == '=' || (c == '.' && s[j] == '.'))) j++;
  }
  return j;
}

static bool is(const source *s, int k, const char *word) {
  if (k < 0 || k >= s->ntokens) return false;
  const token *t = &s->token[k];
  size_t n = strlen(word);
  return t->kind != TOKEN_TEXT && t->to - t->from == n && memcmp(s->text + t->from, word, n) == 0;
}

static void nest(const source *s, int k, int *braces, int *blocks) {
  char c = s->text[s->token[k].from];
  if (s->token[k].kind == TOKEN_SIGN) {
    if (strchr("({[", c)) ++*braces;
    if (strchr(")}]", c)) --*braces;
  }
  if (is(s, k, "function") || is(s, k, "if") || is(s, k, "do") || is(s, k, "repeat")) ++*blocks;
  if (is(s, k, "end") || is(s, k, "until")) --*blocks;
}

static bool add_string(source *s, const token *t) {
  size_t n = t->to - t->from;
  if (s->text[t->from] == '[' || n < 3 || n > 80) return true;
  char *copy = malloc(n - 1);
  const char **more = realloc(s->strings, sizeof *more * (size_t)(s->nstrings + 1));
  if (more) s->strings = more;
  if (!copy || !more) return free(copy), false;
  memcpy(copy, s->text + t->from + 1, n - 2);
  copy[n - 2] = 0;
  s->strings[s->nstrings++] = copy;
  return true;
}

bool source_read(source *s, const char *text, size_t len) {
  int cap = 0, braces = 0, blocks = 0;
  *s = (source){.text = text, .len = len};
  for (size_t i = skip_space(text, len, 0); i < len;) {
    if (s->ntokens == cap) {
      cap = cap ? 2 * cap : 256;
      token *more = realloc(s->token, sizeof *more * (size_t)cap);
      if (!more) return false;
      s->token = more;
    }
    token *t = &s->token[s->ntokens];
    *t = (token){.from = i, .braces = braces, .blocks = blocks};
    t->to = token_end(text, len, i, &t->kind);
    if (t->to > len) t->to = len;
    if (t->kind == TOKEN_TEXT && !add_string(s, t)) return false;
    s->ntokens++;
    nest(s, s->ntokens - 1, &braces, &blocks);
    i = skip_space(text, len, t->to);
  }
  return true;
}

void source_free(source *s) {
  for (int k = 0; k < s->nstrings; k++) free((void *)(uintptr_t)s->strings[k]);
  free(s->strings);
  free(s->token);
  *s = (source){0};
}

/* ---- fields ---- */

/* The value that begins with token k ends before the comma or bracket that follows it. */
static int value_end(const source *s, int k) {
  int braces = s->token[k].braces, blocks = s->token[k].blocks, j = k;
  for (; j < s->ntokens; j++) {
    const token *t = &s->token[j];
    bool here = t->braces == braces && t->blocks == blocks && j > k;
    if (here && (is(s, j, ",") || is(s, j, ";") || is(s, j, "}"))) return j;
  }
  return j;
}

static stretch value_at(const source *s, int k) {
  int end = value_end(s, k);
  return (stretch){s->token[k].from, s->token[end > k ? end - 1 : k].to};
}

int source_field(const source *s, const char *name, stretch *out) {
  int found = 0;
  for (int k = 0; k + 2 < s->ntokens; k++) {
    bool field = s->token[k].braces > 0 && s->token[k].blocks == 0 && is(s, k, name) &&
                 is(s, k + 1, "=") && (is(s, k - 1, "{") || is(s, k - 1, ",") || is(s, k - 1, ";"));
    if (!field) continue;
    found++;
    *out = value_at(s, k + 2);
  }
  return found;
}

static void look_at_return(const source *s, int k, source_return *r) {
  r->returns++;
  r->is_table = is(s, k + 1, "{");
  if (!r->is_table) return;
  int braces = s->token[k + 1].braces, j = k + 2;
  while (j < s->ntokens && !(is(s, j, "}") && s->token[j].braces == braces + 1)) j++;
  if (j == s->ntokens) return;
  r->close = s->token[j].from;
  r->has_comma = is(s, j - 1, ",") || is(s, j - 1, ";") || j == k + 2;
}

source_return source_returns(const source *s, stretch function) {
  source_return r = {0};
  for (int k = 0; k + 2 < s->ntokens; k++) {
    const token *t = &s->token[k];
    if (t->from < function.from || t->to > function.to) continue;
    if (is(s, k, "return")) look_at_return(s, k, &r);
    if (!is(s, k, "save")) continue;
    r.saves++;
    r.is_written =
        is(s, k + 1, "=") && is(s, k + 2, "{") && (is(s, k - 1, ",") || is(s, k - 1, "{"));
    if (!r.is_written) continue;
    r.save_at = t->from;
    r.save = value_at(s, k + 2);
  }
  return r;
}

bool source_entry(const source *s, stretch table, const char *name, stretch *out) {
  for (int k = 1; k + 2 < s->ntokens; k++) {
    const token *t = &s->token[k];
    if (t->from < table.from || t->to > table.to) continue;
    bool first = is(s, k - 1, "{") && s->token[k - 1].from == table.from;
    if (!(first || is(s, k - 1, ",")) || !is(s, k, name) || !is(s, k + 1, "=")) continue;
    stretch v = value_at(s, k + 2);
    *out = (stretch){t->from, v.to};
    return true;
  }
  return false;
}
