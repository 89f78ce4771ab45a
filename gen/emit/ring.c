/* ring.c: rows too long for registers: blocks that persist keep the row in shared memory, in a ring
 * of pieces that bulk copies fill. While a row is in hand the pieces of the next one come into the
 * places that are free; the last loop over the row gives its places back, one after another.
 *
 * `come` counts what a copy brings to a place, `gone` the warps that have done with it. Thread 0
 * begins all copies. */
#include "emit/emit.h"

#include <string.h>

enum {
  EACH = 2,            /* vectors that a thread has of a piece, or one */
  THREADS_LEAST = 128, /* of a block */
  SPARE = 2,           /* pieces besides those of the row, at least */
  SHARED_OWN = 896,    /* bytes that are not of the ring, */
  SHARED_WARP = 16,    /* and what the warps of all blocks say: of two rows, two numbers */
};

static int64_t clusters_at_once(const emit *e, int64_t cluster) {
  int64_t n = e->caps->sm_count;
  return cluster <= 2 ? n / cluster
                      : n * 10 / 11 / cluster; /* not all groups are of whole clusters */
}

/* The fewest threads whose sums are no long chains. */
static int64_t threads_least(int64_t vectors, int64_t cluster) {
  int64_t threads = up(up(up(vectors, cluster), LONGEST_CHAIN), 32) * 32;
  return threads < THREADS_LEAST ? THREADS_LEAST : threads;
}

/* A row: its vectors, the bytes of one, the blocks that share it. */
typedef struct row_size {
  int64_t vectors, bytes, cluster;
} row_size;

static bool fits_so(const emit *e, const row_size *r, int64_t threads, int64_t each, geometry *g) {
  int64_t part = up(r->vectors, r->cluster), piece = threads * each, pieces = up(part, piece);
  int64_t own = SHARED_OWN + SHARED_WARP * r->cluster * threads / 32;
  int64_t slots = (e->caps->shared_per_block - own) / (piece * r->bytes + 16);
  if (threads > e->caps->max_threads || slots < pieces + SPARE) return false;
  if (slots > 4 * pieces) slots = 4 * pieces;
  *g = (geometry){.threads = (int)threads,
                  .lanes = (int)(threads * r->cluster),
                  .per_block = 1,
                  .blocks = 1,
                  .cap = clusters_at_once(e, r->cluster),
                  .chunks = (int)pieces,
                  .cluster = (int)r->cluster,
                  .apart = true,
                  .resident = true,
                  .ring = (int)slots,
                  .each = (int)each,
                  .part = part};
  return true;
}

static bool fits(const emit *e, const row_size *r, int64_t threads, geometry *g) {
  for (int64_t each = EACH; each > 0; each--)
    if (fits_so(e, r, threads, each, g)) return true;
  return false;
}

/* Tunable: threads of a block. Many: what they compute between loads and stores hides behind those
 * of others, and little of it is for a row rather than an element. */
static int64_t ring_threads(const emit *e, const row_size *r) {
  static const int64_t sizes[] = {1024, 896, 768, 640, 512, 384, 256, 128};
  int64_t legal[8], least = threads_least(r->vectors, r->cluster);
  int n = 0;
  geometry any;
  for (int i = 0; i < 8; i++)
    if (sizes[i] >= least && fits(e, r, sizes[i], &any)) legal[n++] = sizes[i];
  return n ? tunable(e, "row", "ring_threads", legal[0], legal, n) : least;
}

bool ring_row(const emit *e, int64_t vectors, int64_t registers, int64_t bytes, geometry *g) {
  static const int64_t sizes[] = {1, 2, 4, 8}, either[] = {0, 1};
  int64_t legal[4];
  int n = 0;
  geometry any;
  if (bytes == 0 || !two_rows_exceed(e, vectors, registers)) return false;
  for (int i = 0; i < 4; i++) {
    const row_size r = {vectors, bytes, sizes[i]};
    if (sizes[i] <= e->caps->max_cluster && fits(e, &r, threads_least(vectors, sizes[i]), &any))
      legal[n++] = sizes[i];
  }
  if (n == 0 || !tunable(e, "row", "ring", 1, either, 2)) return false;
  const row_size r = {vectors, bytes, tunable(e, "row", "cluster", legal[0], legal, n)};
  return fits(e, &r, ring_threads(e, &r), g);
}

