/* map.c: template map: no reduction; every thread makes one vector of the results, or two where
 * what it reads is a few bytes.
 *
 * Results that differ in their inner dims are sides of the same rows: their vectors lie one after
 * the other, so that a block reads once what its sides share. Where rows are short and end within
 * their last block (a tail), blocks of whole rows leave out what tests for the end. */
#include "emit/emit.h"

#include <string.h>

enum {
  MAP_THREADS = 128, /* of a block, about: its place is free when its last warp ends */
  FEW_BYTES = 8,     /* a thread that reads fewer takes two vectors */
  NEAR_TABLE = 32,   /* elements of a table that blocks copy to shared memory, at most */
};

/* Stores over the same dims: a loop of their own. */
typedef struct side {
  gs_dims inner;
  space s;
  term terms[MAX_STORES];
  int roots[MAX_STORES], n;
  int64_t first, vectors; /* where they lie in the row */
  int64_t bytes;          /* that a vector reads, of what differs along all dims */
} side;

typedef struct map {
  side sides[MAX_SIDES];
  int n;
  int64_t vectors; /* of a row */
  int roots[MAX_STORES], nroots;
} map;

/* ---- sides ---- */

static side *side_of(map *m, gs_dims inner) {
  for (int i = 0; i < m->n; i++)
    if (m->sides[i].inner == inner) return &m->sides[i];
  side *d = &m->sides[m->n++];
  *d = (side){.inner = inner};
  return d;
}

typedef struct reach {
  const space *s;
  gs_dims all;               /* dims of s with more than one index */
  int64_t most, least, read; /* bytes of accesses of a vector */
} reach;

static void note_access(const emit *e, reach *r, int m, int row, int off, bool load) {
  int64_t apart = aff_coef(e, off, r->s->dim[r->s->n - 1]);
  if (apart < 1 || apart > 4) return;
  int64_t bytes = apart * r->s->vec * (int64_t)gs_type_size(e->mems[m].type);
  gs_dims deps = aff_deps(e, off) | (row >= 0 ? aff_deps(e, row) : 0);
  if (bytes < r->least) r->least = bytes;
  if (r->all & ~deps) return; /* read again along the other dims: from the cache */
  if (bytes > r->most) r->most = bytes;
  if (load) r->read += bytes;
}

static reach side_reach(const emit *e, const side *d) {
  reach r = {.s = &d->s, .least = INT64_MAX};
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  for (int i = 0; i < d->s.n; i++)
    if (d->s.size[i] != 1) r.all |= (gs_dims)1 << d->s.dim[i];
  collect(e, d->roots, d->n, seen, false, NULL);
  for (int v = 0; v < e->nvals; v++)
    if (seen[v] && e->vals[v].kind == VAL_LOAD)
      note_access(e, &r, e->vals[v].mem, e->vals[v].row, e->vals[v].off, true);
  for (int i = 0; i < d->n; i++)
    note_access(e, &r, d->terms[i].st->mem, d->terms[i].st->row, d->terms[i].st->off, false);
  return r;
}

/* No access is wider than the machine's, or neighbours would write parts of the same sectors; nor
 * is any narrower than 4 bytes for that. */
static void fit_vector(const emit *e, side *d) {
  if (d->s.n == 0) return;
  for (;;) {
    reach r = side_reach(e, d);
    d->bytes = r.read;
    if (d->s.vec == 1 || r.most <= e->caps->vector_bytes || r.least <= 4) return;
    d->s.vec /= 2;
  }
}

static void find_sides(emit *e, const unit *u, map *m, bool flat) {
  for (int i = 0; i < u->nstores; i++) {
    const store *st = &u->stores[i];
    side *d = side_of(m, flat ? u->rows : st->dims & ~u->rows);
    d->terms[d->n] = (term){.kind = TERM_STORE, .value = st->value, .st = st, .chunk = ""};
    d->roots[d->n++] = m->roots[m->nroots++] = st->value;
  }
  for (int i = 0; i < m->n; i++) {
    side *d = &m->sides[i];
    const store *st[MAX_STORES];
    for (int j = 0; j < d->n; j++) st[j] = d->terms[j].st;
    space_of(e, d->inner, d->roots, d->n, st, d->n, &d->s);
    if (e->status) return;
    fit_vector(e, d);
    d->first = m->vectors;
    d->vectors = d->s.count / d->s.vec;
    m->vectors += d->vectors;
  }
}

/* ---- the text ---- */

