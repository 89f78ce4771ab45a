/* report.c: mistakes as a compiler tells them:
 *
 *   rmsnorm.lua:14: error: gs.sum: unknown dim 'TT'; did you mean 'T'?
 *      14 |     return { x = g * p.w, w = gs.sum(g * p.x, "TT") }
 *         |                                               ^~~~
 *
 * The mark is found in the line from what the message names: a quoted word, p.NAME, gs.NAME. Where
 * it cannot be told which place of the line is meant, there is none. */
#include "lua/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LINE = 160 };

/* ---- the text of files ---- */

void report_keep_source(gs_author *a, const char *path, const char *data, size_t len) {
  source *s = a->sources;
  while (s && strcmp(s->path, path) != 0) s = s->next;
  if (s && s->len == len && memcmp(s->text, data, len) == 0) return;
  if (!s) {
    s = GS_NEW(a->arena, source);
    *s = (source){.next = a->sources, .path = gs_arena_strdup(a->arena, path)};
    a->sources = s;
  }
  char *text = GS_NEW_N(a->arena, char, len + 1);
  memcpy(text, data, len);
  text[len] = 0;
  s->text = text;
  s->len = len;
}

static const source *source_of(const gs_author *a, const char *path, size_t n) {
  const source *s = a->sources;
  while (s && (strlen(s->path) != n || memcmp(s->path, path, n) != 0)) s = s->next;
  return s;
}

static const char *line_at(const source *s, int line) {
  const char *at = s ? s->text : NULL;
  for (; at && line > 1; line--) {
    at = strchr(at, '\n');
    if (at) at++;
  }
  return at;
}

const char *report_source_line(const gs_author *a, const char *place, size_t *len) {
  const char *colon = strrchr(place, ':');
  if (!colon) return NULL;
  const char *at = line_at(source_of(a, place, (size_t)(colon - place)), atoi(colon + 1));
  if (at) *len = strcspn(at, "\r\n");
  return at;
}

/* ---- finding what a message means in its line ---- */

typedef struct span {
  size_t from, n; /* n 0: not found */
} span;

typedef struct text_line {
  const char *s;
  size_t n;
} text_line;

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

static bool stands_alone(text_line l, size_t at, size_t n) {
  return !(at > 0 && is_word(l.s[at - 1])) && !(at + n < l.n && is_word(l.s[at + n]));
}

/* The one place of the line where word stands between `before` and `after`; not found where it is
 * there twice. */
static span only(text_line l, const char *before, const char *word, size_t n, const char *after) {
  size_t b = strlen(before), e = strlen(after), whole = b + n + e;
  span found = {0};
  for (size_t i = 0; i + whole <= l.n; i++) {
    if (memcmp(l.s + i, before, b) || memcmp(l.s + i + b, word, n)) continue;
    if (memcmp(l.s + i + b + n, after, e) || (!b && !e && !stands_alone(l, i, n))) continue;
    if (b && !e && i + whole < l.n && is_word(l.s[i + whole])) continue;
    if (found.n) return (span){0};
    found = (span){i, whole};
  }
  return found;
}

/* From `at`, an expression's start, to the comma, semicolon or bracket that ends it. */
static size_t expression_end(text_line l, size_t at) {
  int depth = 0;
  char quote = 0;
  size_t i = at;
  for (; i < l.n; i++) {
    char c = l.s[i];
    if (quote) {
      if (c == '\\') i++;
      if (c == quote) quote = 0;
      continue;
    }
    if (c == '"' || c == '\'') quote = c;
    if (c == '-' && i + 1 < l.n && l.s[i + 1] == '-') break;
    if (strchr("([{", c)) depth++;
    if (strchr(")]}", c) && --depth < 0) break;
    if (depth == 0 && strchr(",;", c)) break;
  }
  if (i > l.n) i = l.n;
  while (i > at && l.s[i - 1] == ' ') i--;
  return i;
}

/* Where "name = EXPRESSION" has its expression; `local name` is none. The last of the line. */
static span field(text_line l, const char *name, size_t n) {
  span found = {0};
  for (size_t i = 0; i + n < l.n; i++) {
    if (memcmp(l.s + i, name, n) != 0 || !stands_alone(l, i, n)) continue;
    size_t k = i + n, b = i;
    while (k < l.n && l.s[k] == ' ') k++;
    if (k + 1 >= l.n || l.s[k] != '=' || l.s[k + 1] == '=') continue;
    while (b > 0 && l.s[b - 1] == ' ') b--;
    if ((b >= 5 && memcmp(l.s + b - 5, "local", 5) == 0) || (b > 0 && l.s[b - 1] == '.')) continue;
    for (k++; k < l.n && l.s[k] == ' ';) k++;
    size_t end = expression_end(l, k);
    if (end > k) found = (span){k, end - k};
  }
  return found;
}

