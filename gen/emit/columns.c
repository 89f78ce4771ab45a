/* columns.c: template columns (sums over rows alone: threads own columns) and template all (full
 * sums). total.c adds the parts that they write. */
#include "emit/emit.h"

#include <string.h>

enum { COLUMN_THREADS = 128, COLUMN_WAVES = 8, ALL_THREADS = 256, ALL_WAVES = 4 };

static int column_terms(const unit *u, term *terms, int *roots) {
  for (int i = 0; i < u->ncolumns; i++) {
    terms[i] = (term){.kind = TERM_REDUCE,
                      .value = u->columns[i].value,
                      .op = u->columns[i].op,
                      .name = u->columns[i].name,
                      .chunk = "",
                      .compensated = u->columns[i].op == GS_OP_SUM};
    roots[i] = u->columns[i].value;
  }
  return u->ncolumns;
}

static void declare_all(kern *k, const term *terms, int n, int vec) {
  for (int i = 0; i < n; i++) declare_sum(k, &terms[i], vec, "");
}

static void allocate(emit *e, unit *u, int64_t cap, int64_t each) {
  u->per_block = 1;
  u->parts_each = 1;
  u->cap = cap;
  for (int i = 0; i < u->ncolumns; i++)
    mem_allocate_temp(e, u->columns[i].mem, (gs_count){.coef = cap * each, .div = 1});
}

void write_columns(emit *e, unit *u) {
  kern k;
  term terms[MAX_STORES];
  int roots[MAX_STORES];
  space s;
  unit_rows(e, u);
  kern_begin(&k, e, u);
  int n = column_terms(u, terms, roots);
  kern_uses(&k, roots, n);
  space_of(e, u->kept, roots, n, NULL, 0, &s);
  if (e->status) return;
  int64_t vectors = s.count / s.vec, tiles = (vectors + COLUMN_THREADS - 1) / COLUMN_THREADS;
  int64_t groups = (int64_t)e->caps->sm_count * COLUMN_WAVES / tiles;
  if (e->caps->is_emulator) groups = e->caps->sm_count;
  if (groups < 1) groups = 1;
  allocate(e, u, groups, s.count);
  u->parts_space = s;
  shape sh = {.template_name = "columns",
              .piece = "tiles",
              .threads = COLUMN_THREADS,
              .barrier_free = true};
  declare_all(&k, terms, n, s.vec);
  hole(&sh, "SUMS", take_text(&k));
  row_bind(&k);
  row_values(&k, roots, n, 0);
  write_step(&k, &s, "i", terms, n);
  hole(&sh, "BODY", take_text(&k));
  for (int i = 0; i < n; i++) {
    const char *put = s.vec > 1 ? fmt(&k, "gs_store<%d>", s.vec) : "gs_put";
    line(&k, "%s(%s, group * %lld + i, %s_acc);", put, e->mems[u->columns[i].mem].name,
         (long long)s.count, terms[i].name);
    k.writes[u->columns[i].mem] = true;
  }
  hole(&sh, "PARTS", take_text(&k));
  hole(&sh, "ROW", row_name(&k));
  hole_int(&k, &sh, "TILES", tiles);
  hole(&sh, "VEC", s.vec > 1 ? fmt(&k, " * %d", s.vec) : "");
  hole_int(&k, &sh, "WIDTH", s.count);
  hole(&sh, "COUNT", rows_text(&k));
  sh.grid = count_rows(e, u, 1, groups * tiles);
  sh.grid.coef *= tiles;
  sh.tunables = fmt(&k, "threads=%d vec=%d groups=%lld", COLUMN_THREADS, s.vec, (long long)groups);
  add_kernel(&k, &sh);
}

/* ---- full sums ---- */

static void total_parts(kern *k, const unit *u, const term *terms, int vec, bool alone, shape *sh) {
  for (int i = 0; i < u->ncolumns; i++) {
    const char *acc = fold_lanes(k, fmt(k, "%s_acc", terms[i].name), vec, terms[i].op);
    const char *what = terms[i].op == GS_OP_RMAX   ? "MAX"
                       : terms[i].op == GS_OP_RMIN ? "MIN"
                                                   : "SUM";
    if (!alone) {
      line(k, "const f32 %s_all = GS_BLOCK_%s(%s, scratch);", terms[i].name, what, acc);
      acc = fmt(k, "%s_all", terms[i].name);
    }
    line(k, "%sgs_put(%s, GS_BID, %s);", alone ? "" : "if (GS_TID == 0) ",
         k->e->mems[u->columns[i].mem].name, acc);
    k->writes[u->columns[i].mem] = true;
  }
  hole(sh, "PARTS", take_text(k));
}

