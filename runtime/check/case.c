/* case.c: sizes and values for a check. Sizes are 1, odd, off the vector width and larger than a
 * block; integers are drawn so that they are legal where the layer uses them. */
#include "check/case.h"
#include "check/draw.h"

#include "base/half.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double gs_rng_uniform(gs_rng *r) {
  return (double)(gs_random_next(&r->s) >> 11) * 0x1p-53;
}

double gs_rng_normal(gs_rng *r) {
  double u = 1 - gs_rng_uniform(r), v = gs_rng_uniform(r);
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

int64_t gs_rng_below(gs_rng *r, int64_t n) {
  return (int64_t)(gs_random_next(&r->s) % (uint64_t)n);
}

int64_t gs_case_count(const gs_case *c, const int *dim, int ndims) {
  int64_t n = 1;
  for (int k = 0; k < ndims; k++) n *= c->sizes[dim[k]];
  return n;
}

double *gs_case_order(const gs_case *c, const gs_array *a, const double *which, const int *dim,
                      int ndims) {
  int64_t count = gs_case_count(c, dim, ndims), stride[GS_MAX_RANK] = {0};
  for (int k = 0; k < ndims; k++) {
    if (!(a->dims >> dim[k] & 1)) continue; /* broadcast */
    stride[k] = 1;
    for (int d = dim[k] + 1; d < GS_MAX_DIMS; d++)
      if (a->dims >> d & 1) stride[k] *= c->sizes[d];
  }
  double *out = malloc(sizeof(double) * (size_t)(count ? count : 1));
  if (!out) return NULL;
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i, at = 0;
    for (int k = ndims - 1; k >= 0; k--) {
      at += rest % c->sizes[dim[k]] * stride[k];
      rest /= c->sizes[dim[k]];
    }
    out[i] = which[at];
  }
  return out;
}

void gs_case_index(const gs_case *c, const int *dim, int ndims, int64_t i, char *out, size_t cap) {
  int64_t at[GS_MAX_RANK];
  for (int k = ndims - 1; k >= 0; k--) {
    at[k] = i % c->sizes[dim[k]];
    i /= c->sizes[dim[k]];
  }
  size_t n = 0;
  out[0] = 0;
  for (int k = 0; k < ndims && n < cap; k++) {
    const char *name = gs_graph_dim_at(c->i->g, dim[k])->name;
    n += (size_t)snprintf(out + n, cap - n, "%s%s=%lld", k ? ", " : "", name, (long long)at[k]);
  }
}

/* ---- sizes ---- */

static int64_t draw_size(gs_rng *r, int round, bool outer, bool alone) {
  static const int64_t inner[] = {2, 3, 7, 8, 16, 31, 40, 64, 100, 129, 200, 256, 576, 2047, 4096};
  static const int64_t outers[] = {1, 2, 3, 5, 17, 33, 77, 300}; /* 300: more rows than blocks */
  static const int64_t flat[] = {1, 63, 64, 65, 255, 256, 1000, 4097}; /* about ends of blocks */
  if (outer && alone && round == 2) return flat[gs_rng_below(r, 8)];
  if (outer && alone && round) return 1 + gs_rng_below(r, round == 1 ? 40000 : 3000);
  if (outer) return round == 0 ? 1 : outers[gs_rng_below(r, 8)];
  return inner[gs_rng_below(r, round == 0 ? 5 : 15)];
}

/* The float64 oracle holds whole arrays over all dims of an expression: keep them moderate. */
static void limit_sizes(const gs_layer_decl *d, gs_rng *r, int64_t *sizes) {
  bool outer_first = gs_rng_below(r, 2);
  for (;;) {
    int largest = 0;
    double volume = 1;
    for (int k = 0; k < d->ndims; k++) {
      if (d->dim_size[k]) continue;
      volume *= (double)sizes[k];
      if (sizes[k] > sizes[largest]) largest = k;
    }
    if (volume <= 60000) return;
    for (int k = 0; outer_first && k < d->ndims; k++)
      if (d->dim_outer[k] && !d->dim_size[k] && sizes[k] > 2) largest = k;
    if (sizes[largest] <= 2) return;
    sizes[largest] /= 2;
  }
}

