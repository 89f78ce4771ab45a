/* range.c: what values can be. Every lowered value carries bounds, found once from those of its
 * arguments: integers that provably fit 32 bits are `int` in the text, and an index that provably
 * lies inside its dim needs neither a guard nor a clamp. A real may also be NaN. */
#include "emit/emit.h"

#include <math.h>

#define FAR 0x1p62

typedef struct range {
  double lo, hi;
} range;

static const range everything = {-INFINITY, INFINITY};

static range join(range a, range b) {
  return (range){fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
}

static double times(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

static range product(range a, range b) {
  double p[4] = {times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)};
  return (range){fmin(fmin(p[0], p[1]), fmin(p[2], p[3])),
                 fmax(fmax(p[0], p[1]), fmax(p[2], p[3]))};
}

static range of_var(const emit *e, int var) {
  if (var >= OPAQUE) return (range){e->vals[var - OPAQUE].lo, e->vals[var - OPAQUE].hi};
  int64_t n = dim_size(e, var);
  return (range){0, n < 0 ? FAR : (double)(n > 0 ? n - 1 : 0)};
}

/* Of the terms of an index; without those of outer dims when `inner`. */
static range of_aff(const emit *e, int at, bool inner) {
  const aff *a = &e->affs[at];
  range r = {(double)a->c, (double)a->c};
  for (int i = 0; i < a->n; i++) {
    if (inner && a->var[i] < OPAQUE && dim_is_outer(e, a->var[i])) continue;
    double c = (double)a->coef[i];
    range t = product(of_var(e, a->var[i]), (range){c, c});
    r.lo += t.lo;
    r.hi += t.hi;
  }
  return r;
}

static bool fits(range r) {
  return r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}

bool aff_fits_int(const emit *e, int at) {
  return fits(of_aff(e, at, true));
}

static range of_load(gs_type t) {
  switch (t) {
  case GS_U8: return (range){0, 255};
  case GS_I8: return (range){-128, 127};
  case GS_I32: return (range){INT32_MIN, INT32_MAX};
  default: return everything;
  }
}

static range of_table(const gs_table *t) {
  range r = {t->value[0], t->value[0]};
  for (int i = 1; i < t->count; i++) r = join(r, (range){t->value[i], t->value[i]});
  return (range){(double)(float)r.lo, (double)(float)r.hi};
}

static range floors(range a) {
  return (range){floor(a.lo), floor(a.hi)};
}

/* A NaN loses to a number, so the result may also be the other argument alone. */
static range extreme(const val *x, range a, range b, bool fixed_a, bool fixed_b) {
  bool top = x->op == GS_OP_MAX;
  range r = top ? (range){fmax(a.lo, b.lo), fmax(a.hi, b.hi)}
                : (range){fmin(a.lo, b.lo), fmin(a.hi, b.hi)};
  if (x->type == GS_I64) return r;
  if (!fixed_a) r = join(r, b);
  if (!fixed_b) r = join(r, a);
  return r;
}

static range of_quotient(range a, range b) {
  if (b.lo == b.hi && b.lo >= 1) return floors((range){a.lo / b.lo, a.hi / b.lo});
  return join(a, (range){0, 0});
}

static range of_remainder(range a, range b) {
  double most = fmax(b.hi - 1, 0);
  return (range){0, a.lo >= 0 ? fmin(a.hi, most) : most};
}

static range of_op(const emit *e, const val *x) {
  range a[3] = {{0, 0}, {0, 0}, {0, 0}};
  bool fixed[3] = {false, false, false};
  for (int i = 0; i < x->nargs && i < 3; i++) {
    const val *y = &e->vals[x->arg[i]];
    a[i] = (range){y->lo, y->hi};
    fixed[i] = y->kind == VAL_CONST;
  }
  switch (x->op) {
  case GS_OP_NEG: return (range){-a[0].hi, -a[0].lo};
  case GS_OP_ABS:
    return (range){a[0].lo > 0 ? a[0].lo : a[0].hi < 0 ? -a[0].hi : 0, fmax(-a[0].lo, a[0].hi)};
  case GS_OP_ADD: return (range){a[0].lo + a[1].lo, a[0].hi + a[1].hi};
  case GS_OP_SUB: return (range){a[0].lo - a[1].hi, a[0].hi - a[1].lo};
  case GS_OP_MUL: return product(a[0], a[1]);
  case GS_OP_MIN:
  case GS_OP_MAX: return extreme(x, a[0], a[1], fixed[0], fixed[1]);
  case GS_OP_WHERE: return join(a[1], a[2]);
  case GS_OP_REAL: return a[0];
  case GS_OP_FLOOR: return floors(a[0]);
  case GS_OP_INTEGER: return join(floors(a[0]), (range){0, 0}); /* 0 of a NaN */
  case GS_OP_SIGMOID:
  case GS_OP_RAND: return (range){0, 1};
  case GS_OP_TANH: return (range){-1, 1};
  case GS_OP_BUCKET: return (range){0, gs_graph_table_at(e->g, (int)x->index)->count};
  case GS_OP_LOOKUP: return of_table(gs_graph_table_at(e->g, (int)x->index));
  case GS_OP_QUOTIENT: return of_quotient(a[0], a[1]);
  case GS_OP_REMAINDER: return of_remainder(a[0], a[1]);
  default: return everything;
  }
}

static range of_val(const emit *e, const val *x) {
  range r;
  switch (x->kind) {
  case VAL_CONST: return (range){x->value, x->value};
  case VAL_LOAD: return of_load(e->mems[x->mem].type);
  case VAL_INDEX: return of_aff(e, x->off, false);
  case VAL_SIZE: return (range){0, FAR};
  case VAL_QUOTIENT:
    r = of_aff(e, x->off, false);
    return floors((range){r.lo / (double)x->index, r.hi / (double)x->index});
  case VAL_REMAINDER:
    r = of_aff(e, x->off, false);
    return (range){r.lo < 0 ? (double)(1 - x->index) : 0, fmin(r.hi, (double)(x->index - 1))};
  case VAL_LEFT: return (range){0, (double)x->index};
  case VAL_INSIDE: {
    const val *i = &e->vals[x->arg[0]];
    double last = dim_is_outer(e, x->dim) ? FAR : (double)(dim_size(e, x->dim) - 1);
    return (range){fmin(fmax(i->lo, 0), last), fmin(fmax(i->hi, 0), last)};
  }
  case VAL_OP: return of_op(e, x);
  default: return everything;
  }
}

void val_bounds(const emit *e, val *x) {
  range r = of_val(e, x);
  if (x->type == GS_BOOL) r = (range){0, 1};
  if (x->type == GS_F32 && x->kind == VAL_OP) /* rounding keeps the order */
    r = (range){(double)(float)r.lo, (double)(float)r.hi};
  bool wraps = x->type == GS_I64 && !(r.lo >= -FAR && r.hi <= FAR);
  if (wraps || isnan(r.lo) || isnan(r.hi)) r = everything;
  x->lo = r.lo;
  x->hi = r.hi;
}

bool is_narrow(const emit *e, int v) {
  const val *x = &e->vals[v];
  if (x->kind == VAL_STATE || x->kind == VAL_ELEMENT || x->kind == VAL_REDUCE) return false;
  return x->type == GS_I64 && fits((range){x->lo, x->hi});
}

const char *value_type(const emit *e, int v) {
  gs_type t = e->vals[v].type;
  return t == GS_BOOL ? "bool" : t == GS_F32 ? "f32" : is_narrow(e, v) ? "int" : "i64";
}

/* Whether quotient q of an outer dim by k counts dim d's blocks. */
static bool is_block(const emit *e, const val *q, int d) {
  const gs_dim *b = gs_graph_dim_at(e->g, dim_root(e, d));
  const aff *a = q->kind == VAL_QUOTIENT ? &e->affs[q->off] : NULL;
  return a && a->n == 1 && a->c == 0 && a->coef[0] == 1 && a->var[0] < OPAQUE && b->same_as >= 0 &&
         b->div == q->index && dim_root(e, a->var[0]) == dim_root(e, b->same_as);
}

/* Whether an index is made of one that a gather took into its dim: what guards that still has a
 * say, since the checked emulator lets it through. */
static bool is_taken(const emit *e, int at) {
  const aff *a = &e->affs[at];
  for (int i = 0; i < a->n; i++) {
    if (a->var[i] < OPAQUE) continue;
    const val *x = &e->vals[a->var[i] - OPAQUE];
    bool parts = x->kind == VAL_QUOTIENT || x->kind == VAL_REMAINDER;
    if (x->kind == VAL_INSIDE || (parts && is_taken(e, x->off))) return true;
  }
  return false;
}

bool is_inside(const emit *e, int at, int d) {
  const aff *a = &e->affs[at];
  if (is_taken(e, at)) return false;
  if (a->n == 1 && a->c == 0 && a->coef[0] == 1) {
    int var = a->var[0];
    if (var < OPAQUE && dim_root(e, var) == dim_root(e, d)) return true;
    if (var >= OPAQUE && dim_is_outer(e, d)) {
      const val *x = &e->vals[var - OPAQUE];
      if (is_block(e, x, d)) return true;
    }
  }
  if (dim_is_outer(e, d)) return false;
  range r = of_aff(e, at, false);
  return r.lo >= 0 && r.hi <= (double)(dim_size(e, d) - 1);
}