/* One outer dim and nothing inside: vectors lie along it, and the end is taken one by one. */
static void write_flat(kern *k, const map *m, shape *sh) {
  unit *u = k->u;
  const side *d = &m->sides[0];
  hole(sh, "COUNT", dim_text(k, u->row_dim[0]));
  u->rows = 0; /* what depends on the dim differs along the vector */
  row_values(k, m->roots, m->nroots, 0);
  hole(sh, "VALUES", take_text(k));
  write_step(k, &d->s, "i", d->terms, d->n);
  hole(sh, "STEP", take_text(k));
  sh->piece = d->s.vec > 1 ? "flat" : "flat_one";
  sh->grid = count_rows(k->e, u, (int64_t)sh->threads * d->s.vec, 0);
  if (d->s.vec == 1) return;
  space one = d->s;
  one.vec = 1;
  write_step(k, &one, "j", d->terms, d->n);
  hole(sh, "STEP_ONE", take_text(k));
  hole_int(k, sh, "VEC", d->s.vec);
}

/* What a thread does for its vector of a row: of the side that it belongs to. */
static const char *row_body(kern *k, const map *m) {
  row_bind(k);
  row_values(k, m->roots, m->nroots, 0);
  for (int i = 0; i < m->n; i++) {
    const side *d = &m->sides[i];
    if (m->n > 1) {
      const char *at = d->first ? fmt(k, "(i_all - %lld)", (long long)d->first) : "i_all";
      if (i + 1 < m->n)
        open_block(k, "%sif (i_all < %lld)", i ? "else " : "", (long long)(d->first + d->vectors));
      else
        open_block(k, "else");
      line(k, "const int i = %s * %d;", at, d->s.vec);
    }
    write_step(k, &d->s, "i", d->terms, d->n);
    if (m->n > 1) close_block(k);
  }
  return take_text(k);
}

static int whole_warps(int64_t threads) {
  return (int)((threads + 31) / 32 * 32);
}

/* The text that takes a vector's number to what a body counts in: elements, or of several sides
 * still vectors. */
static const char *elements(kern *k, const map *m, const char *vector) {
  int vec = m->sides[0].s.vec;
  return m->n > 1 || vec == 1 ? vector : fmt(k, "%s * %d", vector, vec);
}

/* Into how many blocks a row of so many vectors falls: of about MAP_THREADS, with the fewest idle
 * threads. */
static int64_t parts_of_row(int64_t vectors) {
  static const int64_t near[] = {MAP_THREADS, MAP_THREADS + 32, MAP_THREADS + 64, MAP_THREADS - 32};
  int64_t parts = 1, idle = INT64_MAX;
  for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
    int64_t n = (vectors + near[i] - 1) / near[i];
    int64_t threads = n * whole_warps((vectors + n - 1) / n);
    if (threads - vectors >= idle) continue;
    parts = n;
    idle = threads - vectors;
  }
  return parts;
}

/* Rows of many vectors: a block has a part of one row. */
static void write_wide(kern *k, const map *m, shape *sh) {
  int64_t blocks = parts_of_row(m->vectors);
  sh->threads = whole_warps((m->vectors + blocks - 1) / blocks);
  const char *row = row_name(k), *part = "", *place = "";
  if (k->u->nrow == 0)
    part = "(int)GS_BID";
  else if (blocks > 1)
    part = fmt(k, "(int)(GS_BID %% %lld)", (long long)blocks);
  if (k->u->nrow > 0)
    place = blocks > 1 ? fmt(k, "const i64 %s = GS_BID / %lld;", row, (long long)blocks)
                       : fmt(k, "const i64 %s = GS_BID;", row);
  const char *at = *part ? fmt(k, "(%s * %d + GS_TID)", part, sh->threads) : "GS_TID";
  hole(sh, "BODY", row_body(k, m));
  hole(sh, "PLACE", place);
  hole(sh, "INDEX", elements(k, m, at));
  hole_int(k, sh, "COUNT", m->n > 1 ? m->vectors : m->sides[0].s.count);
  sh->piece = "wide";
  sh->grid = count_rows(k->e, k->u, 1, 0);
  sh->grid.coef *= blocks;
}

