/* geometry.c: which thread does what: order of inner dims, vector width, threads, rows a block.
 * Everything that a tuner may change is chosen here, from the table of tunables. */
#include "emit/emit.h"

/* The choices, and what is legal. A kernel record prints its choice.
 *   vec       power of two, at most 16 bytes of the narrowest tensor and 8; divides the last dim
 *   lanes     threads a row: power of two up to 32 (groups of a warp), or `threads` (a block)
 *   threads   multiple of 32, at most 1024
 *   rows      threads / lanes, or 1
 *   chunks    ceil(count / (lanes * vec))
 *   mode      resident: what is read twice stays in registers; else streamed, or read again from
 *             shared memory
 *   ahead     rows that a persistent block copies to shared memory before their turn
 *   blocks    of a persistent kernel: a multiple of the machine's processors */
enum {
  GROUP_THREADS = 128,   /* a block of several rows */
  GROUP_CHUNKS = 4,      /* the most vectors a lane of a warp takes before a block takes the row */
  ROWS_AT_ONCE = 6,      /* that a processor is to hold in blocks of a row each: below, it waits */
  CHUNKS_MOST = 8,       /* vectors that a thread of such a block has, at most */
  ROW_THREADS = 128,     /* of such a block where the work on an element is not light */
  ROW_CHUNKS = 4,        /* vectors of a thread there, and of a persistent block, at most */
  REGISTERS_BARE = 32,   /* of a thread, where the work on an element is light; */
  REGISTERS_LEAST = 20,  /* besides a vector of what is kept, where all are fetched first */
  VECTOR_REGISTERS = 4,  /* of a vector of 16 bytes */
  LASTING_THREADS = 512, /* of a processor, in persistent blocks; */
  LASTING_MOST = 640,    /* so many where all that a row needs stays in their registers */
  LASTING_CHUNKS = 2,
  AHEAD = 2,                 /* rows of a persistent block, or one where */
  UNDER_WAY = 32 * 1024,     /* copies of so many bytes, of groups, are under way to a processor */
  REGISTERS = 65536,         /* of a processor */
  LIGHT_WORK = 16,           /* operations on an element that surely fit the registers left */
  REGISTERS_OWN = 48,        /* of a thread, for indices and intermediate values */
  REGISTERS_MOST = 128,      /* that hold what is read twice */
  BLOCK_SHARED = 1024 + 512, /* what a block's shared memory takes besides what is asked for */
};

static int64_t at_least_one(int64_t n) {
  return n > 0 ? n : 1;
}

