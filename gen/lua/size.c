/* size.c: sizes of dims as whole-number expressions over other dims: "D/2", "2*(K+1)",
 * "ceil(D/64)".
 *
 * A division that leaves a rest is an error, not a rounding; ceil(a/b) rounds up. */
#include "lua/internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
  const char *text, *at;
  const gs_layer *l;
  const gs_choice *choice; /* for options, or NULL */
  const int64_t *sizes;
  gs_error *err;
  bool failed;
  int depth;
} reader;

static int64_t sum(reader *r);
static int64_t primary(reader *r);

static int64_t fail(reader *r, const char *what) {
  if (!r->failed) gs_fail(r->err, GS_ERR_USE, "the size \"%s\" %s", r->text, what);
  r->failed = true;
  return 0;
}

static int next_char(reader *r) {
  while (*r->at == ' ') r->at++;
  return (unsigned char)*r->at;
}

/* An option of the layer, as chosen: it must be whole. */
static int64_t option_size(reader *r, int option) {
  double v = option_value(&r->l->decl, r->choice, option);
  if (!(v >= 1 && v < 1e15 && floor(v) == v))
    return fail(r, "depends on an option whose value is not a whole number from 1");
  return (int64_t)v;
}

/* Of a dim that is derived itself, wherever it stands in the list. */
static int64_t derived_value(reader *r, int dim) {
  const char *text = r->text, *at = r->at;
  if (r->depth > 50) return fail(r, "depends on itself");
  r->depth++;
  r->text = r->at = r->l->decl.dim_size[dim];
  int64_t v = sum(r);
  r->depth--;
  r->text = text;
  r->at = at;
  return v;
}

static int64_t name_value(reader *r) {
  const char *start = r->at;
  while (isalnum((unsigned char)*r->at) || *r->at == '_') r->at++;
  size_t n = (size_t)(r->at - start);
  const gs_layer_decl *d = &r->l->decl;
  for (int k = 0; k < d->ndims; k++) {
    if (strlen(d->dims[k]) != n || memcmp(d->dims[k], start, n) != 0) continue;
    if (d->dim_outer[k]) return fail(r, "depends on an outer dim, whose size varies");
    if (d->dim_size[k]) return derived_value(r, k);
    if (r->sizes[k] < 1) return fail(r, "depends on a dim of unknown size");
    return r->sizes[k];
  }
  for (int k = 0; k < d->noptions; k++)
    if (strlen(d->options[k]) == n && memcmp(d->options[k], start, n) == 0)
      return option_size(r, k);
  return fail(r, "names neither a dim nor an option");
}

/* "ceil(a/b)": the reader stands at "ceil". */
static int64_t rounded_up(reader *r) {
  r->at += 4;
  if (next_char(r) != '(' || r->depth > 50) return fail(r, "lacks a parenthesis after ceil");
  r->at++;
  r->depth++;
  int64_t v = primary(r);
  if (next_char(r) != '/') return fail(r, "wants one division in ceil, as ceil(D/64)");
  r->at++;
  int64_t w = primary(r);
  r->depth--;
  if (next_char(r) != ')') return fail(r, "lacks a closing parenthesis");
  r->at++;
  if (r->failed) return 0;
  if (v < 1 || w < 1) return fail(r, "divides by, or what is, less than 1");
  return (v - 1) / w + 1;
}

static bool is_word(const reader *r, const char *word) {
  size_t n = strlen(word);
  unsigned char after = (unsigned char)r->at[strncmp(r->at, word, n) == 0 ? n : 0];
  return strncmp(r->at, word, n) == 0 && !isalnum(after) && after != '_';
}

static int64_t primary(reader *r) {
  int c = next_char(r);
  if (is_word(r, "ceil")) return rounded_up(r);
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

/* The value of an inner dim's expression. */
gs_status size_inner(const gs_layer *l, int dim, const gs_choice *c, const int64_t *sizes,
                     int64_t *out, gs_error *err) {
  const char *text = l->decl.dim_size[dim];
  reader r = {.text = text, .at = text, .l = l, .choice = c, .sizes = sizes, .err = err};
  *out = sum(&r);
  if (!r.failed && next_char(&r) != 0) fail(&r, "has something after its end");
  if (!r.failed && *out < 1) fail(&r, "is not positive");
  return r.failed ? GS_ERR_USE : GS_OK;
}

gs_status size_blocks(const gs_layer *l, int dim, const gs_choice *c, const int64_t *sizes,
                      int *like, int64_t *div, gs_error *err) {
  const gs_layer_decl *d = &l->decl;
  reader r = {.text = d->dim_size[dim],
              .at = d->dim_size[dim],
              .l = l,
              .choice = c,
              .sizes = sizes,
              .err = err};
  bool up = next_char(&r) && is_word(&r, "ceil");
  *div = 1;
  if (up) r.at += 4 + strspn(r.at + 4, " ") + 1; /* to after the parenthesis */
  next_char(&r);
  for (*like = 0; *like < d->ndims; ++*like)
    if (is_word(&r, d->dims[*like])) break;
  if (*like == d->ndims || !d->dim_outer[*like]) fail(&r, "names no outer dim");
  if (!r.failed && up) {
    r.at += strlen(d->dims[*like]);
    if (next_char(&r) != '/') fail(&r, "wants one division in ceil, as ceil(N/64)");
    r.at++;
    if (!r.failed) *div = primary(&r);
    if (next_char(&r) != ')') fail(&r, "lacks a closing parenthesis");
    if (*div < 1) fail(&r, "divides by less than 1");
  }
  return r.failed ? GS_ERR_USE : GS_OK;
}

static gs_status outer_size(const gs_layer *l, int dim, const gs_choice *c, int64_t *sizes,
                            gs_error *err) {
  int like;
  int64_t div;
  if (!l->decl.dim_size[dim]) return GS_OK;
  if (size_blocks(l, dim, c, sizes, &like, &div, err))
    return gs_fail_in(err, "%s: dim %s", l->decl.name, l->decl.dims[dim]);
  int64_t n = sizes[like];
  sizes[dim] = n < 1 ? n : (n - 1) / div + 1;
  return GS_OK;
}

gs_status gs_layer_sizes(const gs_layer *l, const gs_choice *c, int64_t *sizes, gs_error *err) {
  const gs_layer_decl *d = &l->decl;
  for (int k = 0; k < d->ndims; k++) { /* first the inner dims, which divide outer ones */
    if (d->dim_outer[k]) continue;
    if (d->dim_size[k] && size_inner(l, k, c, sizes, &sizes[k], err))
      return gs_fail_in(err, "%s: dim %s", d->name, d->dims[k]);
    if (sizes[k] < 1)
      return gs_fail(err, GS_ERR_USE, "%s: dim %s needs a size of 1 or more, not %" PRId64, d->name,
                     d->dims[k], sizes[k]);
  }
  for (int k = 0; k < d->ndims; k++)
    if (d->dim_outer[k] && outer_size(l, k, c, sizes, err)) return GS_ERR_USE;
  return GS_OK;
}
