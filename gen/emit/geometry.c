/* geometry.c: which thread does what: order of inner dims, vector width, threads, rows a block.
 * Everything that a tuner may change is chosen here, from the table of tunables. */
#include "emit/emit.h"

/* The tunables and what is legal. A kernel record prints its choice.
 *   vec       power of two, at most 16 bytes of the narrowest tensor and 8; divides the last dim
 *   lanes     threads a row: power of two up to 32 (groups of a warp), or `threads` (a block)
 *   threads   multiple of 32, at most 1024
 *   rows      threads / lanes, or 1
 *   chunks    ceil(count / (lanes * vec))
 *   mode      resident: what is read twice stays in registers (REGISTERS of f32); else streamed
 *   blocks    of a persistent kernel: a multiple of the machine's processors */
enum {
  GROUP_THREADS = 128, /* a block of several rows */
  GROUP_CHUNKS = 4,    /* the most vectors a lane of a warp takes before a block takes the row */
  BLOCK_CHUNKS = 2,
  WIDE_THREADS = 512,   /* beyond, chunks double */
  REGISTERS_OWN = 48,   /* of a thread, for indices and intermediate values */
  REGISTERS_MOST = 128, /* f32 kept in registers */
};

static int64_t at_least_one(int64_t n) {
  return n > 0 ? n : 1;
}

bool lies_apart(const emit *e, int m, int off, const space *s, int64_t apart) {
  if (s->n == 0) return s->vec == 1;
  const mem *x = &e->mems[m];
  const aff *a = &e->affs[off];
  int last = s->dim[s->n - 1];
  int64_t all = s->vec * apart;
  if (aff_coef(e, off, last) != apart || a->c % all) return false;
  for (int i = 0; i < a->n; i++)
    if (a->var[i] != last && a->coef[i] % all) return false;
  return x->ndims < 2 || x->temp >= 0 || mem_packed(e, x) % all == 0;
}

bool is_contiguous(const emit *e, int m, int off, const space *s) {
  return lies_apart(e, m, off, s, 1);
}

typedef struct place {
  int row, off; /* of an access */
} place;

/* The access by which the dims of `inner` are ordered: one that has them all. */
static place ordering(const emit *e, gs_dims inner, const bool *seen, const store *const *st,
                      int nst) {
  for (int i = 0; i < nst; i++)
    if (((aff_deps(e, st[i]->off) | aff_deps(e, st[i]->row)) & inner) == inner)
      return (place){st[i]->row, st[i]->off};
  for (int v = 0; v < e->nvals; v++) {
    const val *x = &e->vals[v];
    if (!seen[v] || x->kind != VAL_LOAD) continue;
    if (((aff_deps(e, x->off) | aff_deps(e, x->row)) & inner) == inner)
      return (place){x->row, x->off};
  }
  return (place){-1, -1};
}

/* How far apart neighbours along d lie; what a row's stride multiplies is farthest. */
static int64_t distance(const emit *e, place by, int d) {
  int64_t rows = by.row < 0 ? 0 : aff_coef(e, by.row, d);
  if (rows) return rows + INT32_MAX;
  return by.off < 0 ? 0 : aff_coef(e, by.off, d);
}

static void sort_dims(const emit *e, gs_dims inner, place by, space *s) {
  for (int d = 0; d < GS_MAX_DIMS; d++) {
    if (!(inner >> d & 1)) continue;
    int at = s->n++;
    while (at > 0 && distance(e, by, s->dim[at - 1]) < distance(e, by, d)) {
      s->dim[at] = s->dim[at - 1];
      at--;
    }
    s->dim[at] = d;
  }
}

/* 16 bytes of the narrowest tensor that lies along the vector. */
static int widest(const emit *e, const bool *seen, const store *const *st, int nst, int last) {
  int bytes = 16, narrow = 16;
  for (int v = 0; v < e->nvals; v++) {
    if (!seen[v] || e->vals[v].kind != VAL_LOAD) continue;
    int size = (int)gs_type_size(e->mems[e->vals[v].mem].type);
    if (aff_coef(e, e->vals[v].off, last) == 1 && size < narrow) narrow = size;
  }
  for (int i = 0; i < nst; i++) {
    int size = (int)gs_type_size(e->mems[st[i]->mem].type);
    if (aff_coef(e, st[i]->off, last) == 1 && size < narrow) narrow = size;
  }
  int vec = bytes / narrow;
  return vec > 8 ? 8 : vec < 1 ? 1 : vec;
}

