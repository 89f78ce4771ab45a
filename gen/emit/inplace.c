/* inplace.c: results that may be written over an input: proves that each element is read for the
 * last time by the thread that writes it, before it does, or in its row before a barrier; else
 * refuses.
 *
 * Requires: units in their order. Keeps: values. Refusing is never an error: the result then has
 * memory of its own (gs_binding.inplace = -1). */
#include "emit/emit.h"

#include <string.h>

static int unit_roots(const unit *u, int *roots) {
  int n = 0;
  for (int i = 0; i < u->nstores; i++) roots[n++] = u->stores[i].value;
  for (int i = 0; i < u->ncolumns && u->kind != UNIT_TOTAL; i++) roots[n++] = u->columns[i].value;
  if (u->kind == UNIT_SUM_BY) roots[n++] = u->key;
  return n;
}

static bool unit_reads(const emit *e, const unit *u, int m) {
  int roots[MAX_STORES * 2 + 1], n = unit_roots(u, roots);
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, roots, n, seen, true, NULL);
  for (int v = 0; v < e->nvals; v++)
    if (seen[v] && e->vals[v].kind == VAL_LOAD && e->vals[v].mem == m) return true;
  return false;
}

static bool written_here(const unit *u, int result, const val *x) {
  for (int i = 0; i < u->nstores; i++)
    if (u->stores[i].mem == result && u->stores[i].row == x->row && u->stores[i].off == x->off)
      return true;
  return false;
}

/* A read elsewhere in the row, of a kernel whose threads meet between it and the writes. */
static bool read_before_barrier(const emit *e, const unit *u, int result, const val *x) {
  if (u->kind != UNIT_ROW && u->kind != UNIT_COLUMNS) return false;
  if (!u->reduces || x->row < 0) return false;
  gs_dims rows = u->rows;
  if (aff_deps(e, x->row) != rows || (rows & (rows - 1))) return false;
  for (int i = 0; i < u->nstores; i++)
    if (u->stores[i].mem == result && u->stores[i].row != x->row) return false;
  return true;
}

/* Whether a store over other dims than those of `result` reads m: other threads do. */
static bool other_side_reads(const emit *e, const unit *u, int result, int m) {
  int roots[MAX_STORES], n = 0;
  gs_dims dims = 0;
  for (int i = 0; i < u->nstores; i++)
    if (u->stores[i].mem == result) dims = u->stores[i].dims;
  for (int i = 0; i < u->nstores; i++)
    if (u->stores[i].dims != dims) roots[n++] = u->stores[i].value;
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, roots, n, seen, true, NULL);
  for (int v = 0; v < e->nvals; v++)
    if (seen[v] && e->vals[v].kind == VAL_LOAD && e->vals[v].mem == m) return true;
  return false;
}

/* Whether every read of m in u leaves `result` free to be written over it. */
static bool is_safe(const emit *e, unit *u, int result, int m) {
  int roots[MAX_STORES * 2 + 1], n = unit_roots(u, roots);
  bool *any = GS_NEW_N(e->a, bool, e->nvals + 1), *last = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, roots, n, any, true, NULL);
  collect(e, roots, n, last, false, NULL);
  bool elsewhere = false;
  if (u->kind == UNIT_MAP && other_side_reads(e, u, result, m)) return false;
  for (int v = 0; v < e->nvals; v++) {
    const val *x = &e->vals[v];
    if (!any[v] || x->kind != VAL_LOAD || x->mem != m) continue;
    if (written_here(u, result, x)) continue;
    bool along = (x->deps & ~u->rows) != 0;
    if (last[v] && along) return false; /* read in the pass that writes */
    if (!read_before_barrier(e, u, result, x)) return false;
    elsewhere = true;
  }
  if (u->kind == UNIT_ROW || u->kind == UNIT_COLUMNS || u->kind == UNIT_MAP) {
    u->gathers |= elsewhere;
    return true;
  }
  return false;
}

static bool same_shape(const mem *a, const mem *b) {
  return a->type == b->type && a->ndims == b->ndims &&
         memcmp(a->dim, b->dim, sizeof(int) * (size_t)a->ndims) == 0;
}

static int writer(const emit *e, int m) {
  for (int k = 0; k < e->nunits; k++)
    for (int i = 0; i < e->units[k]->nstores; i++)
      if (e->units[k]->stores[i].mem == m) return k;
  return -1;
}

static void try_result(emit *e, int r) {
  const gs_result *x = &e->results[r];
  int m = e->result_mem[r], partner = -1;
  if (!x->inplace || x->add || x->same) return;
  for (int i = 0; i < e->nmems; i++)
    if (e->mems[i].tensor >= 0 && e->mems[i].binding >= 0 &&
        strcmp(e->list->bindings[e->mems[i].binding].name, x->inplace) == 0)
      partner = i;
  if (partner < 0 || !same_shape(&e->mems[m], &e->mems[partner])) return;
  for (int i = 0; i < e->nmems; i++)
    if (e->mems[i].shares == partner) return;
  int k = writer(e, m);
  if (k < 0) return;
  for (int later = k + 1; later < e->nunits; later++)
    if (unit_reads(e, e->units[later], partner)) return;
  if (!is_safe(e, e->units[k], m, partner)) return;
  e->mems[m].shares = partner;
  e->list->bindings[e->mems[m].binding].inplace = e->mems[partner].binding;
}

void share_same(emit *e, int r) {
  for (int k = 0; k < r; k++) {
    if (strcmp(e->results[k].name, e->results[r].same) != 0) continue;
    mem *m = &e->mems[e->result_mem[r]];
    m->shares = e->result_mem[k];
    e->list->bindings[m->binding].inplace = e->mems[e->result_mem[k]].binding;
  }
}

void share_in_place(emit *e) {
  for (int r = 0; r < e->pass->nresults; r++) try_result(e, r);
}

/* Whether b reads or writes what a writes. */
static bool meddles(const emit *e, const unit *a, const unit *b) {
  for (int i = 0; i < a->nstores; i++) {
    int m = a->stores[i].mem, shared = e->mems[m].shares;
    if (unit_reads(e, b, m) || (shared >= 0 && unit_reads(e, b, shared))) return true;
    for (int j = 0; j < b->nstores; j++)
      if (mem_real(e, b->stores[j].mem) == mem_real(e, m)) return true;
  }
  return false;
}

bool are_apart(const emit *e, const unit *a, const unit *b) {
  return !meddles(e, a, b) && !meddles(e, b, a);
}
