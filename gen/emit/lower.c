/* lower.c: expressions at a point become lowered values: views turn into index arithmetic, equal
 * values at equal indices are one. Requires a verified graph without SUM_BY below; keeps values. */
#include "emit/emit.h"

#include <math.h>
#include <string.h>

static bool same_val(const val *a, const val *b) {
  return a->kind == b->kind && a->type == b->type && a->op == b->op && a->to == b->to &&
         a->nargs == b->nargs && memcmp(a->arg, b->arg, sizeof(int) * (size_t)a->nargs) == 0 &&
         a->mem == b->mem && a->row == b->row && a->off == b->off && a->guard == b->guard &&
         a->dim == b->dim && a->index == b->index && a->rdims == b->rdims &&
         a->captured == b->captured && a->value == b->value &&
         signbit(a->value) == signbit(b->value);
}

static void derive(const emit *e, val *v) {
  v->deps = aff_deps(e, v->row) | aff_deps(e, v->off);
  v->level =
      aff_level(e, v->row) > aff_level(e, v->off) ? aff_level(e, v->row) : aff_level(e, v->off);
  if (v->guard >= 0) {
    v->deps |= e->vals[v->guard].deps;
    if (e->vals[v->guard].level > v->level) v->level = e->vals[v->guard].level;
  }
  for (int i = 0; i < v->nargs; i++) {
    v->deps |= e->vals[v->arg[i]].deps;
    if (e->vals[v->arg[i]].level > v->level) v->level = e->vals[v->arg[i]].level;
  }
  if (v->kind != VAL_REDUCE) return;
  v->deps &= ~v->rdims;
  v->level++;
}

int val_make(emit *e, const val *v) {
  for (int i = 0; i < e->nvals; i++)
    if (same_val(&e->vals[i], v)) return i;
  e->vals = gs_arena_room(e->a, e->vals, e->nvals, &e->cap_vals, sizeof *e->vals);
  val *n = &e->vals[e->nvals];
  *n = *v;
  derive(e, n);
  val_bounds(e, n);
  return e->nvals++;
}

static val blank(val_kind kind, const gs_node *n) {
  val v = {.kind = kind,
           .type = n->type,
           .mem = -1,
           .row = -1,
           .off = -1,
           .guard = -1,
           .dim = -1,
           .line = n->line};
  return v;
}

static int constant(emit *e, const gs_node *like, double value) {
  val v = blank(VAL_CONST, like);
  v.type = GS_F32;
  v.value = value;
  v.line = 0;
  return val_make(e, &v);
}

static int operation(emit *e, gs_op op, gs_type type, const int *arg, int n, int source_line) {
  val v = {.kind = VAL_OP,
           .type = type,
           .op = op,
           .nargs = n,
           .mem = -1,
           .row = -1,
           .off = -1,
           .guard = -1,
           .dim = -1,
           .line = source_line};
  memcpy(v.arg, arg, sizeof(int) * (size_t)n);
  return val_make(e, &v);
}

int64_t mem_packed(const emit *e, const mem *m) {
  int64_t n = 1;
  for (int i = 1; i < m->ndims; i++) n *= dim_size(e, m->dim[i]);
  return n;
}

void mem_index(emit *e, const mem *m, const where_at *w, int *row, int *off) {
  int64_t stride = 1;
  bool packed = m->ndims < 2 || m->temp >= 0;
  *row = packed ? -1 : w->at[m->dim[0]];
  *off = aff_const(e, 0);
  for (int i = m->ndims - 1; i >= (packed ? 0 : 1); i--) {
    *off = aff_add(e, *off, aff_scale(e, w->at[m->dim[i]], stride));
    if (i > 0) stride *= dim_size(e, m->dim[i]);
  }
}

static const gs_node integer = {.type = GS_I64};

/* Compared along the inner dims with what is left of d from the outer ones on, which is the same
 * for a whole row, so that lanes compare small integers. */
