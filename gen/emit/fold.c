/* fold.c: reductions by the author's own step and merge (gs.reduce). A thread takes its elements
 * one after another; lanes then merge over distances n/2, n/4 ... 1 with the lower lane first, so
 * that every lane computes the same bits, and warps do the same through shared memory. Lanes
 * without elements merge the initial state. */
#include "emit/emit.h"

#include <string.h>

bool same_fold(const val *a, const val *b) {
  return a->op == b->op && a->index == b->index && a->rdims == b->rdims && a->nargs == b->nargs &&
         memcmp(a->arg, b->arg, sizeof(int) * (size_t)a->nargs) == 0;
}

static const gs_fold *fold_of(const kern *k, const term *t) {
  return gs_graph_fold_at(k->e->g, (int)k->e->vals[t->made].index);
}

static const char *c_type(gs_type t) {
  return t == GS_I64 ? "i64" : t == GS_BOOL ? "bool" : "f32";
}

static const char *state_name(kern *k, const term *t, int i) {
  return fmt(k, "%s_%d_acc", t->name, i);
}

static const char *start_text(kern *k, const gs_fold *f, int i) {
  return number_text(k, f->type[i], f->init[i]);
}

void fold_declare(kern *k, const term *t) {
  const gs_fold *f = fold_of(k, t);
  for (int i = 0; i < f->nstate; i++)
    line(k, "%s %s = %s;", c_type(f->type[i]), state_name(k, t, i), start_text(k, f, i));
}

/* ---- a program ---- */

typedef struct program {
  const term *t;
  const gs_fold *f;
  int root[GS_MAX_FOLD];
  const char *const *state, *const *element; /* texts of the leaves */
  bool *seen;
  int *uses;
} program;

static void count_uses(kern *k, program *p) {
  emit *e = k->e;
  p->seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  p->uses = GS_NEW_N(e->a, int, e->nvals + 1);
  collect(e, p->root, p->f->nstate, p->seen, false, NULL);
  for (int i = 0; i < p->f->nstate; i++) p->uses[p->root[i]]++;
  for (int v = 0; v < e->nvals; v++)
    for (int i = 0; p->seen[v] && i < e->vals[v].nargs; i++) p->uses[e->vals[v].arg[i]]++;
}

/* Names of the leaves, and of what is used more than once. */
static void name_program(kern *k, program *p) {
  emit *e = k->e;
  int n = 0;
  for (int v = 0; v < e->nvals; v++) {
    const val *x = &e->vals[v];
    if (!p->seen[v]) continue;
    if (x->kind == VAL_STATE) k->name[v] = p->state[x->index];
    if (x->kind == VAL_ELEMENT) k->name[v] = p->element[x->index];
    if (x->kind != VAL_OP || (p->uses[v] < 2 && strlen(value_text(k, v)) <= 64)) continue;
    const char *name = fmt(k, "%s_t%d_v", p->t->name, ++n);
    line(k, "const %s %s = %s;", c_type(x->type), name, bare_text(k, v));
    k->name[v] = name;
  }
}

/* Writes what the state becomes. */
static void write_program(kern *k, const term *t, const gs_id *ids, const char *const *state,
                          const char *const *element) {
  program p = {.t = t, .f = fold_of(k, t), .state = state, .element = element};
  where_at loops;
  where_loops(k->e, &loops);
  for (int i = 0; i < p.f->nstate; i++) p.root[i] = lower(k->e, ids[i], &loops);
  count_uses(k, &p);
  name_program(k, &p);
  const char *next[GS_MAX_FOLD];
  for (int i = 0; i < p.f->nstate; i++) {
    next[i] = fmt(k, "%s_n%d_v", t->name, i);
    line(k, "const %s %s = %s;", c_type(p.f->type[i]), next[i], bare_text(k, p.root[i]));
  }
  for (int i = 0; i < p.f->nstate; i++) line(k, "%s = %s;", state_name(k, t, i), next[i]);
  for (int v = 0; v < k->e->nvals; v++)
    if (p.seen[v]) k->name[v] = NULL;
}