bool lies_apart(const emit *e, int m, int off, const space *s, int64_t apart) {
  if (s->n == 0) return s->vec == 1;
  if (s->shifted) return apart == 1 && is_shifted_access(e, m, off, s);
  const mem *x = &e->mems[m];
  const aff *a = &e->affs[off];
  int last = s->dim[s->n - 1];
  int64_t all = s->vec * apart;
  if (aff_coef(e, off, last) != apart || a->c % all) return false;
  for (int i = 0; i < a->n; i++) {
    if (a->var[i] != last && a->coef[i] % all) return false;
    if (a->var[i] >= OPAQUE && (e->vals[a->var[i] - OPAQUE].deps >> last & 1)) return false;
  }
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

/* The dims of a unit's rows: an outer one first, also where the tensor has it merged with another;
 * then those of the first store in its order. */
void unit_rows(emit *e, unit *u) {
  u->nrow = 0;
  gs_dims left = u->rows;
  for (int outer = 1; outer >= 0; outer--) {
    const mem *m = u->nstores ? &e->mems[u->stores[0].mem] : NULL;
    for (int i = 0; m && i < m->ndims; i++) {
      int d = m->dim[i];
      if (!(left >> d & 1) || dim_is_outer(e, d) != (outer == 1)) continue;
      u->row_dim[u->nrow++] = d;
      left &= ~((gs_dims)1 << d);
    }
    for (int d = 0; d < GS_MAX_DIMS && u->nrow < GS_MAX_RANK; d++) {
      if (!(left >> d & 1) || dim_is_outer(e, d) != (outer == 1)) continue;
      u->row_dim[u->nrow++] = d;
      left &= ~((gs_dims)1 << d);
    }
  }
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

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Threads and chunks of a block that has a row: about `threads`, of up to `chunks` vectors each. */
static void block_row(int64_t vectors, int64_t threads, int64_t chunks, geometry *g) {
  int64_t each = least(chunks, at_least_one(up(vectors, threads)));
  int64_t wide = up(up(vectors, each), 32) * 32;
  if (wide > 1024) wide = 1024;
  g->threads = g->lanes = (int)wide;
  g->per_block = 1;
  g->chunks = (int)up(vectors, wide);
}

static void group_rows(int64_t vectors, bool persistent, geometry *g) {
  g->threads = GROUP_THREADS;
  for (g->lanes = persistent ? 2 : 1; g->lanes < vectors && g->lanes < 32;) g->lanes *= 2;
  g->per_block = g->threads / g->lanes;
  g->chunks = (int)up(vectors, g->lanes);
}

/* Registers that a thread may have where a processor holds so many blocks: each of its four parts
 * has a quarter of the warps and of the registers, and deals them out by eights. */
static int64_t registers_of(int64_t threads, int64_t blocks) {
  int64_t warps = up(up(threads, 32) * blocks, 4);
  return least(REGISTERS / (4 * 32) / warps / 8 * 8, 255);
}

/* Tunable: the threads that a row of a whole block aims at, and the blocks that a processor is to
 * hold at once: up to as many as have the registers and shared memory that they need. */
static int64_t row_threads(const emit *e, int64_t by_default, int64_t most) {
  static const int64_t legal[] = {64, 128, 192, 256, 320, 384, 512, 768, 1024};
  int n = 0;
  while (n < (int)(sizeof legal / sizeof *legal) && legal[n] <= most) n++;
  return tunable(e, "row", "threads", by_default, legal, n);
}

static int blocks_at_once(const emit *e, int most) {
  int64_t legal[GS_MAX_LEGAL];
  int n = 0;
  for (int k = 1; k <= most; k = k < 4 ? k + 1 : 2 * k) legal[n++] = k;
  return (int)tunable(e, "row", "blocks", most, legal, n);
}

/* Whether the registers that an element needs are known, and those that keep it decide. */
static bool is_light(const demand *d) {
  return d->work <= LIGHT_WORK && d->kept > 0;
}

/* Registers that a thread does with, where the work on an element is light, for so many vectors. */
static int64_t passing_need(const demand *d, int64_t chunks) {
  int64_t more = d->streams > 2 ? d->streams - 2 : 0, meetings = d->levels > 1 ? d->levels - 1 : 0;
  return REGISTERS_BARE + 8 * (more + d->costly) + 4 * meetings + d->kept * chunks;
}

/* Blocks that a processor holds at once where each thread needs so many registers. */
static int blocks_held(int64_t threads, int64_t need) {
  int most = 1;
  for (int n = 2; n <= 2048 / threads && n <= 32; n++)
    if (registers_of(threads, n) >= need) most = n;
  return most;
}

/* The threads of a block that has a row: the fewest vectors a thread, from two on, with which a
 * processor still holds ROWS_AT_ONCE rows, since each of them waits for its memory, its meetings
 * and its stores while others come. Vectors that leave no thread idle first; then those that leave
 * few. */
static int64_t passing_threads(const demand *d, int64_t vectors) {
  if (!is_light(d)) return ROW_THREADS;
  for (int exact = 1; exact >= 0; exact--)
    for (int64_t chunks = 2; chunks <= CHUNKS_MOST; chunks++) {
      int64_t threads = up(up(vectors, chunks), 32) * 32, idle = threads * chunks - vectors;
      if (threads > 1024 || (exact ? idle > 0 : idle * 8 >= vectors)) continue;
      if (blocks_held(threads, passing_need(d, chunks)) >= ROWS_AT_ONCE) return threads;
    }
  return least(up(up(vectors, CHUNKS_MOST), 32) * 32, 1024);
}

/* Of a row that is one tensor's: what all rows read comes with it where a processor then still
 * holds enough rows, since the first ones would wait for memory a second time. Raises the registers
 * that a thread needs. */
static void fix_weights(const demand *d, bool grouped, int64_t *need, geometry *g) {
  int64_t all = d->kept + d->fixed, meetings = d->levels > 1 ? d->levels - 1 : 0;
  int64_t with = REGISTERS_LEAST + 4 * meetings + d->kept + all * g->chunks;
  if (with < *need) with = *need;
  if (!d->fixed || !d->kept) return;
  bool alone = d->kept <= VECTOR_REGISTERS && g->chunks <= ROW_CHUNKS;
  g->fixed = grouped ? g->chunks == 1 : alone && blocks_held(g->threads, with) >= ROWS_AT_ONCE;
  if (g->fixed) *need = with;
}

/* Each row has a block of its own, or a share of one; as many at a time as their registers let. */
static void passing_rows(const emit *e, const demand *d, int64_t vectors, geometry *g) {
  bool grouped = vectors <= 32 * GROUP_CHUNKS;
  int64_t most = is_light(d) ? CHUNKS_MOST : ROW_CHUNKS;
  if (grouped)
    group_rows(vectors, false, g);
  else
    block_row(vectors, row_threads(e, passing_threads(d, vectors), 1024), most, g);
  int64_t room = least(REGISTERS / g->threads - REGISTERS_OWN, REGISTERS_MOST);
  g->resident = d->kept * g->chunks <= room;
  g->blocks = 1;
  if (!g->resident || d->work > LIGHT_WORK) return;
  int64_t need = passing_need(d, g->chunks) + (grouped ? 4 : 0);
  fix_weights(d, grouped, &need, g);
  g->blocks = blocks_at_once(e, blocks_held(g->threads, need));
}

/* Bytes of shared memory: the rows in hand, what all rows read, sums that are carried. */
static int64_t shared_need(const demand *d, const geometry *g) {
  int64_t need = (int64_t)d->staged * d->count * g->per_block * (g->ahead + 1);
  if (!g->fixed) need += (int64_t)d->same * d->count;
  if (g->carried) need += (int64_t)d->sums * 8 * g->chunks * d->vec * g->threads;
  if (g->bulk) need += ((int64_t)g->ahead + 2) / 2 * 16;
  return need;
}

static int64_t register_need(const demand *d, const geometry *g) {
  int64_t need = REGISTERS_OWN + 8 + (int64_t)d->sums * g->chunks * d->vec;
  if (g->compensated) need += (int64_t)d->sums * g->chunks * d->vec;
  if (g->resident) need += (int64_t)d->kept * g->chunks;
  if (g->ahead) need += (int64_t)d->near * g->chunks;
  if (g->bulk) need += (int64_t)d->once * g->chunks;
  if (g->fixed) need += (int64_t)d->fixed * g->chunks;
  return need;
}

static bool fits(const emit *e, const demand *d, geometry *g) {
  int64_t room = registers_of(g->threads, g->blocks);
  int64_t shared = (e->caps->shared_per_block + 1024) / g->blocks - BLOCK_SHARED;
  g->shared = shared_need(d, g);
  return register_need(d, g) <= room && g->shared <= shared;
}

/* Of groups the fewest that keep memory busy: the farther ahead, the farther apart in memory is
 * what is read at the same time, and the more rows come last. */
static int rows_ahead(const demand *d, const geometry *g) {
  int64_t bytes = (int64_t)d->staged * d->count * g->per_block * g->blocks;
  return g->per_block > 1 && g->blocks > 1 && bytes >= UNDER_WAY ? 1 : AHEAD;
}

/* Blocks of a processor, up to `most`, that hold all that they need in registers and have rows
 * copied ahead; 0: none do. */
static int whole_blocks(const emit *e, const demand *d, int most, geometry *g) {
  *g = (geometry){.threads = g->threads,
                  .lanes = g->lanes,
                  .per_block = g->per_block,
                  .chunks = g->chunks,
                  .resident = true,
                  .fixed = true,
                  .carried = d->sums && d->vec > 1,
                  .compensated = d->vec == 1 && d->sums};
  for (g->blocks = most; g->blocks > 0; g->blocks--) {
    g->ahead = rows_ahead(d, g);
    if (fits(e, d, g)) return g->blocks;
  }
  return 0;
}

/* What a persistent block holds on the chip, the best that fits. Long chains of plain additions are
 * the last resort, after fewer blocks. */
static bool hold(const emit *e, const demand *d, int most, geometry *g) {
  static const struct {
    bool resident, fixed, carried, compensated;
  } ways[] = {{true, true, true, false},
              {true, false, true, false},
              {false, false, true, false},
              {false, false, false, true},
              {false, false, false, false}};
  static const int tiers[] = {0, 3, 4, 5};
  for (int t = 0; t < 3; t++)
    for (g->blocks = most; g->blocks > 0; g->blocks--)
      for (int i = tiers[t]; i < tiers[t + 1]; i++)
        for (g->ahead = rows_ahead(d, g); g->ahead > 0; g->ahead--) {
          g->resident = ways[i].resident;
          g->fixed = ways[i].fixed || !d->same || g->per_block > 1;
          g->carried = ways[i].carried && d->sums && d->vec > 1;
          g->compensated = ways[i].compensated || (d->vec == 1 && d->sums);
          if (fits(e, d, g)) return true;
        }
  return false;
}

/* Tunable: rows come by bulk copies where a block takes them into registers before its threads
 * meet. By default only where threads have much to do besides, as with more sums than one: else
 * their own copies, which come less at once, are as fast or faster. */
static void by_bulk(const emit *e, const demand *d, geometry *g) {
  static const int64_t either[] = {0, 1};
  geometry b = *g;
  b.bulk = g->lanes == g->threads && g->threads > 32 && g->resident && g->fixed;
  if (!b.bulk || !d->flat || e->caps->max_cluster < 2 || !fits(e, d, &b)) return;
  if (tunable(e, "row", "bulk", d->sums > 1, either, 2)) *g = b;
}

/* Nothing is copied ahead: what fits stays in registers. */
static void hold_registers(const demand *d, geometry *g) {
  int64_t room = registers_of(g->threads, g->blocks) - REGISTERS_OWN;
  int64_t sums = (int64_t)d->sums * g->chunks * d->vec;
  g->ahead = 0;
  g->shared = 0;
  g->fixed = g->carried = false;
  g->compensated = 2 * sums <= room / 2;
  room -= g->compensated ? 2 * sums : sums;
  g->resident = (d->kept + d->fixed) * g->chunks <= room;
  g->fixed = g->resident;
}

/* Blocks that persist, each with every so-manieth row. */
static void lasting_rows(const emit *e, const demand *d, int64_t vectors, geometry *g) {
  int64_t threads = 32;
  if (vectors <= 32) {
    group_rows(vectors, true, g);
  } else {
    for (; threads < LASTING_THREADS && vectors > threads * LASTING_CHUNKS;) threads += 32;
    block_row(vectors, row_threads(e, threads, LASTING_THREADS), ROW_CHUNKS, g);
  }
  int most = g->threads > 384 ? 1 : g->threads > 192 ? 2 : LASTING_THREADS / g->threads;
  if (g->per_block == 1 && d->staged) {
    int whole = whole_blocks(e, d, LASTING_MOST / g->threads, g);
    most = whole > most ? whole : most;
  }
  most = blocks_at_once(e, most);
  if (d->staged == 0 || !hold(e, d, most, g)) {
    g->blocks = most;
    hold_registers(d, g);
  } else {
    by_bulk(e, d, g);
  }
  g->cap = (int64_t)e->caps->sm_count * g->blocks;
}

void geometry_row(const emit *e, const demand *d, geometry *out) {
  geometry g = {.blocks = 1};
  int64_t vectors = at_least_one(up(d->count, d->vec));
  if (e->caps->row_threads == 1) {
    g = (geometry){.threads = 32, .lanes = 1, .per_block = d->persistent ? 1 : 32, .blocks = 1};
    g.chunks = (int)vectors;
    g.compensated = true;
    g.cap = e->caps->sm_count;
  } else if (d->persistent) {
    lasting_rows(e, d, vectors, &g);
  } else {
    passing_rows(e, d, vectors, &g);
  }
  *out = g;
}