int below_size(emit *e, int at, int d) {
  if (is_inside(e, at, d)) return -1;
  val index = blank(VAL_INDEX, &integer), left = blank(VAL_LEFT, &integer);
  int64_t c0 = e->affs[at].c, most = c0 > 0 ? c0 : 0, span = 0;
  int inner = aff_const(e, most), outer = aff_const(e, c0 - most);
  for (int i = 0; i < e->affs[at].n; i++) {
    int var = e->affs[at].var[i];
    int64_t c = e->affs[at].coef[i];
    bool is_inner = var < OPAQUE && !dim_is_outer(e, var) && c > 0;
    int *to = is_inner ? &inner : &outer;
    *to = aff_add(e, *to, aff_scale(e, aff_var(e, var), c));
    if (is_inner) most += c * (dim_size(e, var) - 1), span += c * dim_size(e, var);
  }
  index.off = inner;
  left.off = outer;
  left.dim = dim_root(e, d);
  left.index = span > most ? span : most + 1; /* the same for all parts of a block */
  int two[2] = {val_make(e, &index), val_make(e, &left)};
  return operation(e, GS_OP_LT, GS_BOOL, two, 2, 0);
}

/* Whether `other` holds wherever `guard` does. */
static bool implies(const emit *e, int guard, int other) {
  if (guard == other || other < 0) return true;
  if (guard < 0) return false;
  const val *g = &e->vals[guard];
  return g->kind == VAL_OP && g->op == GS_OP_AND &&
         (implies(e, g->arg[0], other) || implies(e, g->arg[1], other));
}

int both_guards(emit *e, int guard, int other) {
  if (guard < 0) return other;
  if (implies(e, guard, other)) return guard;
  int two[2] = {guard, other};
  return operation(e, GS_OP_AND, GS_BOOL, two, 2, 0);
}

static int find_mem(const emit *e, int tensor) {
  for (int i = 0; i < e->nmems; i++)
    if (e->mems[i].tensor == tensor) return i;
  return -1;
}

static int lower_leaf(emit *e, const gs_node *n, const where_at *w) {
  val v = blank(n->op == GS_OP_SCALAR ? VAL_SCALAR : VAL_LOAD, n);
  v.mem = find_mem(e, (int)n->index);
  if (v.mem < 0) {
    emit_fail(e, n->line, "tensor '%s' is not a leaf of this pass",
              gs_graph_tensor_at(e->g, (int)n->index)->name);
    return constant(e, n, 0);
  }
  v.line = 0;
  if (n->op == GS_OP_SCALAR) return val_make(e, &v);
  const mem *m = &e->mems[v.mem];
  for (int i = 0; i < m->ndims; i++)
    if (!is_inside(e, w->at[m->dim[i]], m->dim[i]))
      v.guard = both_guards(e, v.guard, w->guard[m->dim[i]]);
  mem_index(e, m, w, &v.row, &v.off);
  return val_make(e, &v);
}

static int lower_index(emit *e, const gs_node *n, int at) {
  val v = blank(VAL_INDEX, n);
  v.type = GS_I64;
  v.off = at;
  v.line = 0;
  return val_make(e, &v);
}

static int lower_join(emit *e, const gs_node *n, const where_at *w) {
  int at = w->at[n->dim[0]];
  if (e->affs[at].n == 0) {
    int64_t i = e->affs[at].c;
    return lower(e, n->arg[i < 0 || i >= n->nargs ? 0 : i], w);
  }
  int index = lower_index(e, n, at), result = lower(e, n->arg[n->nargs - 1], w);
  for (int i = n->nargs - 2; i >= 0; i--) {
    val number = blank(VAL_CONST, &integer);
    number.value = i;
    int pair[2] = {index, val_make(e, &number)};
    int three[3] = {operation(e, GS_OP_EQ, GS_BOOL, pair, 2, n->line), lower(e, n->arg[i], w),
                    result};
    result = operation(e, GS_OP_WHERE, n->type, three, 3, n->line);
  }
  return result;
}

/* The index of a gather. What may lie outside the dim is taken into it: no data makes a kernel read
 * beyond a tensor. (The checked emulator reports it instead.) */
