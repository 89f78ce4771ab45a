/* index.c: indices as sums of loop variables, interned: equal numbers are equal indices. Division
 * by a constant is exact where the terms allow it, so that views undo each other. */
#include "emit/emit.h"

#include <string.h>

int64_t dim_size(const emit *e, int d) {
  return gs_graph_dim_at(e->g, d)->size;
}
bool dim_is_outer(const emit *e, int d) {
  return dim_size(e, d) < 0;
}

int dim_root(const emit *e, int d) {
  return gs_graph_dim_root(e->g, d);
}

void count_dim(const emit *e, gs_count *c, int d) {
  if (!dim_is_outer(e, d)) {
    c->coef *= dim_size(e, d);
    return;
  }
  d = dim_root(e, d);
  const gs_dim *dim = gs_graph_dim_at(e->g, d);
  if (dim->same_as >= 0) c->each = dim->div;
  c->dims |= (gs_dims)1 << (dim->same_as >= 0 ? dim_root(e, dim->same_as) : d);
}

static bool undo_division(emit *e, aff *a);

static int intern(emit *e, const aff *given) {
  aff plain = *given;
  const aff *a = &plain;
  while (undo_division(e, &plain)) continue;
  for (int i = 0; i < e->naffs; i++) {
    const aff *b = &e->affs[i];
    if (b->c == a->c && b->n == a->n && memcmp(b->var, a->var, sizeof(int) * (size_t)a->n) == 0 &&
        memcmp(b->coef, a->coef, sizeof(int64_t) * (size_t)a->n) == 0)
      return i;
  }
  e->affs = gs_arena_room(e->a, e->affs, e->naffs, &e->cap_affs, sizeof *e->affs);
  e->affs[e->naffs] = *a;
  return e->naffs++;
}

int aff_const(emit *e, int64_t c) {
  aff a = {.c = c};
  return intern(e, &a);
}

int aff_var(emit *e, int var) {
  if (var < OPAQUE && dim_size(e, var) == 1) return aff_const(e, 0);
  aff a = {.n = 1, .var = {var}, .coef = {1}};
  return intern(e, &a);
}

static void add_term(emit *e, aff *a, int var, int64_t coef) {
  int i = 0;
  while (i < a->n && a->var[i] < var) i++;
  if (i < a->n && a->var[i] == var) {
    a->coef[i] += coef;
    if (a->coef[i] != 0) return;
    for (a->n--; i < a->n; i++) a->var[i] = a->var[i + 1], a->coef[i] = a->coef[i + 1];
    return;
  }
  if (a->n == MAX_TERMS) {
    emit_fail(e, 0, "an index has more than %d variables", MAX_TERMS);
    return;
  }
  for (int j = a->n++; j > i; j--) a->var[j] = a->var[j - 1], a->coef[j] = a->coef[j - 1];
  a->var[i] = var;
  a->coef[i] = coef;
}

/* Adds k times another index to a. */
static void add_aff(emit *e, aff *a, const aff *b, int64_t k) {
  a->c += b->c * k;
  for (int i = 0; i < b->n; i++) add_term(e, a, b->var[i], b->coef[i] * k);
}

/* Replaces k*(x / k) + x % k by x. */
static bool undo_division(emit *e, aff *a) {
  for (int i = 0; i < a->n; i++) {
    const val *r = a->var[i] >= OPAQUE ? &e->vals[a->var[i] - OPAQUE] : NULL;
    if (!r || r->kind != VAL_REMAINDER) continue;
    for (int j = 0; j < a->n; j++) {
      const val *q = a->var[j] >= OPAQUE ? &e->vals[a->var[j] - OPAQUE] : NULL;
      if (!q || q->kind != VAL_QUOTIENT || q->off != r->off || q->index != r->index ||
          a->coef[j] != a->coef[i] * r->index)
        continue;
      int64_t c = a->coef[i];
      int quotient = a->var[j], remainder = a->var[i];
      aff x = e->affs[r->off];
      add_term(e, a, quotient, -c * r->index);
      add_term(e, a, remainder, -c);
      add_aff(e, a, &x, c);
      return true;
    }
  }
  return false;
}

int aff_add(emit *e, int x, int y) {
  aff a = e->affs[x], b = e->affs[y];
  add_aff(e, &a, &b, 1);
  return intern(e, &a);
}

