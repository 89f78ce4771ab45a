/* layer_case.h: a layer instantiated in f32 with random tensors, evaluated in float64. For tests
 * that hold a layer's mathematics against something else. */
#ifndef LAYER_CASE_H
#define LAYER_CASE_H

#include "lua/layer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer_case {
  gs_instance *i;
  const gs_layer_decl *decl;
  int64_t sizes[GS_MAX_DIMS];
  double **tensor; /* of each tensor of the graph */
  size_t *count;
  uint64_t seed;
} layer_case;

static inline double uniform(uint64_t *seed) { /* in (-1, 1) */
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int64_t)(*seed >> 11) * 0x1p-52 - 1.0;
}

static inline int64_t below(uint64_t *seed, int64_t n) {
  int64_t v = (int64_t)((uniform(seed) * 0.5 + 0.5) * (double)n);
  return v < n ? v : n - 1;
}

/* Sizes of every dim of the graph: the declaration's, then those made by views. */
static inline void case_sizes(layer_case *c, const int64_t *sizes) {
  const gs_graph *g = c->i->g;
  for (int d = 0; d < gs_graph_ndims(g); d++)
    if (gs_graph_dim_at(g, d)->size < 0 && gs_graph_dim_at(g, d)->same_as < 0)
      c->sizes[d] = sizes[d];
  gs_graph_sizes(g, c->sizes);
}

static inline int64_t case_size(const layer_case *c, const char *dim) {
  return c->sizes[gs_graph_find_dim(c->i->g, dim)];
}

/* What the author says of the values of a parameter, or NULL. */
static inline const gs_drawn *case_drawn(const layer_case *c, const char *name) {
  for (int k = 0; k < c->decl->nparams; k++)
    if (strcmp(c->decl->params[k].name, name) == 0) return &c->decl->drawn[k];
  return NULL;
}

static inline void fill_integers(layer_case *c, const char *name, double *v, size_t n) {
  const gs_drawn *drawn = case_drawn(c, name);
  int64_t size = 5000;
  int classes = gs_graph_find_dim(c->i->g, "V");
  double ignored = strcmp(name, "label") == 0 ? -100 : 0;
  if (drawn && drawn->nalso) ignored = drawn->also[0];
  if (drawn && drawn->high_dim >= 0)
    size = c->sizes[drawn->high_dim];
  else if (drawn && drawn->has_high)
    size = (int64_t)drawn->high;
  else if (classes >= 0)
    size = c->sizes[classes];
  bool offsets = drawn && drawn->offsets_dim >= 0; /* where pieces of alike lengths begin */
  if (offsets) size = c->sizes[drawn->offsets_dim];
  for (size_t k = 0; k < n; k++)
    v[k] = offsets                      ? (double)(size * (int64_t)k / (n > 1 ? (int64_t)n - 1 : 1))
           : ignored != 0 && k % 4 == 1 ? ignored
                                        : (double)below(&c->seed, size);
}

static inline void case_fill(layer_case *c, int t) {
  const gs_tensor *x = gs_graph_tensor_at(c->i->g, t);
  size_t n = 1;
  for (int k = 0; k < x->ndims; k++) n *= (size_t)c->sizes[x->dim[k]];
  c->count[t] = n;
  double *v = c->tensor[t] = malloc(sizeof *v * (n + 1));
  if (x->type == GS_I32 || x->type == GS_I64 || x->type == GS_U8) {
    fill_integers(c, x->name, v, n);
    return;
  }
  bool positive = x->role == GS_ROLE_STEP_SCALAR || x->is_nonnegative;
  for (size_t k = 0; k < n; k++)
    v[k] = x->role == GS_ROLE_SCALAR ? x->value
           : positive                ? 0.5 + 0.4 * uniform(&c->seed)
                                     : 2.0 * uniform(&c->seed);
}

static inline gs_array case_eval(const layer_case *c, gs_id expr) {
  gs_error e;
  gs_array out;
  gs_env env = {c->sizes, (const double *const *)c->tensor};
  gs_status st = gs_eval(c->i->g, &expr, 1, &env, &out, &e);
  cr_assert_eq(st, GS_OK, "%s: %s", c->decl->name, e.message);
  return out;
}

/* Element `at` (row-major over dims of r) of an array that may lack some of r's dims. */
static inline double case_value(const layer_case *c, const gs_array *a, const gs_result *r,
                                size_t at) {
  size_t offset = 0, index[GS_MAX_DIMS] = {0};
  for (int k = r->ndims - 1; k >= 0; k--) {
    index[r->dim[k]] = at % (size_t)c->sizes[r->dim[k]];
    at /= (size_t)c->sizes[r->dim[k]];
  }
  for (int d = 0; d < gs_graph_ndims(c->i->g); d++)
    if (a->dims >> d & 1) offset = offset * (size_t)c->sizes[d] + index[d];
  return a->v[offset];
}

static inline size_t case_result_count(const layer_case *c, const gs_result *r) {
  size_t n = 1;
  for (int k = 0; k < r->ndims; k++) n *= (size_t)c->sizes[r->dim[k]];
  return n;
}

static inline int case_tensor(const layer_case *c, const char *name) {
  for (int t = 0; t < gs_graph_ntensors(c->i->g); t++)
    if (strcmp(gs_graph_tensor_at(c->i->g, t)->name, name) == 0) return t;
  return -1;
}

static inline const gs_result *case_result(const gs_result *r, int n, const char *name) {
  for (int k = 0; k < n; k++)
    if (strcmp(r[k].name, name) == 0) return &r[k];
  return NULL;
}

/* Fills what forward stores (saved values and outputs) from its expressions. */
static inline void case_forward(layer_case *c) {
  for (int k = 0; k < c->i->nforward; k++) {
    const gs_result *r = &c->i->forward[k];
    int t = case_tensor(c, r->name);
    if (t < 0) continue;
    gs_array a = case_eval(c, r->expr);
    for (size_t j = 0; j < c->count[t]; j++) c->tensor[t][j] = case_value(c, &a, r, j);
    gs_array_free(&a);
  }
}

static inline layer_case case_open(gs_author *a, const char *name, const int64_t *sizes,
                                   const gs_choice *choice, uint64_t seed) {
  gs_error e;
  gs_layer *l;
  cr_assert_eq(gs_layer_open(a, name, &l, &e), GS_OK, "%s", e.message);
  gs_choice plain = {.dtype = GS_F32};
  if (choice) plain = *choice;
  plain.sizes = sizes;
  layer_case c = {.decl = gs_layer_declaration(l), .seed = seed};
  cr_assert_eq(gs_layer_instantiate(l, &plain, &c.i, &e), GS_OK, "%s", e.message);
  case_sizes(&c, sizes);
  int n = gs_graph_ntensors(c.i->g);
  c.tensor = calloc((size_t)n + 1, sizeof *c.tensor);
  c.count = calloc((size_t)n + 1, sizeof *c.count);
  for (int t = 0; t < n; t++) case_fill(&c, t);
  case_forward(&c);
  return c;
}

static inline void case_close(layer_case *c) {
  for (int t = 0; t < gs_graph_ntensors(c->i->g); t++) free(c->tensor[t]);
  free(c->tensor);
  free(c->count);
  gs_instance_free(c->i);
}

#endif