static span with_call(text_line l, span s) {
  size_t at = s.from + s.n;
  if (!s.n || at >= l.n || l.s[at] != '(') return s;
  do {
    at = expression_end(l, at + 1);
    while (at < l.n && l.s[at] == ' ') at++;
  } while (at < l.n && l.s[at] == ',');
  if (at < l.n && l.s[at] == ')') s.n = at + 1 - s.from;
  return s;
}

/* "p.W" or "gs.sum": the first word with a dot in the message. */
static span dotted(text_line l, const char *message) {
  for (const char *dot = message; (dot = strchr(dot, '.')); dot++) {
    const char *from = dot, *to = dot + 1;
    while (from > message && is_word(from[-1])) from--;
    while (is_word(*to)) to++;
    if (from == dot || to == dot + 1 || isdigit((unsigned char)*from)) continue;
    span s = only(l, "", from, (size_t)(to - from), "");
    if (s.n) return with_call(l, s);
  }
  return (span){0};
}

static span operation(text_line l, const char *message) {
  const char *of = strstr(message, "side of "), *own = strstr(message, "Lua's ");
  if (!of && !own) return (span){0};
  const char *op = of ? of + 8 : own + 6;
  size_t n = strcspn(op, " ");
  return n && n < 3 && !is_word(*op) ? only(l, " ", op, n, " ") : (span){0};
}

static span quoted(text_line l, const char *message, int kind) {
  for (const char *q = message; (q = strchr(q, '\''));) {
    const char *end = strchr(++q, '\'');
    if (!end) break;
    size_t n = (size_t)(end - q);
    span s = {0};
    if (n && n < 64 && kind == 0) s = only(l, "\"", q, n, "\"");
    if (n && n < 64 && kind == 1) s = field(l, q, n);
    if (n && n < 64 && kind == 2) s = only(l, ".", q, n, "");
    if (n && n < 64 && kind == 3) s = only(l, "", q, n, "");
    if (s.n) return s;
    q = end + 1;
  }
  return (span){0};
}

static span find_mark(text_line l, const char *message) {
  char said[512]; /* without what is only suggested */
  snprintf(said, sizeof said, "%s", message);
  char *rest = strstr(said, "; did you mean");
  if (rest) *rest = 0;
  span s = quoted(l, said, 0);
  if (!s.n) s = quoted(l, said, 1);
  if (!s.n) s = dotted(l, said);
  if (!s.n) s = operation(l, said);
  for (int kind = 2; !s.n && kind < 4; kind++) s = quoted(l, said, kind);
  if (s.n && s.from + s.n <= l.n && l.s[s.from] == ' ') s = (span){s.from + 1, s.n - 2};
  return s;
}

static bool is_printable(text_line l) {
  for (size_t i = 0; i < l.n; i++)
    if ((unsigned char)l.s[i] < ' ' && l.s[i] != '\t') return false;
  return l.n > 0 && l.n <= LONGEST_LINE;
}

static void add_mark(gs_text *out, text_line l, span s) {
  gs_text_add(out, "\n      | ");
  for (size_t i = 0; i < s.from; i++)
    if (((unsigned char)l.s[i] & 0xc0) != 0x80) gs_text_add(out, l.s[i] == '\t' ? "\t" : " ");
  bool first = true;
  for (size_t i = s.from; i < s.from + s.n; i++) {
    if (((unsigned char)l.s[i] & 0xc0) == 0x80) continue; /* inside a letter of UTF-8 */
    gs_text_add(out, first ? "^" : "~");
    first = false;
  }
}

static void add_source(gs_author *a, gs_text *out, const char *place, const char *message) {
  text_line l;
  l.s = report_source_line(a, place, &l.n);
  if (!l.s || !is_printable(l)) return;
  gs_text_printf(out, "\n%5d | %.*s", atoi(strrchr(place, ':') + 1), (int)l.n, l.s);
  span s = find_mark(l, message);
  if (s.n) add_mark(out, l, s);
}

/* ---- recording ---- */

void report_add(gs_author *a, const char *place, const char *message, const char *note) {
  gs_text head = {0};
  gs_text_printf(&head, "%s: error: %s", place, message);
  for (int k = 0; k < a->nerrors && k < MAX_ERRORS; k++) /* a loop says it once */
    if (strncmp(a->errors.s + a->error_at[k], head.s, head.len) == 0) {
      gs_text_free(&head);
      return;
    }
  if (a->nerrors < MAX_ERRORS) {
    if (a->errors.len) gs_text_add(&a->errors, "\n");
    a->error_at[a->nerrors] = a->errors.len;
    gs_text_add(&a->errors, head.s);
    add_source(a, &a->errors, place, message);
    if (note && *note) gs_text_printf(&a->errors, "\n      = %s", note);
  }
  a->nerrors++;
  gs_text_free(&head);
}

void report_note(lua_State *L, const char *place, const char *note, const char *fmt, ...) {
  char here[600], message[1400];
  if (!place) author_place(L, here, sizeof here);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(message, sizeof message, fmt, ap);
  va_end(ap);
  report_add(author_of(L), place ? place : here, message, note);
}

