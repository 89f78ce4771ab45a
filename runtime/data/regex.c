/* regex.c: the patterns of tokenizer.json. They are written for Oniguruma (Ruby syntax); PCRE2 runs
 * them. Where the two read the same text differently the pattern is rewritten (\s, \w, scripts),
 * and where that is not possible it is refused by name, never run with another meaning. */
#include "base/text.h"
#include "data/parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}" /* Oniguruma's \w; PCRE2's is another */

typedef struct reader {
  const char *p;
  size_t n, i;
  bool in_class;
  gs_text out;
  const char *why; /* set: the pattern is refused */
} reader;

static char at(const reader *r, size_t k) {
  return r->i + k < r->n ? r->p[r->i + k] : 0;
}

static void copy(reader *r, size_t k) {
  if (k > r->n - r->i) k = r->n - r->i;
  gs_text_add_n(&r->out, r->p + r->i, k);
  r->i += k;
}

/* \p{Name}: PCRE2 takes a bare script name for its extensions, Oniguruma for the script itself. */
static void property(reader *r) {
  static const char *plain[] = {"Any",       "Alphabetic", "Alpha", "White_Space",
                                "Uppercase", "Lowercase",  "Emoji"};
  const char *close = memchr(r->p + r->i, '}', r->n - r->i);
  if (at(r, 2) != '{' || close == NULL) {
    r->why = "\\p without {…}";
    return;
  }
  const char *name = r->p + r->i + 3;
  size_t n = (size_t)(close - name), total = (size_t)(close - (r->p + r->i)) + 1;
  bool negated = n > 0 && name[0] == '^', script = n - negated > 2;
  for (size_t k = 0; k < sizeof plain / sizeof *plain; k++)
    if (strlen(plain[k]) == n - negated && strncmp(plain[k], name + negated, n - negated) == 0)
      script = false;
  for (size_t k = negated; k < n; k++)
    if (!isalpha((unsigned char)name[k]) && name[k] != '_') r->why = "an unknown \\p{…}";
  if (r->why != NULL) return;
  gs_text_printf(&r->out, "\\%c{%s%s%.*s}", at(r, 1), negated ? "^" : "", script ? "sc:" : "",
                 (int)(n - negated), name + negated);
  r->i += total;
}

static void word_escape(reader *r, char c) {
  if (r->in_class && c != 'w') {
    r->why = c == 'W' ? "\\W inside a class" : "\\b inside a class";
    return;
  }
  if (c == 'w') gs_text_add(&r->out, r->in_class ? WORD : "[" WORD "]");
  if (c == 'W') gs_text_add(&r->out, "[^" WORD "]");
  if (c == 'b')
    gs_text_add(&r->out, "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))");
  r->i += 2;
}

static void escape(reader *r) {
  char c = at(r, 1);
  bool four = true;
  for (size_t k = 2; k < 6; k++) four = four && isxdigit((unsigned char)at(r, k));
  if (c == 's' || c == 'S') {
    gs_text_printf(&r->out, "\\%c{White_Space}", c == 's' ? 'p' : 'P');
    r->i += 2;
  } else if (c == 'd' || c == 'D') {
    gs_text_printf(&r->out, "\\%c{Nd}", c == 'd' ? 'p' : 'P');
    r->i += 2;
  } else if (c == 'w' || c == 'W' || c == 'b') {
    word_escape(r, c);
  } else if (c == 'p' || c == 'P') {
    property(r);
  } else if (c == 'u' && four) {
    gs_text_printf(&r->out, "\\x{%.4s}", r->p + r->i + 2);
    r->i += 6;
  } else if (c == 'v') {
    gs_text_add(&r->out, "\\x{0b}");
    r->i += 2;
  } else if (c != 0 && (strchr("rntfae", c) != NULL || (!r->in_class && strchr("AzZ", c) != NULL) ||
                        (unsigned char)c >= 0x80 || ispunct((unsigned char)c) || c == ' ')) {
    copy(r, 2);
  } else if (c == 'x' && (isxdigit((unsigned char)at(r, 2)) || at(r, 2) == '{')) {
    copy(r, 2);
  } else {
    r->why = "an escape that Oniguruma and PCRE2 read differently";
  }
}

/* After '{': n, n,m or n, and what follows the brace. */
static void braces(reader *r) {
  size_t k = 1, comma = 0;
  while (isdigit((unsigned char)at(r, k)) || (at(r, k) == ',' && comma == 0)) {
    if (at(r, k) == ',') comma = k;
    k++;
  }
  if (at(r, k) != '}' || k == 1) {
    copy(r, 1);
    return;
  }
  if (comma == 1) r->why = "{,n}";
  if (at(r, k + 1) == '+') r->why = "+ after {…}";
  if (at(r, k + 1) == '?' && comma == 0) r->why = "? after {n}";
  copy(r, k + 1);
}

