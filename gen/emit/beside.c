/* beside.c: rows of different kinds, such as the heads of two tensors, that nothing binds together:
 * one kernel does both, so that the second needs no launch of its own and its blocks fill the
 * processors where those of the first run out. */
#include "emit/emit.h"

#include <string.h>

/* Whether u neither reads what `made` writes nor writes over what anybody reads. */
static bool is_free(const emit *e, const unit *u, const plan *p, const unit *made) {
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, p->roots, p->nroots, seen, true, NULL);
  for (int i = 0; i < u->nstores; i++)
    if (e->mems[u->stores[i].mem].shares >= 0 || u->stores[i].add) return false;
  for (int v = 0; v < e->nvals; v++)
    for (int i = 0; seen[v] && i < made->nstores; i++)
      if (e->vals[v].kind == VAL_LOAD && e->vals[v].mem == made->stores[i].mem) return false;
  return true;
}

/* Groups of lanes of a warp, as many a row in both. */
static bool is_alike(const geometry *a, const geometry *b) {
  return a->lanes > 1 && a->lanes < a->threads && a->lanes == b->lanes &&
         a->threads == b->threads && a->per_block == b->per_block && a->per_block > 1;
}

/* Blocks of both; false where neither number is a whole multiple of its sizes. */
static bool count_both(const emit *e, const unit *u, const unit *other, int64_t per_block,
                       gs_count *out) {
  gs_count a = count_rows(e, u, per_block, 0), b = count_rows(e, other, per_block, 0);
  if (b.coef % b.div) {
    gs_count swap = a;
    a = b;
    b = swap;
  }
  if (b.coef % b.div || a.plus || b.plus || b.each > 1) return false;
  *out = a;
  out->plus = b.coef / b.div;
  out->plus_dims = b.dims;
  return true;
}

static void merge_uses(kern *k, const kern *other) {
  for (int m = 0; m < k->e->nmems; m++) {
    k->reads[m] |= other->reads[m];
    k->writes[m] |= other->writes[m];
    k->strides[m] |= other->strides[m];
  }
  for (int d = 0; d < GS_MAX_DIMS; d++) k->dims[d] |= other->dims[d];
  for (int t = 0; t < k->ntables; t++) k->tables[t] |= other->tables[t];
}

static bool needs_shared(const kern *k) {
  return k->scratch || k->dynamic || k->fold_f32 || k->fold_i64 || k->meets;
}

static void add_both(kern *k, kern *other, const plan *p, const gs_count *grid,
                     const char *const *bodies) {
  const geometry *g = &p->g;
  shape sh = {.template_name = "row", .piece = "beside", .threads = g->threads, .grid = *grid};
  hole_int(k, &sh, "BLOCKS", 1);
  hole_int(k, &sh, "ROWS", g->per_block);
  hole_int(k, &sh, "LANES", g->lanes);
  hole(&sh, "ROW", row_name(k));
  hole(&sh, "COUNT", rows_text(k));
  hole(&sh, "BODY", bodies[0]);
  hole(&sh, "OTHER_ROW", row_name(other));
  hole(&sh, "OTHER_COUNT", rows_text(other));
  hole(&sh, "OTHER_BODY", bodies[1]);
  sh.tunables = geometry_text(k, g, p->main.vec, g->resident ? "mode=resident" : "mode=streamed");
  merge_uses(k, other);
  unit both = *k->u;
  both.formula = fmt(k, "%s%s", k->u->formula ? k->u->formula : "",
                     other->u->formula ? other->u->formula : "");
  k->u = &both;
  add_kernel(k, &sh);
}

bool write_beside(emit *e, unit *u, unit *other) {
  unit *units[2] = {u, other};
  kern *k = GS_NEW_N(e->a, kern, 2);
  plan *p = GS_NEW_N(e->a, plan, 2);
  const char *bodies[2];
  gs_count grid;
  if (u->kind != UNIT_ROW || other->kind != UNIT_ROW || e->caps->row_threads == 1) return false;
  for (int i = 0; i < 2; i++)
    if (!row_begin(&k[i], &p[i], e, units[i])) return false;
  if (!is_alike(&p[0].g, &p[1].g) || p[0].g.resident != p[1].g.resident) return false;
  if (!is_free(e, u, &p[0], other) || !is_free(e, other, &p[1], u)) return false;
  if (!count_both(e, u, other, p[0].g.per_block, &grid)) return false;
  for (int i = 0; i < 2; i++) {
    row_inside(&k[i], &p[i]);
    bodies[i] = take_text(&k[i]);
  }
  if (needs_shared(&k[0]) || needs_shared(&k[1])) return false;
  add_both(&k[0], &k[1], &p[0], &grid, bodies);
  return true;
}
