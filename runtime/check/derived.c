/* derived.c: derives the backward of a layer at sizes that show in its numbers, and counts. */
#include "check/derived.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t primes[] = {1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049,
                                 1051, 1061, 1063, 1069, 1087, 1091, 1093, 1097,
                                 1103, 1109, 1117, 1123, 1129, 1151, 1153, 1163};
enum { NPRIMES = sizeof primes / sizeof *primes };

/* ---- the instance ---- */

static bool is_free_size(int64_t size) {
  for (int k = 0; k < NPRIMES; k++)
    if (size > 0 && size % primes[k] == 0) return true;
  return false;
}

/* A size for dim k: a prime, times twos where dims divide others; then the earlier dims larger than
 * the later ones, which may be their parts; then small ones, at which sizes cannot be told from
 * numbers. */
static int64_t size_to_try(int attempt, int k, int ndims) {
  static const int64_t times[] = {1, 2, 4, 8, 16, 32, 64, 12}, small[] = {64, 8, 4, 2, 6, 128};
  int64_t size = primes[NPRIMES - 1 - k % NPRIMES];
  if (attempt < 8) return size * times[attempt];
  if (attempt < 10) return (size * times[attempt - 8]) << (2 * (ndims - k < 5 ? ndims - k : 5));
  return small[attempt - 10];
}

static gs_status instantiate(gs_layer *l, const gs_choice *c, gs_instance **out, gs_error *err) {
  const gs_layer_decl *d = gs_layer_declaration(l);
  gs_error first = {0};
  gs_status st = GS_ERR_USE;
  for (int attempt = 0; attempt < 16; attempt++) {
    int64_t sizes[GS_MAX_DIMS] = {0};
    for (int k = 0; k < d->ndims && k < GS_MAX_DIMS; k++) {
      int64_t wanted = c->sizes && !d->dim_outer[k] ? c->sizes[k] : 0;
      sizes[k] = wanted > 0 ? wanted : size_to_try(attempt, k, d->ndims);
    }
    gs_choice choice = *c;
    choice.sizes = sizes;
    st = gs_layer_instantiate(l, &choice, out, attempt ? NULL : &first);
    if (st == GS_OK) return GS_OK;
  }
  if (err) *err = first;
  return st;
}

static int tensor_named(const gs_graph *g, const char *name) {
  for (int t = 0; t < gs_graph_ntensors(g); t++)
    if (strcmp(gs_graph_tensor_at(g, t)->name, name) == 0) return t;
  return -1;
}

/* ---- the job ---- */

static void set_outputs(gs_derived *d) {
  gs_instance *i = d->i;
  gs_id *y = GS_NEW_N(d->a, gs_id, i->nforward + 1), *dy = GS_NEW_N(d->a, gs_id, i->nforward + 1);
  for (int k = 0; k < i->nforward; k++) {
    if (i->forward[k].is_saved) continue;
    int t = tensor_named(i->g, gs_arena_printf(d->a, "d%s", i->forward[k].name));
    bool incoming = t >= 0 && gs_graph_tensor_at(i->g, t)->role == GS_ROLE_UPSTREAM;
    y[d->job.ny] = i->forward[k].expr;
    dy[d->job.ny++] = incoming ? gs_input(i->g, t) : 0;
  }
  d->job.y = y;
  d->job.dy = dy;
}

static void set_inputs(gs_derived *d) {
  const gs_layer_decl *decl = gs_layer_declaration(d->i->layer);
  gs_id *x = GS_NEW_N(d->a, gs_id, decl->nparams + 1);
  d->grad = GS_NEW_N(d->a, gs_derive_result, decl->nparams + 1);
  for (int k = 0; k < decl->nparams; k++) {
    int t = tensor_named(d->i->g, decl->params[k].name);
    if (!decl->differentiable[k] || t < 0) continue;
    d->grad[d->n].name = decl->params[k].name;
    x[d->n++] = gs_input(d->i->g, t);
  }
  d->job.x = x;
  d->job.nx = d->n;
}

static void set_leaves(gs_derived *d) {
  gs_instance *i = d->i;
  for (int t = 0; t < gs_graph_ntensors(i->g); t++) {
    gs_role role = gs_graph_tensor_at(i->g, t)->role;
    if ((role != GS_ROLE_SAVED && role != GS_ROLE_OUTPUT) || !i->saved_expr[t]) continue;
    if (d->job.nleaves == GS_DERIVE_MOST_LEAVES / 2) return;
    d->job.leaves[d->job.nleaves++] = (gs_derive_leaf){
        .leaf = gs_input(i->g, t), .expr = i->saved_expr[t], .must_be_kept = role == GS_ROLE_SAVED};
  }
}