bool copied_whole(const emit *e, const plan *p, const val *x) {
  const aff *a = x->off >= 0 ? &e->affs[x->off] : NULL;
  bool flat = a && a->n == 1 && a->var[0] == p->main.dim[0] && a->coef[0] == 1;
  return flat && a->c % p->main.vec == 0 &&
         p->main.vec * gs_type_size(e->mems[x->mem].type) % 16 == 0;
}

int64_t ring_bytes(const kern *k, const plan *p) {
  const emit *e = k->e;
  int64_t bytes = 0;
  if (p->main.n != 1 || p->main.vec < 2) return 0;
  for (int i = 0; i < p->nheld; i++) {
    const held *h = &p->held[i];
    const val *x = &e->vals[h->value];
    if (!h->twice || h->same) continue;
    if (!h->packed || !copied_whole(e, p, x)) return 0;
    bytes += p->main.vec * (int64_t)gs_type_size(e->mems[x->mem].type);
  }
  return bytes;
}

/* ---- text ---- */

static int64_t piece_of(const geometry *g) {
  return (int64_t)g->threads * g->each;
}

static bool is_written(const kern *k, int real) {
  bool written = false;
  for (int i = 0; i < k->u->nstores; i++) written |= mem_real(k->e, k->u->stores[i].mem) == real;
  return written;
}

/* Where piece `need` of the row `next` lies, and the copies of it. */
static void write_copies(kern *k, const plan *p) {
  const geometry *g = &p->g;
  const space *s = &p->main;
  long long bytes = ring_bytes(k, p), piece = piece_of(g);
  declare_head(k, p);
  line(k, "const int i = %s(part_at + need * %lld) * %d;", s->shifted ? "head + " : "", piece,
       s->vec);
  line(k, "const int first = gs_within(%lld - need * %lld, 0, %lld);", (long long)g->part, piece,
       piece);
  line(k, "const int parts = gs_within((%lld - i) / %d, 0, first);", (long long)s->count, s->vec);
  line(k, "gs_mbar_wait(gone, into, lap);");
  line(k, "gs_mbar_expect(come, into, parts * %lld);", bytes);
  k->s = s;
  k->flat = "i";
  for (int i = 0; i < k->nkept; i++) {
    const val x = k->e->vals[k->kept[i].value];
    int real = mem_real(k->e, x.mem);
    open_block(k, "if (parts > 0)");
    line(k, "gs_bulk_load%s(%s, into * %lld, %s, %s, parts * %d, come, into);",
         is_written(k, real) ? "_back" : "", k->kept[i].ring, piece * s->vec, k->e->mems[real].name,
         place_text(k, x.mem, x.row, x.off), s->vec);
    close_block(k);
    k->reads[real] = true;
  }
  k->s = NULL;
  k->flat = NULL;
}

/* What thread 0 does to begin the copy of a piece. */
static const char *copies_text(kern *k, const plan *p) {
  const geometry *g = &p->g;
  int nbases = k->nbases, taken = k->ntaken;
  open_block(k, "if (GS_TID == 0 && next < %s)", rows_text(k));
  line(k, "const i64 %s = next;", row_name(k));
  row_bind(k);
  for (int i = 0; i < k->nkept; i++) row_bases(k, &k->kept[i].value, 1);
  write_copies(k, p);
  line(k, "need = need + 1 < %d ? need + 1 : 0;", g->chunks);
  const char *by = g->cluster > 1 ? fmt(k, " / %d", g->cluster) : "";
  line(k, "if (need == 0) next += GS_NBLOCKS%s;", by);
  line(k, "into = into + 1 < %d ? into + 1 : 0;", g->ring);
  line(k, "lap ^= into == 0;");
  close_block(k);
  k->nbases = nbases;
  k->ntaken = taken;
  return take_text(k);
}