int aff_scale(emit *e, int x, int64_t k) {
  aff a = e->affs[x];
  if (k == 0) return aff_const(e, 0);
  a.c *= k;
  for (int i = 0; i < a.n; i++) a.coef[i] *= k;
  return intern(e, &a);
}

gs_dims aff_deps(const emit *e, int x) {
  if (x < 0) return 0;
  gs_dims d = 0;
  const aff *a = &e->affs[x];
  for (int i = 0; i < a->n; i++)
    d |= a->var[i] < OPAQUE ? (gs_dims)1 << a->var[i] : e->vals[a->var[i] - OPAQUE].deps;
  return d;
}

int aff_level(const emit *e, int x) {
  if (x < 0) return 0;
  int level = 0;
  const aff *a = &e->affs[x];
  for (int i = 0; i < a->n; i++)
    if (a->var[i] >= OPAQUE && e->vals[a->var[i] - OPAQUE].level > level)
      level = e->vals[a->var[i] - OPAQUE].level;
  return level;
}

int64_t aff_coef(const emit *e, int x, int var) {
  const aff *a = &e->affs[x];
  for (int i = 0; i < a->n; i++)
    if (a->var[i] == var) return a->coef[i];
  return 0;
}

/* Splits x = q*k + r with 0 <= r < k. Exact when the terms of r stay below k; otherwise q and r are
 * values computed at the point. */
static void split(emit *e, int x, int64_t k, int *q, int *r) {
  aff a = e->affs[x], hi = {0}, lo = {0};
  int64_t most = 0;
  bool exact = a.c >= 0;
  hi.c = a.c / k;
  lo.c = a.c % k;
  most = lo.c;
  for (int i = 0; i < a.n; i++) {
    if (a.coef[i] % k == 0) {
      add_term(e, &hi, a.var[i], a.coef[i] / k);
      continue;
    }
    int64_t n = a.var[i] < OPAQUE ? dim_size(e, a.var[i]) : -1;
    if (n < 0 || a.coef[i] < 0) exact = false;
    add_term(e, &lo, a.var[i], a.coef[i]);
    most += a.coef[i] * (n - 1);
  }
  if (exact && most < k) {
    *q = intern(e, &hi);
    *r = intern(e, &lo);
    return;
  }
  val v = {.kind = VAL_QUOTIENT,
           .type = GS_I64,
           .mem = -1,
           .off = x,
           .row = -1,
           .guard = -1,
           .dim = -1,
           .index = k};
  *q = aff_var(e, OPAQUE + val_make(e, &v));
  v.kind = VAL_REMAINDER;
  *r = aff_var(e, OPAQUE + val_make(e, &v));
}

void where_loops(emit *e, where_at *w) {
  for (int d = 0; d < GS_MAX_DIMS; d++) {
    w->at[d] = d < gs_graph_ndims(e->g) ? aff_var(e, d) : 0;
    w->guard[d] = -1;
  }
  w->holds = -1;
}

/* What provably lies inside its dim needs no guard. */
static void set_guard(emit *e, where_at *w, int d, int guard) {
  w->guard[d] = guard >= 0 && is_inside(e, w->at[d], d) ? -1 : guard;
}

void where_view(emit *e, const gs_node *n, where_at *w) {
  int *at = w->at, d0 = n->dim[0], d1 = n->dim[1], d2 = n->dim[2];
  switch (n->op) {
  case GS_OP_SPLIT:
    at[d0] = aff_add(e, aff_scale(e, at[d1], dim_size(e, d2)), at[d2]);
    set_guard(e, w, d0, both_guards(e, w->guard[d1], w->guard[d2]));
    break;
  case GS_OP_MERGE:
    split(e, at[d0], dim_size(e, d2), &at[d1], &at[d2]);
    set_guard(e, w, d1, w->guard[d0]);
    set_guard(e, w, d2, w->guard[d0]);
    break;
  case GS_OP_PICK:
    at[d0] = aff_const(e, n->index);
    w->guard[d0] = -1;
    break;
  case GS_OP_SLICE:
  case GS_OP_RENAME:
    at[d0] = aff_add(e, at[d1], aff_const(e, n->op == GS_OP_SLICE ? n->index : 0));
    set_guard(e, w, d0, w->guard[d1]);
    break;
  default: break;
  }
}