void space_of(emit *e, gs_dims inner, const int *values, int nvalues, const store *const *st,
              int nst, space *out) {
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, values, nvalues, seen, false, NULL);
  space s = {.count = 1, .vec = 1};
  int dims = 0;
  for (int d = 0; d < GS_MAX_DIMS; d++) dims += (int)(inner >> d & 1);
  if (dims > MAX_INNER) {
    emit_fail(e, 0, "a loop over more than %d dims", MAX_INNER);
    inner = 0;
  }
  sort_dims(e, inner, ordering(e, inner, seen, st, nst), &s);
  for (int i = s.n - 1; i >= 0; i--) {
    s.size[i] = dim_size(e, s.dim[i]);
    s.stride[i] = s.count;
    s.count *= at_least_one(s.size[i]);
  }
  if (s.count > INT32_MAX / 2)
    emit_fail(e, 0, "the inner dims of a row have %lld elements: too many", (long long)s.count);
  if (s.n > 0) {
    int last = s.dim[s.n - 1];
    s.vec = widest(e, seen, st, nst, last);
    while (s.size[s.n - 1] > 0 && s.size[s.n - 1] % s.vec) s.vec /= 2;
  }
  *out = s;
}

void unit_rows(emit *e, unit *u) {
  u->nrow = 0;
  gs_dims left = u->rows;
  if (u->nstores)
    for (int i = 0; i < e->mems[u->stores[0].mem].ndims; i++) {
      int d = e->mems[u->stores[0].mem].dim[i];
      if (!(left >> d & 1)) continue;
      u->row_dim[u->nrow++] = d;
      left &= ~((gs_dims)1 << d);
    }
  for (int outer = 1; outer >= 0; outer--)
    for (int d = 0; d < GS_MAX_DIMS && u->nrow < GS_MAX_RANK; d++)
      if ((left >> d & 1) && dim_is_outer(e, d) == (outer == 1)) u->row_dim[u->nrow++] = d;
  int outers = 0;
  for (int i = 0; i < u->nrow; i++) outers += dim_is_outer(e, u->row_dim[i]);
  if (outers > 1 || (outers == 1 && !dim_is_outer(e, u->row_dim[0])))
    emit_fail(e, u->line, "no schedule covers rows over %s and %s",
              gs_graph_dim_at(e->g, u->row_dim[0])->name,
              gs_graph_dim_at(e->g, u->row_dim[u->nrow - 1])->name);
}

gs_count count_rows(const emit *e, const unit *u, int64_t per_block, int64_t cap) {
  gs_count c = {.coef = 1, .div = per_block, .cap = cap};
  for (int i = 0; i < u->nrow; i++) count_dim(e, &c, u->row_dim[i]);
  return c;
}

static int64_t up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* One row for a whole block. */
static void block_row(int64_t vectors, geometry *g) {
  int64_t chunks = vectors >= 128 * BLOCK_CHUNKS ? BLOCK_CHUNKS : 1, threads = 0;
  for (;; chunks *= 2) {
    threads = up(up(vectors, chunks), 32) * 32;
    if (threads <= WIDE_THREADS || chunks >= 4) break;
  }
  if (threads > 1024) threads = 1024;
  g->threads = g->lanes = (int)threads;
  g->per_block = 1;
  g->chunks = (int)up(vectors, threads);
}

void geometry_row(const emit *e, int64_t count, int vec, int values, int sums, bool persistent,
                  geometry *out) {
  geometry g = {0};
  int64_t vectors = at_least_one(up(count, vec));
  if (e->caps->row_threads == 1) {
    g = (geometry){.threads = 32, .lanes = 1, .per_block = persistent ? 1 : 32};
    g.chunks = (int)vectors;
    g.compensated = true;
    g.cap = e->caps->sm_count;
    *out = g;
    return;
  }
  if (vectors <= 32 * GROUP_CHUNKS) {
    g.threads = GROUP_THREADS;
    for (g.lanes = persistent ? 2 : 1; g.lanes < vectors && g.lanes < 32;) g.lanes *= 2;
    g.per_block = g.threads / g.lanes;
    g.chunks = (int)up(vectors, g.lanes);
  } else {
    block_row(vectors, &g);
  }
  int64_t room = 65536 / g.threads - REGISTERS_OWN;
  if (room > REGISTERS_MOST) room = REGISTERS_MOST;
  int64_t each = (int64_t)g.chunks * vec;
  g.compensated = sums * 2 * each <= room / 2;
  room -= (g.compensated ? 2 : 1) * sums * each;
  g.resident = values * each <= room;
  g.cap = e->caps->sm_count * at_least_one(512 / g.threads);
  *out = g;
}