/* ---- over the row ---- */

void fold_step(kern *k, const term *t) {
  const gs_fold *f = fold_of(k, t);
  const val x = k->e->vals[t->made];
  const char *state[GS_MAX_FOLD], *element[GS_MAX_ARGS];
  line(k, "{");
  k->depth++;
  for (int i = 0; i < f->nstate; i++) state[i] = state_name(k, t, i);
  for (int i = 0; i < x.nargs; i++) {
    element[i] = fmt(k, "%s_e%d_v", t->name, i);
    line(k, "const %s %s = %s;", c_type(k->e->vals[x.arg[i]].type), element[i],
         bare_text(k, x.arg[i]));
  }
  write_program(k, t, f->step, state, element);
  close_block(k);
}

/* ---- merging ---- */

static void merge_lanes(kern *k, const term *t, int lanes) {
  const gs_fold *f = fold_of(k, t);
  const char *first[GS_MAX_FOLD], *second[GS_MAX_FOLD];
  line(k, "GS_UNROLL");
  open_block(k, "for (int o = %d; o > 0; o >>= 1)", lanes / 2);
  line(k, "const bool low = (GS_LANE & o) == 0;");
  for (int i = 0; i < f->nstate; i++) {
    const char *type = c_type(f->type[i]), *own = state_name(k, t, i);
    const char *other = fmt(k, "%s_o%d_v", t->name, i);
    first[i] = fmt(k, "%s_a%d_v", t->name, i);
    second[i] = fmt(k, "%s_b%d_v", t->name, i);
    line(k, "const %s %s = GS_EXCHANGE(%s, o);", type, other, own);
    line(k, "const %s %s = low ? %s : %s;", type, first[i], own, other);
    line(k, "const %s %s = low ? %s : %s;", type, second[i], other, own);
  }
  write_program(k, t, f->merge, first, second);
  close_block(k);
}

/* Each warp's state goes through shared memory to every warp, which merge them alike. */
static void merge_warps(kern *k, const term *t, int warps) {
  const gs_fold *f = fold_of(k, t);
  int most = 2;
  while (most < warps) most *= 2;
  line(k, "GS_SYNC();");
  open_block(k, "if (GS_LANE == 0)");
  for (int i = 0; i < f->nstate; i++)
    line(k, "fold_%s_%d[GS_WARP] = %s;", c_type(f->type[i]), i, state_name(k, t, i));
  close_block(k);
  line(k, "GS_SYNC();");
  if (most > warps) open_block(k, "if (GS_LANE %% %d < %d)", most, warps);
  for (int i = 0; i < f->nstate; i++) {
    *(f->type[i] == GS_I64 ? &k->fold_i64 : &k->fold_f32) |= 1u << i;
    line(k, "%s = fold_%s_%d[GS_LANE %% %d];", state_name(k, t, i), c_type(f->type[i]), i, most);
  }
  if (most > warps) {
    close_block(k);
    open_block(k, "else");
    for (int i = 0; i < f->nstate; i++)
      line(k, "%s = %s;", state_name(k, t, i), start_text(k, f, i));
    close_block(k);
  }
  merge_lanes(k, t, most);
}

void fold_finish(kern *k, const geometry *g, const term *t) {
  emit *e = k->e;
  if (g->lanes > 1) merge_lanes(k, t, g->lanes < 32 ? g->lanes : 32);
  if (g->lanes > 32) merge_warps(k, t, g->lanes / 32);
  for (int v = 0; v < e->nvals; v++)
    if (e->vals[v].kind == VAL_REDUCE && e->vals[v].op == GS_OP_FOLD &&
        same_fold(&e->vals[v], &e->vals[t->made]))
      k->name[v] = state_name(k, t, e->vals[v].dim);
}