/* Sizes that the caller asked for: "T=5,H=4096". */
static gs_status fix_sizes(const gs_layer_decl *d, const char *dims, int64_t *sizes,
                           gs_error *err) {
  while (dims && *dims) {
    char *end = NULL;
    size_t len = strcspn(dims, "=,");
    int k = 0;
    while (k < d->ndims && (strlen(d->dims[k]) != len || memcmp(d->dims[k], dims, len) != 0)) k++;
    if (k < d->ndims && d->dim_size[k])
      return gs_fail(err, GS_ERR_USE, "check: --dims: the size of %s is derived: %s", d->dims[k],
                     d->dim_size[k]);
    if (k == d->ndims)
      return gs_fail(err, GS_ERR_USE, "check: --dims: layer '%s' has no dim '%.*s'", d->name,
                     (int)len, dims);
    long long v = dims[len] == '=' ? strtoll(dims + len + 1, &end, 10) : 0;
    if (v < 1 || (*end && *end != ','))
      return gs_fail(err, GS_ERR_USE, "check: --dims: %s needs a positive whole number",
                     d->dims[k]);
    sizes[k] = v;
    dims = *end ? end + 1 : end;
  }
  return GS_OK;
}

static const char *mood_name(gs_mood m) {
  static const char *const names[] = {"ordinary", "huge", "tiny", "zeros", "repeated"};
  return names[m];
}

static int chosen_dims(const gs_layer_decl *d) {
  int n = 0;
  for (int k = 0; k < d->ndims; k++) n += d->dim_size[k] == NULL;
  return n;
}

/* Options that the caller asked for, or, after the first round, among those that the layer lists.
 */
static gs_status choose_options(const gs_layer_decl *d, const char *asked, int round, gs_rng *r,
                                double *values, gs_error *err) {
  for (int k = 0; k < d->noptions && k < MAX_OPTIONS; k++) {
    int n = d->option_ntries[k];
    values[k] = n && round ? d->option_tries[k][gs_rng_below(r, n)] : d->option_defaults[k];
  }
  while (asked && *asked) {
    char *end = NULL;
    size_t len = strcspn(asked, "=,");
    int k = 0;
    while (k < d->noptions && (strlen(d->options[k]) != len || memcmp(d->options[k], asked, len)))
      k++;
    if (k >= d->noptions || k >= MAX_OPTIONS)
      return gs_fail(err, GS_ERR_USE, "check: --options: layer '%s' has no option '%.*s'", d->name,
                     (int)len, asked);
    double v = asked[len] == '=' ? strtod(asked + len + 1, &end) : 0;
    if (!end || end == asked + len + 1 || (*end && *end != ','))
      return gs_fail(err, GS_ERR_USE, "check: --options: %s needs a number", d->options[k]);
    values[k] = v;
    asked = *end ? end + 1 : end;
  }
  return GS_OK;
}