void author_report(lua_State *L, const char *place, const char *fmt, ...) {
  char here[600], message[1400];
  if (!place) author_place(L, here, sizeof here);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(message, sizeof message, fmt, ap);
  va_end(ap);
  report_add(author_of(L), place ? place : here, message, NULL);
}

/* Mistake a of the list stands before b: in the order of lines within a file. */
static bool stands_before(const char *a, const char *b) {
  const char *x = strstr(a, ": error: "), *y = strstr(b, ": error: ");
  while (x > a && x[-1] != ':') x--;
  while (y > b && y[-1] != ':') y--;
  return x - a == y - b && memcmp(a, b, (size_t)(x - a)) == 0 && atoi(x) < atoi(y);
}

gs_status report_fail(gs_author *a, gs_error *err) {
  enum { ROOM = 4000 };
  int known = a->nerrors < MAX_ERRORS ? a->nerrors : MAX_ERRORS, n = 0, order[MAX_ERRORS];
  for (int k = 0; k < known; k++) {
    int at = k;
    while (at > 0 &&
           stands_before(a->errors.s + a->error_at[k], a->errors.s + a->error_at[order[at - 1]]))
      order[at] = order[at - 1], at--;
    order[at] = k;
  }
  gs_text all = {0};
  for (; n < known; n++) { /* whole mistakes */
    size_t from = a->error_at[order[n]];
    size_t to = order[n] + 1 < known ? a->error_at[order[n] + 1] - 1 : a->errors.len;
    if (n && all.len + to - from > ROOM) break;
    if (n) gs_text_add(&all, "\n");
    gs_text_add_n(&all, a->errors.s + from, to - from < ROOM ? to - from : ROOM);
  }
  gs_fail(err, GS_ERR_INPUT, "%s", all.s);
  gs_text_free(&all);
  if (err && a->nerrors > n) {
    size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, "\n(and %d more)", a->nerrors - n);
  }
  return GS_ERR_INPUT;
}

/* ---- places of fields ---- */

/* field(function or place, name): the place of "name = ..." in the text of a function, the last
 * there, or from a place on, the first there; and whether it was found. Else of the function's
 * first line, or the place. */
static int core_field(lua_State *L) {
  gs_author *a = author_of(L);
  const char *name = luaL_checkstring(L, 2);
  bool in_function = lua_isfunction(L, 1);
  const source *s;
  int first, last = 1 << 30, found = 0;
  if (in_function) {
    lua_Debug ar;
    lua_pushvalue(L, 1);
    lua_getinfo(L, ">S", &ar);
    if (ar.source[0] != '@') return lua_pushnil(L), lua_pushboolean(L, 0), 2;
    s = source_of(a, ar.source + 1, strlen(ar.source + 1));
    first = ar.linedefined;
    last = ar.lastlinedefined;
    lua_pushfstring(L, "%s:%d", ar.source + 1, first);
  } else {
    const char *place = luaL_checkstring(L, 1), *colon = strrchr(place, ':');
    s = colon ? source_of(a, place, (size_t)(colon - place)) : NULL;
    first = colon ? atoi(colon + 1) : 1;
    lua_pushvalue(L, 1);
  }
  const char *at = line_at(s, first);
  for (int line = first; at && line <= last; line++) {
    text_line l = {at, strcspn(at, "\r\n")};
    if (field(l, name, strlen(name)).n) found = line;
    if (found && !in_function) break;
    at = strchr(at, '\n');
    if (at) at++;
  }
  if (found) lua_pushfstring(L, "%s:%d", s->path, found);
  lua_pushboolean(L, found > 0);
  return 2;
}

/* text_line(place, text): the line on which a long text starts that is written at the place. */
static int core_text_line(lua_State *L) {
  const char *place = luaL_checkstring(L, 1), *text = luaL_checkstring(L, 2);
  const char *colon = strrchr(place, ':');
  size_t len;
  const char *from = report_source_line(author_of(L), place, &len);
  const char *end = from ? strchr(from, '\n') : NULL;
  size_t n = strcspn(text, "\n");
  bool below = end && strncmp(end + 1, text, n) == 0;
  lua_pushinteger(L, (colon ? atoi(colon + 1) : 1) + below);
  return 1;
}

/* source(function): its file's text, the first and the last line of it; nil for one of ours. */
static int core_source(lua_State *L) {
  lua_Debug ar;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_getinfo(L, ">S", &ar);
  const source *s =
      ar.source[0] == '@' ? source_of(author_of(L), ar.source + 1, strlen(ar.source + 1)) : NULL;
  if (!s) return lua_pushnil(L), 1;
  const char *from = line_at(s, ar.linedefined), *to = line_at(s, ar.lastlinedefined + 1);
  if (!from) return lua_pushnil(L), 1;
  lua_pushlstring(L, from, to ? (size_t)(to - from) : strlen(from));
  lua_pushinteger(L, ar.linedefined);
  lua_pushstring(L, s->path);
  return 3;
}

void report_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"field", core_field}, {"text_line", core_text_line}, {"source", core_source}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
