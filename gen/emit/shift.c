/* shift.c: long rows that begin anywhere: whole aligned vectors are taken from the first place in
 * the row that is aligned; the elements before and after them, fewer than two vectors, are taken
 * one at a time, by the first lanes. Where a row begins is known when it runs. */
#include "emit/emit.h"

#include <string.h>

enum { SHORTEST = 4096 }; /* elements of a row for which it is worth it */

/* Whether an access lies along the row, an element further for each. */
static bool lies_flat(const emit *e, int off, int last) {
  const aff *a = &e->affs[off];
  return a->n == 1 && a->c == 0 && a->var[0] == last && a->coef[0] == 1;
}

static const val *find_leader(kern *k, const plan *p, int last) {
  emit *e = k->e;
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, p->roots, p->nroots, seen, true, NULL);
  for (int v = 0; v < e->nvals; v++) {
    const val *x = &e->vals[v];
    if (!seen[v] || x->kind != VAL_LOAD || x->type != GS_F32 || x->guard >= 0 || x->row < 0)
      continue;
    if (e->mems[x->mem].ndims == 2 && lies_flat(e, x->off, last)) return x;
  }
  return NULL;
}

/* All accesses along the row to the leader's memory are in the leader's row. */
static bool is_alone(kern *k, const plan *p, const val *leader, int last) {
  emit *e = k->e;
  int real = mem_real(e, leader->mem);
  for (int v = 0; v < e->nvals; v++) {
    const val *x = &e->vals[v];
    if (x->kind != VAL_LOAD || mem_real(e, x->mem) != real || x->off < 0) continue;
    if ((aff_deps(e, x->off) >> last & 1) && x->row != leader->row) return false;
  }
  for (int i = 0; i < k->u->nstores; i++) {
    const store *st = &k->u->stores[i];
    if (mem_real(e, st->mem) != real) continue;
    if (st->row != leader->row || !lies_flat(e, st->off, last)) return false;
  }
  return p->main.n == 1;
}

bool shift_rows(kern *k, plan *p) {
  emit *e = k->e;
  int last = p->main.n == 1 ? p->main.dim[0] : -1;
  if (last < 0 || p->main.count < SHORTEST || e->caps->row_threads == 1) return false;
  const val *leader = find_leader(k, p, last);
  if (!leader || !is_alone(k, p, leader, last)) return false;
  for (int i = 0; i < p->nloops; i++)
    for (int j = 0; j < p->loops[i]->nterms; j++)
      if (p->loops[i]->terms[j].op == GS_OP_FOLD) return false;
  int vec = 16 / (int)gs_type_size(e->mems[leader->mem].type);
  if (vec > 8 || p->main.vec >= vec) return false;
  for (int i = 0; i < p->nloops; i++) {
    space *s = &p->loops[i]->s;
    if (s->n != 1 || s->dim[0] != last) continue;
    s->vec = vec;
    s->shifted = true;
    s->shift_mem = mem_real(e, leader->mem);
    s->shift_row = leader->row;
    p->main = *s;
  }
  return true;
}

void unshift_rows(plan *p, int vec) {
  for (int i = 0; i < p->nloops; i++)
    if (p->loops[i]->s.shifted) {
      p->loops[i]->s.shifted = false;
      p->loops[i]->s.vec = vec;
    }
  p->main.shifted = false;
  p->main.vec = vec;
}

bool is_shifted_access(const emit *e, int m, int off, const space *s) {
  return mem_real(e, m) == s->shift_mem && lies_flat(e, off, s->dim[0]);
}

/* head: elements before the first vector. */
void declare_head(kern *k, const plan *p) {
  const space *s = &p->main;
  if (!s->shifted) return;
  const char *base = NULL;
  for (int i = 0; i < k->nbases; i++)
    if (k->bases[i].mem == s->shift_mem && k->bases[i].row == s->shift_row) base = k->bases[i].name;
  if (!base) {
    emit_fail(k->e, 0, "a row has no beginning");
    return;
  }
  line(k, "const int head = (int)(-%s & %d);", base, s->vec - 1);
}

/* The lane's elements outside of vectors, of what several loops read. */
static void load_edges(kern *k, const plan *p) {
  space one = p->main;
  const char *inside = fmt(k, "edge < %lld", (long long)one.count), *own = k->var[one.dim[0]];
  one.vec = 1;
  one.shifted = false;
  k->s = &one;
  k->flat = k->var[one.dim[0]] = "edge";
  for (int i = 0; i < p->nheld && k->nedges < 8; i++) {
    const val *x = &k->e->vals[p->held[i].value];
    if (!p->held[i].twice || x->guard >= 0 || !is_shifted_access(k->e, x->mem, x->off, &p->main))
      continue;
    k->edges[k->nedges].value = p->held[i].value;
    k->edges[k->nedges++].text = late_load(k, p->held[i].value, inside);
  }
  k->s = NULL;
  k->flat = NULL;
  k->var[one.dim[0]] = own;
}

/* And edge: the lane's element outside of vectors, if any. */
void declare_shift(kern *k, const plan *p) {
  const space *s = &p->main;
  if (!s->shifted) return;
  declare_head(k, p);
  const char *lane = lane_name(&p->g);
  line(k, "const int edge = %s < head ? %s : %s + (%lld - head) / %d * %d;", lane, lane, lane,
       (long long)s->count, s->vec, s->vec);
  load_edges(k, p);
}

/* What a loop does with the elements outside of vectors. */
void write_edges(kern *k, const loop *l) {
  loop *one = GS_NEW(k->e->a, loop);
  *one = *l;
  one->s.vec = 1;
  one->s.shifted = false;
  for (int i = 0; i < one->nterms; i++)
    if (one->terms[i].kind == TERM_REDUCE) one->terms[i].chunk = "[0]";
  int nkept = k->nkept;
  k->nkept = 0;
  open_block(k, "if (edge < %lld)", (long long)l->s.count);
  for (int i = 0; i < k->nedges; i++) k->name[k->edges[i].value] = k->edges[i].text;
  write_step(k, &one->s, "edge", one->terms, one->nterms);
  for (int i = 0; i < k->nedges; i++) k->name[k->edges[i].value] = NULL;
  close_block(k);
  k->nkept = nkept;
}