static gs_status draw_instance(gs_layer *l, gs_type dtype, int round, const gs_check_options *o,
                               gs_rng *r, gs_case *c, gs_error *err) {
  const gs_layer_decl *d = gs_layer_declaration(l);
  gs_status st = GS_OK;
  char said[sizeof err->message] = "";
  for (int tries = 0, made = 0; tries < 400 && made < 20; tries++) {
    int64_t sizes[GS_MAX_DIMS] = {0};
    int attempt = tries % 20;
    for (int k = 0; k < d->ndims; k++)
      if (!d->dim_size[k]) sizes[k] = draw_size(r, round, d->dim_outer[k], chosen_dims(d) == 1);
    limit_sizes(d, r, sizes);
    if (attempt >= 4) /* a layer that halves its dims: even sizes */
      for (int k = 0; k < d->ndims; k++)
        if (!d->dim_outer[k]) sizes[k] = (sizes[k] + 3) / 4 * 4;
    int small = attempt >= 4 && attempt % 2 ? (int)gs_rng_below(r, d->ndims) : -1;
    if (small >= 0 && !d->dim_outer[small]) sizes[small] = 4; /* one with a part of another dim */
    if (attempt >= 16) /* one with blocks of a fixed size along an inner dim */
      for (int k = 0; k < d->ndims; k++)
        if (!d->dim_outer[k]) sizes[k] = (sizes[k] + 255) / 256 * 256;
    st = fix_sizes(d, o->dims, sizes, err);
    if (st == GS_OK) st = choose_options(d, o->options, round, r, c->options, err);
    if (st != GS_OK) return st;
    gs_choice choice = {.dtype = dtype,
                        .sizes = sizes,
                        .noptions = d->noptions < MAX_OPTIONS ? d->noptions : MAX_OPTIONS,
                        .option_names = d->options,
                        .option_values = c->options};
    int64_t all[GS_MAX_DIMS];
    memcpy(all, sizes, sizeof all);
    st = gs_layer_sizes(l, &choice, all, err);
    if (st != GS_OK) continue; /* derived sizes that do not come out: drawing again is cheap */
    made++;
    st = gs_layer_instantiate(l, &choice, &c->i, err);
    if (st != GS_OK) { /* a mistake that other sizes do not change is one of the file */
      bool again = st == GS_ERR_INPUT && err && strcmp(said, err->message) == 0;
      if (again) return st;
      if (err) snprintf(said, sizeof said, "%s", err->message);
      continue;
    }
    memcpy(c->sizes, sizes, sizeof sizes);
    gs_graph_sizes(c->i->g, c->sizes);
    return GS_OK;
  }
  return st;
}

static void label_case(gs_case *c, gs_type dtype, gs_mood mood) {
  const gs_layer_decl *d = gs_layer_declaration(c->i->layer);
  size_t n = (size_t)snprintf(c->label, sizeof c->label, "%s", gs_type_name(dtype));
  for (int k = 0; k < d->ndims && n < sizeof c->label; k++)
    n += (size_t)snprintf(c->label + n, sizeof c->label - n, " %s=%lld", d->dims[k],
                          (long long)c->sizes[k]);
  for (int k = 0; k < d->noptions && k < MAX_OPTIONS && n < sizeof c->label; k++)
    if (c->options[k] != d->option_defaults[k])
      n += (size_t)snprintf(c->label + n, sizeof c->label - n, " %s=%.6g", d->options[k],
                            c->options[k]);
  if (n < sizeof c->label)
    snprintf(c->label + n, sizeof c->label - n, ", %s values", mood_name(mood));
}

/* ---- values ---- */

static double draw_real(gs_rng *r, gs_mood mood) {
  switch (mood) {
  case GS_MOOD_HUGE: return gs_rng_normal(r) * 300;
  case GS_MOOD_TINY: return gs_rng_normal(r) * 1e-5;
  case GS_MOOD_ZEROS: return gs_rng_below(r, 4) ? 0 : gs_rng_normal(r);
  case GS_MOOD_REPEATED: return (double)gs_rng_below(r, 3) - 1;
  default: return gs_rng_normal(r);
  }
}

/* How an integer tensor is used decides which values are legal. */
typedef struct int_use {
  int64_t below;   /* an index along a dim of this size; 0: not an index */
  bool is_guarded; /* read only where a condition holds: an ignored value may stand elsewhere */
} int_use;

static bool reads(const gs_graph *g, gs_id id, int tensor) {
  const gs_node *n = gs_graph_node(g, id);
  if (n->op == GS_OP_INPUT) return n->index == tensor;
  return (n->op == GS_OP_REAL || n->op == GS_OP_RENAME) && reads(g, n->arg[0], tensor);
}