static int gather_index(emit *e, int i, int d) {
  const val *x = &e->vals[i];
  int at = x->kind == VAL_INDEX   ? x->off
           : x->kind == VAL_CONST ? aff_const(e, (int64_t)x->value)
                                  : aff_var(e, OPAQUE + i);
  if (is_inside(e, at, d)) return at;
  val v = blank(VAL_INSIDE, &integer);
  v.nargs = 1;
  v.arg[0] = i;
  v.dim = dim_root(e, d);
  return aff_var(e, OPAQUE + val_make(e, &v));
}

/* The value where `guard` holds, else 0. */
static int zero_unless(emit *e, const gs_node *n, int guard, int value) {
  if (guard < 0) return value;
  if (e->vals[value].kind == VAL_LOAD && implies(e, e->vals[value].guard, guard)) return value;
  val zero = blank(VAL_CONST, n);
  zero.line = 0;
  int three[3] = {guard, value, val_make(e, &zero)};
  return operation(e, GS_OP_WHERE, n->type, three, 3, n->line);
}

static int lower_at(emit *e, const gs_node *n, const where_at *w) {
  where_at in = *w;
  int i = lower(e, n->arg[1], w), ok = n->nargs > 2 ? lower(e, n->arg[2], w) : -1;
  in.at[n->dim[0]] = gather_index(e, i, n->dim[0]);
  in.guard[n->dim[0]] = ok;
  in.holds = both_guards(e, in.holds, ok);
  return zero_unless(e, n, ok, lower(e, n->arg[0], &in));
}

/* Blocks of a dim, of which the last may be shorter: past the end the value is 0, whatever the
 * expression. */
static int lower_split(emit *e, const gs_node *n, const where_at *w) {
  where_at in = *w;
  where_view(e, n, &in);
  int guard = below_size(e, in.at[n->dim[0]], n->dim[0]);
  in.guard[n->dim[0]] = both_guards(e, in.guard[n->dim[0]], guard);
  if (implies(e, w->holds, guard)) return lower(e, n->arg[0], &in);
  in.holds = both_guards(e, w->holds, guard);
  return zero_unless(e, n, guard, lower(e, n->arg[0], &in));
}

/* Inside a reduction its dims run by themselves: a guard from outside says nothing about them. True
 * when an index from outside names one of them: no kernel can compute that in place (schedule.c).
 */
static bool bind_reduced(emit *e, const gs_node *n, where_at *w) {
  gs_dims rdims = n->rdims;
  bool captured = false;
  for (int d = 0; d < GS_MAX_DIMS; d++)
    captured |= (n->dims >> d & 1) && (aff_deps(e, w->at[d]) & rdims);
  for (int d = 0; d < GS_MAX_DIMS; d++) {
    int g = w->guard[d];
    if (rdims >> d & 1) w->at[d] = aff_var(e, d);
    if ((rdims >> d & 1) || (g >= 0 && (e->vals[g].deps & rdims))) w->guard[d] = -1;
  }
  if (w->holds >= 0 && (e->vals[w->holds].deps & rdims)) w->holds = -1;
  return captured;
}

static int lower_reduce(emit *e, const gs_node *n, const where_at *w) {
  where_at in = *w;
  bool captured = bind_reduced(e, n, &in);
  val v = blank(VAL_REDUCE, n);
  v.captured = captured;
  v.op = n->op;
  v.nargs = 1;
  v.arg[0] = lower(e, n->arg[0], &in);
  v.rdims = n->rdims;
  return val_make(e, &v);
}

/* All components of a fold have the same arguments. Its programs are lowered here, before anything
 * is written: fold.c finds them again. */
static int lower_fold(emit *e, const gs_node *n, const where_at *w) {
  const gs_fold *f = gs_graph_fold_at(e->g, (int)n->index);
  where_at in = *w, loops;
  where_loops(e, &loops);
  for (int i = 0; i < f->nstate; i++) {
    lower(e, f->step[i], &loops);
    lower(e, f->merge[i], &loops);
  }
  bool captured = bind_reduced(e, n, &in);
  val v = blank(VAL_REDUCE, n);
  v.captured = captured;
  v.op = n->op;
  v.index = n->index;
  v.dim = n->dim[0];
  v.nargs = n->nargs;
  for (int i = 0; i < n->nargs; i++) v.arg[i] = lower(e, n->arg[i], &in);
  v.rdims = n->rdims;
  return val_make(e, &v);
}

