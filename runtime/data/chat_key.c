/* chat_key.c: a chat template's key: length and FNV-1a hash of its text, after putting in one form
 * the white space that Jinja itself ignores: inside a tag but outside a string, beside a tag that
 * strips it ({%- … -%}), CR before LF, and one newline at the end. Nothing else is normalised: two
 * texts that could render differently have different keys. */
#include "base/text.h"
#include "data/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool white(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

static void strip_end(gs_text *t) {
  while (t->len > 0 && white(t->s[t->len - 1])) t->len--;
}

/* A string of Jinja, verbatim; returns what follows it. */
static const char *quoted(const char *s, gs_text *out) {
  const char *p = s + 1;
  while (*p != 0 && *p != *s) p += *p == '\\' && p[1] != 0 ? 2 : 1;
  if (*p != 0) p++;
  gs_text_add_n(out, s, (size_t)(p - s));
  return p;
}

/* s is after "{%", "{{" or "{#"; end is "%}" and so on. Returns what follows the tag. */
static const char *tag(const char *s, const char *end, gs_text *out) {
  bool stripped = false;
  if (*s == '-' || *s == '+') gs_text_add_n(out, s++, 1);
  gs_text_add_n(out, " ", 1);
  while (white(*s)) s++;
  while (*s != 0 && strncmp(s, end, 2) != 0) {
    if (end[0] != '#' && (*s == '\'' || *s == '"')) {
      s = quoted(s, out);
    } else if (white(*s)) {
      gs_text_add_n(out, " ", 1);
      while (white(*s)) s++;
    } else {
      stripped = *s == '-' && strncmp(s + 1, end, 2) == 0;
      if (stripped) strip_end(out);
      gs_text_add_n(out, s++, 1);
    }
  }
  if (!stripped) strip_end(out);
  gs_text_add(out, end);
  if (*s != 0) s += 2;
  while (stripped && white(*s)) s++;
  return s;
}

static void normalise(const char *s, gs_text *out) {
  size_t start = 0; /* of the text since the last tag */
  gs_text_add(out, "");
  while (*s != 0) {
    const char *end = s[0] != '{'   ? NULL
                      : s[1] == '%' ? "%}"
                      : s[1] == '{' ? "}}"
                      : s[1] == '#' ? "#}"
                                    : NULL;
    if (end == NULL) {
      if (!(s[0] == '\r' && s[1] == '\n')) gs_text_add_n(out, s, 1);
      s++;
      continue;
    }
    while (s[2] == '-' && out->len > start && white(out->s[out->len - 1])) out->len--;
    gs_text_add_n(out, s, 2);
    s = tag(s + 2, end, out);
    start = out->len;
  }
  if (out->len > start && out->s[out->len - 1] == '\n') out->len--;
}

void gs_chat_key(const char *jinja, char *out) {
  gs_text t = {0};
  uint64_t h = 0xCBF29CE484222325u;
  normalise(jinja, &t);
  for (size_t i = 0; i < t.len; i++) h = (h ^ (unsigned char)t.s[i]) * 0x100000001B3u;
  snprintf(out, 64, "%zu-%016" PRIx64, t.len, h);
  gs_text_free(&t);
}
