/* jsonl.c: a file's lines, one after another, as JSON objects. Blank lines are skipped, and a CR
 * before LF is white space; every fault names file, line and byte of the line. */
#include "data/jsonl.h"

#include "data/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINE (64u << 20)

gs_status gs_jsonl_open(gs_jsonl *r, const char *path, gs_error *err) {
  memset(r, 0, sizeof *r);
  r->path = path;
  r->f = fopen(path, "rb");
  if (r->f == NULL) return gs_fail(err, GS_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
  return GS_OK;
}

void gs_jsonl_close(gs_jsonl *r) {
  if (r->f != NULL) fclose(r->f);
  free(r->buffer);
  memset(r, 0, sizeof *r);
}

/* Reads one line without its end; false at the end of the file. */
static gs_status read_line(gs_jsonl *r, bool *got, gs_error *err) {
  int c;
  r->n = 0;
  while ((c = getc(r->f)) != EOF && c != '\n') {
    if (r->n == MAX_LINE)
      return gs_fail(err, GS_ERR_INPUT,
                     "%s:%d: longer than %u bytes: one sample a line is expected", r->path,
                     r->line + 1, MAX_LINE);
    r->buffer = gs_tk_grow(r->buffer, &r->cap, r->n + 2, 1);
    r->buffer[r->n++] = (char)c;
  }
  if (ferror(r->f)) return gs_fail(err, GS_ERR_IO, "%s: cannot read: %s", r->path, strerror(errno));
  *got = c != EOF || r->n > 0;
  if (*got) r->line++;
  return GS_OK;
}

static bool blank(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r') return false;
  return true;
}

static gs_status parse(const gs_jsonl *r, const char *s, size_t n, json_t **out, gs_error *err) {
  json_error_t e;
  size_t skipped = (size_t)(s - r->buffer), bad = gs_utf8_check(s, n);
  const char *nul = memchr(s, 0, n);
  if (nul != NULL)
    return gs_fail(err, GS_ERR_INPUT, "%s:%d: byte %zu: a NUL byte", r->path, r->line,
                   skipped + (size_t)(nul - s));
  if (bad < n)
    return gs_fail(err, GS_ERR_INPUT, "%s:%d: byte %zu: 0x%02X is not UTF-8", r->path, r->line,
                   skipped + bad, (unsigned char)s[bad]);
  *out = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
  if (*out == NULL)
    return gs_fail(err, GS_ERR_INPUT, "%s:%d: byte %zu: not JSON: %s", r->path, r->line,
                   skipped + (size_t)(e.position > 0 ? e.position : 0), e.text);
  if (json_is_object(*out)) return GS_OK;
  json_decref(*out);
  *out = NULL;
  return gs_fail(err, GS_ERR_INPUT, "%s:%d: expected an object {…}", r->path, r->line);
}

gs_status gs_jsonl_next(gs_jsonl *r, json_t **out, gs_error *err) {
  bool got = true;
  *out = NULL;
  while (true) {
    gs_status st = read_line(r, &got, err);
    if (st != GS_OK || !got) return st;
    char *s = r->buffer;
    size_t n = r->n;
    if (r->line == 1 && n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0) s += 3, n -= 3;
    if (n > 0 && !blank(s, n)) return parse(r, s, n, out, err);
  }
}