static int_use use_of(const gs_case *c, int tensor) {
  const gs_graph *g = c->i->g;
  int_use u = {0};
  for (gs_id id = 1; id < gs_graph_size(g); id++) {
    const gs_node *n = gs_graph_node(g, id);
    if (n->op == GS_OP_AT && reads(g, n->arg[1], tensor)) {
      u.below = c->sizes[n->dim[0]];
      u.is_guarded |= n->nargs > 2;
    } else if (n->op == GS_OP_SUM_BY && reads(g, n->arg[1], tensor)) {
      u.below = c->sizes[n->dim[1]];
    }
  }
  return u;
}

static const gs_drawn *drawn_of(const gs_case *c, const gs_tensor *x) {
  const gs_layer_decl *d = gs_layer_declaration(c->i->layer);
  for (int k = 0; k < d->nparams; k++)
    if (strcmp(d->params[k].name, x->name) == 0) return &d->drawn[k];
  return NULL;
}

/* In the range that the author gave, or, for what has no upper end, as the mood says above it. */
static double draw_within(const gs_case *c, const gs_drawn *d, bool is_integer, gs_rng *r) {
  double low = d->low_dim >= 0 ? (double)c->sizes[d->low_dim] : d->low;
  double high = d->high_dim >= 0 ? (double)c->sizes[d->high_dim] : d->high;
  if (d->nalso && gs_rng_below(r, 5) == 0) return d->also[gs_rng_below(r, d->nalso)];
  if (!d->has_high) {
    double off = is_integer ? (double)gs_rng_below(r, 200) : fabs(draw_real(r, c->mood));
    return d->has_low ? low + off : is_integer ? off : draw_real(r, c->mood);
  }
  if (!d->has_low) low = high - 4;
  if (is_integer)
    return low + (high - low >= 1 ? (double)gs_rng_below(r, (int64_t)(high - low)) : 0);
  if (c->mood == GS_MOOD_ZEROS && gs_rng_below(r, 2)) return low;
  return low + (high - low) * gs_rng_uniform(r);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Pieces of n rows, of any lengths, also none; now and then rows are left past the last. For timing
 * they are alike. */
static void draw_offsets(const gs_case *c, int64_t n, double *v, int64_t count, gs_rng *r) {
  bool whole = c->alike || gs_rng_below(r, 3);
  for (int64_t i = 0; i < count; i++)
    v[i] =
        c->alike ? (double)(n * i / (count > 1 ? count - 1 : 1)) : (double)gs_rng_below(r, n + 1);
  qsort(v, (size_t)count, sizeof *v, by_value);
  if (count) v[0] = 0;
  if (whole && count > 1) v[count - 1] = (double)n;
}

static bool says_something(const gs_drawn *d) {
  return d && (d->has_low || d->has_high || d->nalso || d->ascending);
}

static void fill_integers(const gs_case *c, int tensor, double *v, int64_t n, gs_rng *r) {
  int_use u = use_of(c, tensor);
  for (int64_t i = 0; i < n; i++) {
    if (u.below) {
      v[i] = (double)gs_rng_below(r, u.below);
      if (u.is_guarded && gs_rng_below(r, 5) == 0) v[i] = -100;
    } else {
      v[i] = (double)gs_rng_below(r, 200);
    }
  }
}

static void store_as(gs_type t, double *v, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    unsigned char bits[8];
    gs_store_f64(bits, t, 0, v[i]);
    v[i] = gs_load_f64(bits, t, 0);
  }
}