const char *ring_begin(kern *k, plan *p) {
  int64_t elements = piece_of(&p->g) * p->main.vec * p->g.ring;
  for (int i = 0; i < p->nheld; i++) {
    const held *h = &p->held[i];
    if (h->twice && !h->same) keep(k, h, NULL, declare_ring(k, h->value, elements), "");
  }
  const char *bars = k->dynamic;
  for (int i = 0; i < 2; i++) {
    bars = fmt(k, "%sGS_DYNAMIC(gs_mbar, %s, %lld, %d);\n", bars, i ? "gone" : "come",
               (long long)k->dynamic_bytes, p->g.ring);
    k->dynamic_bytes += (int64_t)p->g.ring * 8;
    k->dynamic_bytes = up(k->dynamic_bytes, 16) * 16;
  }
  k->dynamic = bars;
  return copies_text(k, p);
}

/* Marks of where a loop's pieces come and go: ring_finish keeps the first and the last of each. */
#define COMES "//@ comes\n"
#define GOES "//@ goes\n"

bool ring_open(kern *k, const geometry *g, const space *s) {
  int64_t piece = piece_of(g);
  line(k, "{");
  k->depth++;
  line(k, "int to = from, phase = lap_from;");
  open_block(k, "for (int c = 0; c < %d; c++)", g->chunks);
  gs_text_add(&k->o, COMES);
  line(k, "GS_UNROLL");
  open_block(k, "for (int b = 0; b < %d; b++)", g->each);
  line(k, "const int j = (c * %d + b) * %d + GS_TID;", g->each, g->threads);
  line(k, "const int i = %s(part_at + j) * %d;", s->shifted ? "head + " : "", s->vec);
  line(k, "const int ring_at = ((to * %d + b) * %d + GS_TID) * %d;", g->each, g->threads, s->vec);
  int64_t least = s->shifted ? s->vec - 1 : 0;
  const char *whole = g->part % piece ? fmt(k, "j < %lld", (long long)g->part) : "";
  bool last = s->shifted || g->part * g->cluster * s->vec != s->count;
  const char *inside = last ? fmt(k, "i < %lld", (long long)(s->count - least)) : "";
  const char *both = *whole && *inside ? " && " : "";
  if (*whole || *inside)
    open_block(k, "if (%s%s%s)", whole, both, inside);
  else
    line(k, "{"), k->depth++;
  k->place = "ring_at";
  return true;
}

void ring_close(kern *k, const geometry *g) {
  k->place = NULL;
  close_block(k);
  close_block(k);
  gs_text_add(&k->o, GOES);
  line(k, "to = to + 1 < %d ? to + 1 : 0;", g->ring);
  line(k, "phase ^= to == 0;");
  close_block(k);
  close_block(k);
}

static const char *last_in(const char *s, const char *what) {
  const char *last = NULL;
  for (const char *p = strstr(s, what); p; p = strstr(p + 1, what)) last = p;
  return last;
}

/* The lines of text, as far in as `as` is. */
static void add_lines(gs_text *t, const char *text, const char *as) {
  size_t in = strspn(as, " ");
  for (const char *p = text, *end; *p; p = end) {
    end = strchr(p, '\n');
    end = end ? end + 1 : p + strlen(p);
    gs_text_add_n(t, as, in);
    gs_text_add_n(t, p, (size_t)(end - p));
  }
}

/* The body with its marks taken out: the first loop waits for each piece; the last one begins a
 * copy to the place that it has left a piece ago, which by then all warps have, and leaves the
 * next. */
const char *ring_finish(kern *k, const char *body, const char *copies) {
  const char *first = strstr(body, COMES), *later = last_in(body, COMES),
             *last = last_in(body, GOES);
  gs_text t = {0};
  for (const char *p = body, *end; *p; p = end) {
    bool mark = strncmp(p, COMES, strlen(COMES)) == 0 || strncmp(p, GOES, strlen(GOES)) == 0;
    end = strchr(p, '\n');
    end = end ? end + 1 : p + strlen(p);
    if (p == first) add_lines(&t, "gs_mbar_wait(come, to, phase);\n", end);
    if (p == later) add_lines(&t, copies, end);
    if (p == last) add_lines(&t, "gs_mbar_arrive_warp(gone, to);\n", end);
    if (!mark) gs_text_add_n(&t, p, (size_t)(end - p));
  }
  const char *s = gs_arena_strdup(k->e->a, t.s ? t.s : "");
  gs_text_free(&t);
  return s;
}