/* Names that a new saved value must not have: those of results and options. */
static void set_taken(gs_derived *d) {
  const gs_layer_decl *decl = gs_layer_declaration(d->i->layer);
  const char **taken = GS_NEW_N(d->a, const char *, d->i->nforward + decl->noptions + 1);
  for (int k = 0; k < d->i->nforward; k++) taken[d->job.ntaken++] = d->i->forward[k].name;
  for (int k = 0; k < decl->noptions; k++) taken[d->job.ntaken++] = decl->options[k];
  d->job.taken = taken;
}

static void set_options(gs_derived *d, const gs_choice *c) {
  const gs_layer_decl *decl = gs_layer_declaration(d->i->layer);
  d->option = GS_NEW_N(d->a, double, decl->noptions + 1);
  for (int k = 0; k < decl->noptions; k++) {
    d->option[k] = decl->option_defaults[k];
    for (int j = 0; j < c->noptions; j++)
      if (strcmp(c->option_names[j], decl->options[k]) == 0) d->option[k] = c->option_values[j];
  }
}

static void set_dims(gs_derived *d) {
  const gs_layer_decl *decl = gs_layer_declaration(d->i->layer);
  for (int k = 0; k < decl->ndims; k++) {
    d->job.may_save |= (gs_dims)1 << k;
    if (decl->dim_outer[k]) d->job.outer |= (gs_dims)1 << k;
  }
  for (int k = 0; k < gs_graph_ndims(d->i->g); k++)
    if (is_free_size(gs_graph_dim_at(d->i->g, k)->size)) d->free |= (gs_dims)1 << k;
}

/* ---- cost ---- */

static void count_costs(gs_derived *d) {
  gs_instance *i = d->i;
  gs_id *roots = GS_NEW_N(d->a, gs_id, i->nbackward + d->n + 1);
  for (int k = 0; k < i->nbackward; k++) roots[k] = i->backward[k].expr;
  gs_simplify(i->g, roots, i->nbackward);
  d->closed = gs_derive_cost(i->g, roots, i->nbackward);
  for (int k = 0; k < d->n; k++) roots[k] = d->grad[k].id;
  d->derived = gs_derive_cost(i->g, roots, d->n);
  for (int k = 0; k < i->nforward; k++) d->closed_saved += i->forward[k].is_saved;
  for (int k = 0; k < d->job.nleaves; k++)
    d->derived_saved += d->job.leaves[k].used && d->job.leaves[k].must_be_kept;
  d->elements = 1;
  for (int k = 0; k < d->n; k++) {
    double points = gs_derive_points(i->g, gs_graph_node(i->g, d->job.x[k])->dims);
    if (points > d->elements) d->elements = points;
  }
}

static double price(const gs_derived *d, const gs_derive_count *c, int saved) {
  return (c->flops + GS_DERIVE_READ * (c->elements + c->passes)) / d->elements + 1e-3 * saved;
}

bool gs_derived_is_shorter(const gs_derived *d) {
  double closed = price(d, &d->closed, d->closed_saved);
  return d->has_closed && price(d, &d->derived, d->derived_saved) < closed * 0.995 - 1e-3;
}

/* ---- all of it ---- */

gs_status gs_derived_new(gs_layer *l, const gs_choice *c, gs_derived **out, gs_error *err) {
  const gs_layer_decl *decl = gs_layer_declaration(l);
  *out = NULL;
  if (decl->is_kernel)
    return gs_fail(err, GS_ERR_USE, "%s is a kernel: it has no backward", decl->name);
  gs_arena *a = gs_arena_new();
  gs_derived *d = GS_NEW(a, gs_derived);
  d->a = a;
  gs_status st = instantiate(l, c, &d->i, err);
  if (st == GS_OK) {
    d->job.g = d->i->g;
    d->has_closed = !decl->is_derived;
    set_outputs(d);
    set_inputs(d);
    set_leaves(d);
    set_taken(d);
    set_dims(d);
    set_options(d, c);
    gs_id *grad = GS_NEW_N(a, gs_id, d->n + 1);
    if (d->n == 0)
      st = gs_fail(err, GS_ERR_USE, "%s has no input with a gradient", decl->name);
    else if (gs_derive(&d->job, grad, err) != GS_OK)
      st = gs_fail_in(err, "%s", decl->name);
    for (int k = 0; k < d->n; k++) d->grad[k].id = grad[k];
  }
  if (st == GS_OK) {
    count_costs(d);
    *out = d;
  } else {
    gs_derived_free(d);
  }
  return st;
}

void gs_derived_free(gs_derived *d) {
  if (!d) return;
  if (d->i) gs_instance_free(d->i);
  gs_arena_free(d->a);
}
