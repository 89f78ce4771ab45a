/* loop.c: loops along a row and the collectives that end them, for a geometry. */
#include "emit/emit.h"

#include <string.h>

const char *lane_name(const geometry *g) {
  return g->lanes == 1 ? "0" : g->lanes == g->threads ? "GS_TID" : "lane";
}

bool is_chunked(const geometry *g, const space *s) {
  return (int64_t)g->chunks * g->lanes * s->vec >= s->count;
}

static const char *times(kern *k, const char *s, int64_t n) {
  return n == 1 ? s : fmt(k, "%s * %lld", s, (long long)n);
}

/* chunked: one step a chunk, so that arrays are kept in registers; else a loop over the row. */
void write_loop(kern *k, const geometry *g, const loop *l, bool chunked) {
  const space *s = &l->s;
  const char *lane = lane_name(g);
  bool alone = g->lanes == 1;
  if (!chunked) {
    int64_t by = (int64_t)g->lanes * s->vec;
    const char *test = k->live ? fmt(k, "%s && ", k->live) : "";
    open_block(k, "for (int i = %s; %si < %lld; i += %lld)", alone ? "0" : times(k, lane, s->vec),
               test, (long long)s->count, (long long)by);
    write_step(k, s, "i", l->terms, l->nterms);
    close_block(k);
    return;
  }
  bool one = g->chunks == 1;
  const char *i =
      alone ? times(k, "c", s->vec)
      : one ? times(k, lane, s->vec)
            : fmt(k, "(c * %d + %s)%s", g->lanes, lane, s->vec > 1 ? fmt(k, " * %d", s->vec) : "");
  if (one && alone) i = "0";
  if (one) {
    line(k, "{");
    k->depth++;
  } else {
    if (g->chunks <= 16) line(k, "GS_UNROLL");
    open_block(k, "for (int c = 0; c < %d; c++)", g->chunks);
  }
  line(k, "const int i = %s;", i);
  bool exact = (int64_t)g->chunks * g->lanes * s->vec == s->count;
  const char *test = k->live && !exact ? fmt(k, "%s && i < %lld", k->live, (long long)s->count)
                     : k->live         ? k->live
                     : exact           ? NULL
                                       : fmt(k, "i < %lld", (long long)s->count);
  if (test) open_block(k, "if (%s)", test);
  k->chunk = one ? "" : "[c]";
  write_step(k, s, "i", l->terms, l->nterms);
  k->chunk = "";
  if (test) close_block(k);
  close_block(k);
}

const char *collective(kern *k, const geometry *g, gs_op op, const char *value) {
  const char *what = op == GS_OP_RMAX ? "MAX" : op == GS_OP_RMIN ? "MIN" : "SUM";
  if (g->lanes == 1) return value;
  k->scratch |= g->lanes == g->threads;
  if (g->lanes == g->threads) return fmt(k, "GS_BLOCK_%s(%s, scratch)", what, value);
  if (g->lanes == 32) return fmt(k, "GS_WARP_%s(%s)", what, value);
  return fmt(k, "GS_GROUP_%s(%d, %s)", what, g->lanes, value);
}

const char *geometry_text(kern *k, const geometry *g, int vec, const char *more) {
  return fmt(k, "threads=%d lanes=%d rows=%d vec=%d chunks=%d%s%s", g->threads, g->lanes,
             g->per_block, vec, g->chunks, *more ? " " : "", more);
}
