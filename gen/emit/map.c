/* map.c: template map: no reduction; every thread takes one vector of the result. */
#include "emit/emit.h"

#include <string.h>

enum { MAP_THREADS = 256 };

static int store_terms(const unit *u, term *terms, int *roots) {
  for (int i = 0; i < u->nstores; i++) {
    terms[i] =
        (term){.kind = TERM_STORE, .value = u->stores[i].value, .st = &u->stores[i], .chunk = ""};
    roots[i] = u->stores[i].value;
  }
  return u->nstores;
}

/* One outer dim and nothing inside: vectors lie along it, and the end is taken one by one. */
static void write_flat(kern *k, const space *s, const term *terms, int n, shape *sh,
                       const int *roots) {
  unit *u = k->u;
  hole(sh, "COUNT", dim_text(k, u->row_dim[0]));
  u->rows = 0; /* what depends on the dim differs along the vector */
  row_values(k, roots, n, 0);
  hole(sh, "VALUES", take_text(k));
  write_step(k, s, "i", terms, n);
  hole(sh, "STEP", take_text(k));
  sh->piece = s->vec > 1 ? "flat" : "flat_one";
  sh->grid = count_rows(k->e, u, (int64_t)MAP_THREADS * s->vec, 0);
  if (s->vec == 1) return;
  space one = *s;
  one.vec = 1;
  write_step(k, &one, "j", terms, n);
  hole(sh, "STEP_ONE", take_text(k));
  hole_int(k, sh, "VEC", s->vec);
}

/* Rows of at least a block of vectors: a block has a part of one row. */
static void write_wide(kern *k, const space *s, shape *sh) {
  int64_t blocks = (s->count / s->vec + MAP_THREADS - 1) / MAP_THREADS;
  const char *row = row_name(k), *part = "", *place = "";
  if (k->u->nrow == 0)
    part = "(int)GS_BID";
  else if (blocks > 1)
    part = fmt(k, "(int)(GS_BID %% %lld)", (long long)blocks);
  if (k->u->nrow > 0)
    place = blocks > 1 ? fmt(k, "const i64 %s = GS_BID / %lld;", row, (long long)blocks)
                       : fmt(k, "const i64 %s = GS_BID;", row);
  const char *at = *part ? fmt(k, "(%s * %d + GS_TID)", part, MAP_THREADS) : "GS_TID";
  hole(sh, "PLACE", place);
  hole(sh, "INDEX", s->vec > 1 ? fmt(k, "%s * %d", at, s->vec) : at);
  hole_int(k, sh, "COUNT", s->count);
  sh->piece = "wide";
  sh->grid = count_rows(k->e, k->u, 1, 0);
  sh->grid.coef *= blocks;
}

/* Short rows: a block has several. */
static void write_narrow(kern *k, const space *s, shape *sh) {
  int64_t vectors = s->count / s->vec, rows = MAP_THREADS / vectors;
  hole(sh, "ROW", row_name(k));
  hole_int(k, sh, "ROWS", rows);
  hole_int(k, sh, "LANES", vectors);
  const char *all = fmt(k, "GS_TID < %lld && ", (long long)(rows * vectors));
  hole(sh, "USED", rows * vectors == MAP_THREADS ? "" : all);
  hole(sh, "INDEX", s->vec > 1 ? fmt(k, " * %d", s->vec) : "");
  hole(sh, "COUNT", rows_text(k));
  sh->piece = "narrow";
  sh->grid = count_rows(k->e, k->u, rows, 0);
}

static void write_rows(kern *k, const space *s, const term *terms, int n, shape *sh,
                       const int *roots) {
  row_bind(k);
  row_values(k, roots, n, 0);
  write_step(k, s, "i", terms, n);
  hole(sh, "BODY", take_text(k));
  if (s->count / s->vec >= MAP_THREADS / 2 || k->u->nrow == 0)
    write_wide(k, s, sh);
  else
    write_narrow(k, s, sh);
}

void write_map(emit *e, unit *u) {
  term terms[MAX_STORES];
  int roots[MAX_STORES], n = store_terms(u, terms, roots);
  const store *st[MAX_STORES];
  for (int i = 0; i < n; i++) st[i] = &u->stores[i];
  kern k;
  unit_rows(e, u);
  gs_dims inner = u->stores[0].dims & ~u->rows;
  bool flat = inner == 0 && u->nrow == 1;
  space s;
  space_of(e, flat ? u->rows : inner, roots, n, st, n, &s);
  if (e->status) return;
  kern_begin(&k, e, u);
  if (flat) u->rows = 0;
  kern_uses(&k, roots, n);
  shape sh = {.template_name = "map", .threads = MAP_THREADS, .barrier_free = true};
  if (flat)
    write_flat(&k, &s, terms, n, &sh, roots);
  else
    write_rows(&k, &s, terms, n, &sh, roots);
  sh.tunables = fmt(&k, "threads=%d vec=%d", MAP_THREADS, s.vec);
  add_kernel(&k, &sh);
}