/* n values for tensor t, as it stores them. */
static void draw_values(const gs_case *c, int t, double *v, int64_t n, gs_rng *r) {
  const gs_tensor *x = gs_graph_tensor_at(c->i->g, t);
  bool is_integer = x->type == GS_I32 || x->type == GS_I64 || x->type == GS_U8 || x->type == GS_I8;
  const gs_drawn *drawn = drawn_of(c, x);
  if (drawn && drawn->offsets_dim >= 0) {
    draw_offsets(c, c->sizes[drawn->offsets_dim], v, n, r);
  } else if (says_something(drawn)) {
    for (int64_t i = 0; i < n; i++) v[i] = draw_within(c, drawn, is_integer, r);
    if (drawn->ascending) qsort(v, (size_t)n, sizeof *v, by_value);
  } else if (x->role == GS_ROLE_SCALAR) {
    v[0] = x->value * (0.5 + gs_rng_uniform(r)) + 0.1 * gs_rng_uniform(r);
  } else if (x->role == GS_ROLE_STEP_SCALAR) {
    v[0] = 0.1 + 0.8 * gs_rng_uniform(r);
  } else if (is_integer) {
    fill_integers(c, t, v, n, r);
  } else {
    for (int64_t i = 0; i < n; i++) v[i] = draw_real(r, c->mood);
  }
  store_as(x->role == GS_ROLE_SCALAR || x->role == GS_ROLE_STEP_SCALAR ? GS_F32 : x->type, v, n);
}

void gs_draw_values(gs_instance *i, const int64_t *sizes, int tensor, uint64_t seed, double *out,
                    int64_t n) {
  gs_case c = {.i = i, .mood = GS_MOOD_ORDINARY, .alike = true};
  gs_rng r = {seed};
  memcpy(c.sizes, sizes, sizeof(int64_t) * (size_t)gs_graph_ndims(i->g));
  draw_values(&c, tensor, out, n, &r);
}

/* Saved values and outputs that the backward reads: the forward's float64 value, as stored. */
static gs_status derive_saved(gs_case *c, gs_error *err) {
  gs_env env = {c->sizes, (const double *const *)c->tensor};
  for (int t = 0; t < c->ntensors; t++) {
    const gs_tensor *x = gs_graph_tensor_at(c->i->g, t);
    if (x->role != GS_ROLE_SAVED && x->role != GS_ROLE_OUTPUT) continue;
    gs_array a;
    gs_status st = gs_eval(c->i->g, &c->i->saved_expr[t], 1, &env, &a, err);
    if (st != GS_OK) return st;
    free(c->tensor[t]);
    c->tensor[t] = gs_case_order(c, &a, a.v, x->dim, x->ndims);
    gs_array_free(&a);
    if (!c->tensor[t]) return gs_fail(err, GS_ERR_MEMORY, "check: out of host memory");
    store_as(x->type, c->tensor[t], gs_case_count(c, x->dim, x->ndims));
  }
  return GS_OK;
}

gs_status gs_case_new(gs_layer *l, gs_type dtype, int round, gs_mood mood,
                      const gs_check_options *o, gs_rng *r, gs_case *out, gs_error *err) {
  *out = (gs_case){.mood = mood};
  gs_status st = draw_instance(l, dtype, round, o, r, out, err);
  if (st != GS_OK) return st;
  label_case(out, dtype, mood);
  out->ntensors = gs_graph_ntensors(out->i->g);
  out->tensor = calloc((size_t)out->ntensors + 1, sizeof *out->tensor);
  for (int t = 0; out->tensor && t < out->ntensors; t++) {
    const gs_tensor *x = gs_graph_tensor_at(out->i->g, t);
    int64_t n = gs_case_count(out, x->dim, x->ndims);
    out->tensor[t] = calloc((size_t)(n ? n : 1), sizeof(double));
    if (!out->tensor[t]) return gs_fail(err, GS_ERR_MEMORY, "check: out of host memory");
    if (x->role != GS_ROLE_SAVED && x->role != GS_ROLE_OUTPUT)
      draw_values(out, t, out->tensor[t], n, r);
  }
  if (!out->tensor) return gs_fail(err, GS_ERR_MEMORY, "check: out of host memory");
  return derive_saved(out, err);
}

void gs_case_free(gs_case *c) {
  for (int t = 0; c->tensor && t < c->ntensors; t++) free(c->tensor[t]);
  free(c->tensor);
  if (c->i) gs_instance_free(c->i);
  *c = (gs_case){0};
}
