/* size.c: sizes of dims as whole-number expressions over other dims: "D/2", "2*(K+1)".
 *
 * A division that leaves a rest is an error, not a rounding. */
#include "lua/internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
  const char *text, *at;
  const gs_layer *l;
  const int64_t *sizes;
  gs_error *err;
  bool failed;
  int depth;
} reader;

static int64_t sum(reader *r);

static int64_t fail(reader *r, const char *what) {
  if (!r->failed) gs_fail(r->err, GS_ERR_USE, "the size \"%s\" %s", r->text, what);
  r->failed = true;
  return 0;
}

static int next_char(reader *r) {
  while (*r->at == ' ') r->at++;
  return (unsigned char)*r->at;
}

static int64_t name_value(reader *r) {
  const char *start = r->at;
  while (isalnum((unsigned char)*r->at) || *r->at == '_') r->at++;
  size_t n = (size_t)(r->at - start);
  const gs_layer_decl *d = &r->l->decl;
  for (int k = 0; k < d->ndims; k++) {
    if (strlen(d->dims[k]) != n || memcmp(d->dims[k], start, n) != 0) continue;
    if (d->dim_outer[k]) return fail(r, "depends on an outer dim, whose size varies");
    if (r->sizes[k] < 1) return fail(r, "depends on a dim of unknown size");
    return r->sizes[k];
  }
  return fail(r, "names an unknown dim");
}

static int64_t primary(reader *r) {
  int c = next_char(r);
  if (isdigit(c)) {
    char *end;
    int64_t v = strtoll(r->at, &end, 10);
    r->at = end;
    return v;
  }
  if (isalpha(c) || c == '_') return name_value(r);
  if (c != '(' || r->depth > 50)
    return fail(r, "is not an expression of dims, numbers and + - * / ( )");
  r->at++;
  r->depth++;
  int64_t v = sum(r);
  r->depth--;
  if (next_char(r) != ')') return fail(r, "lacks a closing parenthesis");
  r->at++;
  return v;
}

static int64_t product(reader *r) {
  int64_t v = primary(r);
  for (int c; !r->failed && ((c = next_char(r)) == '*' || c == '/');) {
    r->at++;
    int64_t w = primary(r);
    if (r->failed) return 0;
    if (c == '/' && (w == 0 || v % w != 0)) return fail(r, "is not a whole number");
    if (c == '*' && w != 0 && llabs(v) > INT64_MAX / llabs(w)) return fail(r, "is too large");
    v = c == '/' ? v / w : v * w;
  }
  return v;
}

static int64_t sum(reader *r) {
  int64_t v = product(r);
  for (int c; !r->failed && ((c = next_char(r)) == '+' || c == '-');) {
    r->at++;
    int64_t w = product(r);
    if (llabs(v) > INT64_MAX / 4 || llabs(w) > INT64_MAX / 4) return fail(r, "is too large");
    v = c == '+' ? v + w : v - w;
  }
  return v;
}

gs_status size_value(const char *text, const gs_layer *l, const int64_t *sizes, int64_t *out,
                     gs_error *err) {
  reader r = {.text = text, .at = text, .l = l, .sizes = sizes, .err = err};
  *out = sum(&r);
  if (!r.failed && next_char(&r) != 0) fail(&r, "has something after its end");
  if (!r.failed && *out < 1) fail(&r, "is not positive");
  return r.failed ? GS_ERR_USE : GS_OK;
}

gs_status gs_layer_sizes(const gs_layer *l, int64_t *sizes, gs_error *err) {
  const gs_layer_decl *d = &l->decl;
  for (int k = 0; k < d->ndims; k++) {
    if (d->dim_outer[k]) continue;
    if (d->dim_size[k] && size_value(d->dim_size[k], l, sizes, &sizes[k], err))
      return gs_fail_in(err, "%s: dim %s", d->name, d->dims[k]);
    if (sizes[k] < 1)
      return gs_fail(err, GS_ERR_USE, "%s: dim %s needs a size of 1 or more, not %" PRId64, d->name,
                     d->dims[k], sizes[k]);
  }
  return GS_OK;
}