static int lower_program_leaf(emit *e, const gs_node *n) {
  val v = blank(n->op == GS_OP_STATE ? VAL_STATE : VAL_ELEMENT, n);
  v.index = n->index;
  v.line = 0;
  return val_make(e, &v);
}

static int lower_op(emit *e, const gs_node *n, const where_at *w) {
  int arg[GS_MAX_ARGS] = {0};
  for (int i = 0; i < n->nargs; i++) arg[i] = lower(e, n->arg[i], w);
  if (n->op == GS_OP_STOP || (n->op == GS_OP_ROUND && n->to == GS_F32)) return arg[0];
  if (n->op == GS_OP_REAL && e->vals[arg[0]].type == GS_F32) return arg[0];
  val v = blank(VAL_OP, n);
  v.op = n->op;
  v.to = n->to;
  if (n->op == GS_OP_BUCKET || n->op == GS_OP_LOOKUP) v.index = n->index;
  v.nargs = n->nargs;
  memcpy(v.arg, arg, sizeof(int) * (size_t)n->nargs);
  return val_make(e, &v);
}

static int lower_node(emit *e, const gs_node *n, const where_at *w) {
  where_at in = *w;
  val v;
  switch (n->op) {
  case GS_OP_CONST:
    v = blank(VAL_CONST, n);
    v.value = n->value;
    v.line = 0;
    return val_make(e, &v);
  case GS_OP_INPUT:
  case GS_OP_SCALAR: return lower_leaf(e, n, w);
  case GS_OP_INDEX: return lower_index(e, n, w->at[n->dim[0]]);
  case GS_OP_SIZE:
    v = blank(VAL_SIZE, n);
    v.dim = dim_root(e, n->dim[0]);
    v.line = 0;
    return val_make(e, &v);
  case GS_OP_SUM:
  case GS_OP_RMAX:
  case GS_OP_RMIN:
  case GS_OP_LOGSUMEXP: return lower_reduce(e, n, w);
  case GS_OP_FOLD: return lower_fold(e, n, w);
  case GS_OP_STATE:
  case GS_OP_ELEMENT: return lower_program_leaf(e, n);
  case GS_OP_SPLIT: return lower_split(e, n, w);
  case GS_OP_MERGE:
  case GS_OP_PICK:
  case GS_OP_SLICE:
  case GS_OP_RENAME: where_view(e, n, &in); return lower(e, n->arg[0], &in);
  case GS_OP_JOIN: return lower_join(e, n, w);
  case GS_OP_AT: return lower_at(e, n, w);
  case GS_OP_SUM_BY:
    emit_fail(e, n->line, "a sum grouped by a key can't be used inside this expression");
    return constant(e, n, 0);
  default: return lower_op(e, n, w);
  }
}

int lower(emit *e, gs_id id, const where_at *w) {
  const gs_node n = *gs_graph_node(e->g, id);
  int at[2 * GS_MAX_DIMS], nat = 0;
  for (int d = 0; d < GS_MAX_DIMS; d++)
    if (n.dims >> d & 1) at[nat++] = w->at[d], at[nat++] = w->guard[d];
  if (id >= e->nmemos) {
    gs_id grown = 2 * id + 64;
    memo **m = GS_NEW_N(e->a, memo *, grown);
    if (e->nmemos) memcpy(m, e->memos, sizeof(memo *) * (size_t)e->nmemos);
    e->memos = m;
    e->nmemos = grown;
  }
  for (memo *m = e->memos[id]; m; m = m->next)
    if (m->holds == w->holds && memcmp(m->at, at, sizeof(int) * (size_t)nat) == 0) return m->val;
  memo *m = gs_arena_alloc(e->a, sizeof(memo) + sizeof(int) * (size_t)nat);
  m->holds = w->holds;
  memcpy(m->at, at, sizeof(int) * (size_t)nat);
  m->val = lower_node(e, &n, w);
  m->next = e->memos[id];
  e->memos[id] = m;
  return m->val;
}