static void group(reader *r) {
  static const char *known[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
  if (at(r, 1) == '*') r->why = "(*…)";
  if (at(r, 1) != '?') {
    copy(r, 1);
    return;
  }
  if (r->i == 0 && r->n > 4 && strncmp(r->p, "(?i)", 4) == 0) {
    copy(r, 4);
    return;
  }
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    size_t n = strlen(known[k]);
    if (r->n - r->i < n || strncmp(r->p + r->i, known[k], n) != 0) continue;
    copy(r, n);
    return;
  }
  r->why = "this kind of group (?…";
}

static void step(reader *r) {
  char c = at(r, 0);
  if (c == '\\') {
    escape(r);
  } else if (r->in_class) {
    if (c == '[') r->why = "a class inside a class";
    if (c == '&' && at(r, 1) == '&') r->why = "&& inside a class";
    if (c == ']') r->in_class = false;
    copy(r, 1);
  } else if (c == '[') {
    r->in_class = true;
    copy(r, at(r, 1) == '^' ? 2 : 1);
    if (at(r, 0) == ']') r->why = "] first in a class";
  } else if (c == '{') {
    braces(r);
  } else if (c == '(') {
    group(r);
  } else {
    copy(r, 1);
  }
}

gs_status gs_regex_compile(const char *pattern, size_t n, bool literal, pcre2_code **out,
                           gs_error *err) {
  reader r = {.p = pattern, .n = n};
  gs_status st = GS_OK;
  uint32_t how = PCRE2_UTF;
  int code = 0;
  PCRE2_SIZE where = 0;
  *out = NULL;
  if (n == 0) return gs_fail(err, GS_ERR_INPUT, "an empty pattern is not supported");
  while (!literal && r.why == NULL && r.i < n) step(&r);
  if (r.why != NULL) {
    st = gs_fail(err, GS_ERR_INPUT, "regular expression %.200s: byte %zu: %s is not supported",
                 pattern, r.i, r.why);
    goto done;
  }
  if (literal) gs_text_add_n(&r.out, pattern, n);
  how |= literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE;
  pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
  if (cc != NULL) {
    pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
    *out = pcre2_compile((PCRE2_SPTR)r.out.s, r.out.len, how, &code, &where, cc);
  }
  pcre2_compile_context_free(cc);
  if (*out == NULL) {
    char text[128] = "out of memory";
    if (code != 0) pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
    st = gs_fail(err, GS_ERR_INPUT, "regular expression %.200s: %s", pattern, text);
    goto done;
  }
  pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without JIT matching only takes longer */
done:
  gs_text_free(&r.out);
  return st;
}

gs_status gs_match_init(gs_match *m, gs_error *err) {
  m->data = pcre2_match_data_create(1, NULL);
  m->context = pcre2_match_context_create(NULL);
  m->stack = pcre2_jit_stack_create(32 << 10, 16 << 20, NULL);
  if (m->data == NULL || m->context == NULL) {
    gs_match_free(m);
    return gs_fail(err, GS_ERR_MEMORY, "out of memory for regular expressions");
  }
  if (m->stack != NULL) pcre2_jit_stack_assign(m->context, NULL, m->stack);
  return GS_OK;
}

void gs_match_free(gs_match *m) {
  pcre2_match_data_free(m->data);
  pcre2_match_context_free(m->context);
  pcre2_jit_stack_free(m->stack);
  memset(m, 0, sizeof *m);
}

/* The next match from `from`; 0 none, 1 found, -1 failed with *err. */
static int next_match(const pcre2_code *re, const gs_match *m, const char *s, size_t n, size_t from,
                      gs_cut *found, gs_error *err) {
  int rc = pcre2_match(re, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, m->data, m->context);
  if (rc == PCRE2_ERROR_NOMATCH) return 0;
  if (rc < 0) {
    char text[128] = "";
    pcre2_get_error_message(rc, (PCRE2_UCHAR *)text, sizeof text);
    gs_fail(err, GS_ERR_INPUT, "the tokenizer's regular expression failed at byte %zu: %s", from,
            text);
    return -1;
  }
  const PCRE2_SIZE *o = pcre2_get_ovector_pointer(m->data);
  *found = (gs_cut){o[0], o[1] - o[0], true};
  return 1;
}

gs_status gs_regex_cuts(const pcre2_code *re, const gs_match *m, const char *s, size_t n,
                        gs_cuts *out, gs_error *err) {
  size_t from = 0, last = 0, last_match = SIZE_MAX;
  gs_cut f;
  while (from <= n) {
    int got = next_match(re, m, s, n, from, &f, err);
    if (got < 0) return GS_ERR_INPUT;
    if (got == 0) break;
    if (f.n == 0 && f.at == last_match) { /* an empty match right after a match does not count */
      uint32_t c;
      from += from < n ? (size_t)gs_utf8_next(s + from, n - from, &c) : 1;
      continue;
    }
    if (f.at > last) gs_cuts_add(out, last, f.at - last, false);
    gs_cuts_add(out, f.at, f.n, true);
    from = last = last_match = f.at + f.n;
  }
  if (last < n) gs_cuts_add(out, last, n - last, false);
  return GS_OK;
}
