/* expand.c: named holes filled with text. Knows nothing of kernels; same input, same bytes. */
#include "emit/expand.h"

#include "base/asset.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct expansion {
  const char *template_name;
  const gs_hole *holes;
  int nholes;
  bool used[64];
  gs_text *out;
  gs_error *err;
} expansion;

static int find_hole(const expansion *x, const char *name, size_t len) {
  for (int i = 0; i < x->nholes; i++)
    if (strlen(x->holes[i].name) == len && memcmp(x->holes[i].name, name, len) == 0) return i;
  return -1;
}

/* The text of the hole that starts at p; *end is just past it. NULL on a mistake. */
static const char *hole_text(expansion *x, const char *p, const char *limit, int number,
                             const char **end) {
  const char *close = memchr(p, '}', (size_t)(limit - p));
  if (!close) {
    gs_fail(x->err, GS_ERR_INPUT, "%s:%d: error: a hole @{ is not closed on its line",
            x->template_name, number);
    return NULL;
  }
  size_t len = (size_t)(close - p - 2);
  int i = find_hole(x, p + 2, len);
  if (i < 0) {
    gs_fail(x->err, GS_ERR_INPUT, "%s:%d: error: unknown hole @{%.*s}", x->template_name, number,
            (int)len, p + 2);
    return NULL;
  }
  x->used[i] = true;
  *end = close + 1;
  return x->holes[i].text;
}

/* Adds text, each line after the first indented by n blanks (empty lines are not). */
static void add_indented(gs_text *out, const char *text, size_t n) {
  size_t len = strlen(text);
  while (len > 0 && text[len - 1] == '\n') len--;
  for (size_t i = 0; i < len; i++) {
    gs_text_add_n(out, text + i, 1);
    if (text[i] == '\n' && text[i + 1] != '\n')
      for (size_t b = 0; b < n; b++) gs_text_add_n(out, " ", 1);
  }
}

static gs_status expand_line(expansion *x, const char *p, const char *limit, int number) {
  const char *first = p, *end = NULL;
  while (first < limit && *first == ' ') first++;
  size_t indent = (size_t)(first - p);
  if (limit - first > 2 && first[0] == '@' && first[1] == '{') {
    const char *text = hole_text(x, first, limit, number, &end);
    if (!text) return GS_ERR_INPUT;
    if (end == limit && text[strspn(text, "\n")] == '\0') return GS_OK; /* alone and empty */
  }
  while (p < limit) {
    if (limit - p > 2 && p[0] == '@' && p[1] == '{') {
      const char *text = hole_text(x, p, limit, number, &end);
      if (!text) return GS_ERR_INPUT;
      add_indented(x->out, text, indent);
      p = end;
    } else {
      gs_text_add_n(x->out, p++, 1);
    }
  }
  gs_text_add(x->out, "\n");
  return GS_OK;
}

static gs_status expand(expansion *x, const char *text, size_t len) {
  if (x->nholes > 64)
    return gs_fail(x->err, GS_ERR_INPUT, "%s: error: %d bindings; at most 64 are taken",
                   x->template_name, x->nholes);
  const char *p = text, *limit = text + len;
  for (int number = 1; p < limit; number++) {
    const char *end = memchr(p, '\n', (size_t)(limit - p));
    if (!end) end = limit;
    gs_status s = expand_line(x, p, end, number);
    if (s) return s;
    p = end < limit ? end + 1 : limit;
  }
  for (int i = 0; i < x->nholes; i++)
    if (!x->used[i])
      return gs_fail(x->err, GS_ERR_INPUT, "%s: error: the binding '%s' has no hole",
                     x->template_name, x->holes[i].name);
  return GS_OK;
}

gs_status gs_expand(const char *template_name, const char *text, const gs_hole *holes, int nholes,
                    gs_text *out, gs_error *err) {
  expansion x = {
      .template_name = template_name, .holes = holes, .nholes = nholes, .out = out, .err = err};
  return expand(&x, text, strlen(text));
}

/* The line after p's, or the end. */
static const char *next_line(const char *p) {
  const char *e = strchr(p, '\n');
  return e ? e + 1 : p + strlen(p);
}

gs_status gs_piece(const char *file, const char *name, const char **text, size_t *len,
                   gs_error *err) {
  const gs_asset *f = gs_asset_find(file);
  if (!f) return gs_fail(err, GS_ERR_INPUT, "%s: error: there is no such template", file);
  size_t n = strlen(name);
  for (const char *p = f->data; *p; p = next_line(p)) {
    if (strncmp(p, "//@ ", 4) != 0 || strncmp(p + 4, name, n) != 0) continue;
    if (isalnum((unsigned char)p[4 + n]) || p[4 + n] == '_') continue;
    const char *start = next_line(p), *end = start;
    while (*end && strncmp(end, "//@ ", 4) != 0) end = next_line(end);
    *text = start;
    *len = (size_t)(end - start);
    return GS_OK;
  }
  return gs_fail(err, GS_ERR_INPUT, "%s: error: the template has no piece '%s'", file, name);
}