static void all_flat(kern *k, unit *u, const term *terms, int n, const int *roots, shape *sh) {
  bool alone = k->e->caps->row_threads == 1;
  const char *count = rows_text(k);
  space s;
  space_of(k->e, u->rows, roots, n, NULL, 0, &s);
  declare_all(k, terms, n, s.vec);
  hole(sh, "SUMS", take_text(k));
  u->rows = 0;
  row_values(k, roots, n, 0);
  hole(sh, "VALUES", take_text(k));
  write_step(k, &s, "i", terms, n);
  hole(sh, "STEP", take_text(k));
  space one = s;
  one.vec = 1;
  term tail[MAX_STORES];
  memcpy(tail, terms, sizeof(term) * (size_t)n);
  for (int i = 0; i < n && s.vec > 1; i++) tail[i].chunk = "[0]";
  write_step(k, &one, "j", tail, n);
  hole(sh, "STEP_ONE", take_text(k));
  total_parts(k, u, terms, s.vec, alone, sh);
  hole_int(k, sh, "VEC", s.vec);
  hole(sh, "COUNT", count);
  sh->piece = alone ? "flat_single" : "flat";
  sh->tunables = fmt(k, "threads=%d vec=%d blocks=%lld", sh->threads, s.vec, (long long)u->cap);
}

static void all_rows(kern *k, unit *u, const term *terms, int n, const int *roots, shape *sh,
                     gs_dims inner) {
  bool alone = k->e->caps->row_threads == 1;
  space s;
  space_of(k->e, inner, roots, n, NULL, 0, &s);
  declare_all(k, terms, n, s.vec);
  hole(sh, "SUMS", take_text(k));
  row_bind(k);
  row_values(k, roots, n, 0);
  hole(sh, "VALUES", take_text(k));
  write_step(k, &s, "i", terms, n);
  hole(sh, "STEP", take_text(k));
  total_parts(k, u, terms, s.vec, alone, sh);
  int64_t lanes = alone ? 1 : ALL_THREADS;
  hole(sh, "ROW", row_name(k));
  hole(sh, "FIRST", alone ? "0" : s.vec > 1 ? fmt(k, "GS_TID * %d", s.vec) : "GS_TID");
  hole_int(k, sh, "BY", lanes * s.vec);
  hole_int(k, sh, "WIDTH", s.count);
  hole(sh, "COUNT", rows_text(k));
  sh->piece = alone ? "rows_single" : "rows";
  sh->tunables = fmt(k, "threads=%d vec=%d blocks=%lld", sh->threads, s.vec, (long long)u->cap);
}

void write_all(emit *e, unit *u) {
  kern k;
  term terms[MAX_STORES];
  int roots[MAX_STORES];
  bool alone = e->caps->row_threads == 1;
  gs_dims all = u->rows, inner = 0;
  for (int d = 0; d < gs_graph_ndims(e->g); d++)
    if ((all >> d & 1) && !dim_is_outer(e, d)) inner |= (gs_dims)1 << d;
  u->rows = all & ~inner;
  unit_rows(e, u);
  allocate(e, u, e->caps->is_emulator ? e->caps->sm_count : (int64_t)e->caps->sm_count * ALL_WAVES,
           1);
  kern_begin(&k, e, u);
  int n = column_terms(u, terms, roots);
  if (!inner) u->rows = 0;
  kern_uses(&k, roots, n);
  if (!inner) u->rows = all;
  shape sh = {.template_name = "all", .threads = alone ? 32 : ALL_THREADS, .barrier_free = alone};
  if (!inner) u->per_block = alone ? 1024 : ALL_THREADS * 8;
  sh.grid = count_rows(e, u, u->per_block, u->cap);
  if (inner)
    all_rows(&k, u, terms, n, roots, &sh, inner);
  else
    all_flat(&k, u, terms, n, roots, &sh);
  add_kernel(&k, &sh);
}