/* The condition under which no limit ends a row up to `last`; NULL where none is known. */
static const char *whole_rows(kern *k, const map *m) {
  const unit *u = k->u;
  if (u->nrow != 1) return NULL;
  bool *seen = GS_NEW_N(k->e->a, bool, k->e->nvals + 1), any = false;
  int roots[MAX_TERM_VALUES];
  const char *text = "", *row = k->var[u->row_dim[0]];
  for (int i = 0; i < m->n; i++) {
    int n = term_values(k->e, m->sides[i].terms, m->sides[i].n, roots);
    collect(k->e, roots, n, seen, false, NULL);
  }
  k->var[u->row_dim[0]] = "i_last";
  for (int v = 0; v < k->e->nvals && text; v++) {
    const val *x = &k->e->vals[v];
    if (!seen[v] || x->kind != VAL_LEFT) continue;
    any = true;
    text = x->deps != u->rows ? NULL
                              : fmt(k, "%s &&\n      %s - (%s) >= %lld", text, dim_text(k, x->dim),
                                    aff_text(k, x->off), (long long)x->index);
  }
  k->var[u->row_dim[0]] = row;
  return any ? text : NULL;
}

/* A second text of the same values: nothing has a name yet. */
static void forget_names(kern *k) {
  memset(k->name, 0, sizeof *k->name * (size_t)k->e->nvals);
  k->nbases = k->ntaken = k->counter = 0;
}

/* Short rows: a block has several. */
static void write_narrow(kern *k, const map *m, shape *sh) {
  int64_t rows = MAP_THREADS / m->vectors;
  const char *whole = whole_rows(k, m);
  int chunks = whole && m->n == 1 && m->sides[0].bytes < FEW_BYTES ? 2 : 1;
  sh->threads = whole_warps(rows * m->vectors);
  hole(sh, "ROW", row_name(k));
  hole_int(k, sh, "ROWS", rows);
  hole_int(k, sh, "LANES", m->vectors);
  const char *all = fmt(k, "GS_TID < %lld && ", (long long)(rows * m->vectors));
  hole(sh, "USED", rows * m->vectors == sh->threads ? "" : all);
  hole(sh, "INDEX", elements(k, m, fmt(k, "GS_TID %% %lld", (long long)m->vectors)));
  hole(sh, "COUNT", rows_text(k));
  sh->piece = whole ? "narrow_tail" : "narrow";
  sh->grid = count_rows(k->e, k->u, rows * chunks, 0);
  if (whole) {
    hole(sh, "WHOLE", whole);
    hole_int(k, sh, "CHUNKS", chunks);
    k->whole = true;
    hole(sh, "BODY_WHOLE", row_body(k, m));
    k->whole = false;
    forget_names(k);
  }
  hole(sh, "BODY", row_body(k, m));
}

/* Copies of the tables that lanes look into, where their different places cost least. */
static const char *near_tables(kern *k, shape *sh) {
  bool any = false;
  for (int i = 0; i < k->ntables; i++) {
    if (!k->tables[i] || !k->near_tables[i]) continue;
    int count = gs_graph_table_at(k->e->g, i)->count;
    any = true;
    line(k, "GS_SHARED(f32, table%d_at, %d);", i, count);
    line(k, "if (GS_TID < %d) table%d_at[GS_TID] = table%d[GS_TID];", count, i, i);
  }
  if (any) line(k, "GS_SYNC();");
  sh->barrier_free = !any;
  return take_text(k);
}

void write_map(emit *e, unit *u) {
  map *m = GS_NEW(e->a, map);
  kern k;
  unit_rows(e, u);
  bool flat = u->nrow == 1;
  for (int i = 0; i < u->nstores; i++) flat &= (u->stores[i].dims & ~u->rows) == 0;
  find_sides(e, u, m, flat);
  if (e->status) return;
  kern_begin(&k, e, u);
  for (int i = 0; i < k.ntables && !e->caps->is_emulator; i++)
    k.near_tables[i] = gs_graph_table_at(e->g, i)->count <= NEAR_TABLE;
  if (flat) u->rows = 0;
  kern_uses(&k, m->roots, m->nroots);
  shape sh = {.template_name = "map", .threads = MAP_THREADS};
  if (!flat) hole(&sh, "FLAT", m->n > 1 ? "i_all" : "i");
  if (flat)
    write_flat(&k, m, &sh);
  else if (m->vectors >= MAP_THREADS || u->nrow == 0)
    write_wide(&k, m, &sh);
  else
    write_narrow(&k, m, &sh);
  hole(&sh, "TABLES", near_tables(&k, &sh));
  hole_int(&k, &sh, "BARRIER_FREE", sh.barrier_free);
  sh.tunables = fmt(&k, "threads=%d vec=%d", sh.threads, m->sides[0].s.vec);
  add_kernel(&k, &sh);
}
