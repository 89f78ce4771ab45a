/* loop.c: loops along a row and the collectives that end them, for a geometry. */
#include "emit/emit.h"

#include <string.h>

const char *lane_name(const geometry *g) {
  return g->lanes == 1 ? "0" : g->lanes == g->threads ? "GS_TID" : "lane"; /* cluster: of all */
}

bool is_chunked(const geometry *g, const space *s) {
  return (int64_t)g->chunks * g->lanes * s->vec >= s->count;
}

static const char *times(kern *k, const char *s, int64_t n) {
  return n == 1 ? s : fmt(k, "%s * %lld", s, (long long)n);
}

bool open_chunks(kern *k, const geometry *g, const space *s) {
  if (g->ring) return ring_open(k, g, s);
  const char *lane = lane_name(g);
  bool alone = g->lanes == 1, one = g->chunks == 1;
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
  line(k, s->shifted ? "const int i = head + %s;" : "const int i = %s;", i);
  bool exact = !s->shifted && !g->apart && (int64_t)g->chunks * g->lanes * s->vec == s->count;
  int64_t least = s->shifted ? s->vec - 1 : 0; /* what is left of a vector counts for none */
  const char *inside = fmt(k, "i < %lld", (long long)(s->count - least));
  const char *test = k->live && !exact ? fmt(k, "%s && %s", k->live, inside)
                     : k->live         ? k->live
                     : exact           ? NULL
                                       : inside;
  if (test) open_block(k, "if (%s)", test);
  k->chunk = one ? "" : "[c]";
  return test != NULL;
}

void close_chunks(kern *k, const geometry *g, bool tested) {
  k->chunk = "";
  if (g->ring) {
    ring_close(k, g);
    return;
  }
  if (tested) close_block(k);
  close_block(k);
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
  bool tested = open_chunks(k, g, s);
  write_step(k, s, "i", l->terms, l->nterms);
  close_chunks(k, g, tested);
  if (s->shifted) write_edges(k, l);
  if (g->ahead == 0) k->pass = k->pass < 7 ? k->pass + 1 : 1; /* lasting blocks have registers */
}

static const char *collective_name(gs_op op) {
  return op == GS_OP_RMAX ? "MAX" : op == GS_OP_RMIN ? "MIN" : "SUM";
}

const char *meeting_area(kern *k, const geometry *g, int n) {
  int at = k->areas, turns = g->ahead > 0 ? g->ahead + 1 : g->ring ? 2 : 1;
  const char *turn = g->ring ? "turn" : "to";
  k->scratch = true;
  k->areas += 32 * n * turns;
  if (turns == 1) return fmt(k, "%d", at);
  return at ? fmt(k, "%d + %s * %d", at, turn, 32 * n) : fmt(k, "%s * %d", turn, 32 * n);
}

/* Of the row's lanes that are in one block. */
const char *block_collective(kern *k, const geometry *g, gs_op op, const char *value) {
  const char *what = collective_name(op);
  if (g->lanes == 1) return value;
  if (g->threads == 32 && g->lanes == 32) return fmt(k, "GS_WARP_%s(%s)", what, value);
  if (g->lanes >= g->threads && k->u->ncolumns > 0 && g->ahead == 0) {
    k->scratch = true;
    return fmt(k, "GS_BLOCK_%s(%s, scratch)", what, value);
  }
  if (g->lanes >= g->threads)
    return fmt(k, "GS_BLOCK_%s_AT(%s, scratch, %s)", what, value, meeting_area(k, g, 1));
  if (g->lanes == 32) return fmt(k, "GS_WARP_%s(%s)", what, value);
  return fmt(k, "GS_GROUP_%s(%d, %s)", what, g->lanes, value);
}

const char *collective(kern *k, const geometry *g, gs_op op, const char *value) {
  const char *own = block_collective(k, g, op, value);
  if (g->cluster <= 1) return own;
  if (g->ring)
    return fmt(k, "GS_CLUSTER_%s_AT(%d, %s, meet%d, turn * %d)", collective_name(op), g->cluster,
               own, ++k->meets, MEETING);
  return fmt(k, "GS_CLUSTER_%s(%d, %s, meet%d)", collective_name(op), g->cluster, own, ++k->meets);
}

const char *geometry_text(kern *k, const geometry *g, int vec, const char *more) {
  return fmt(k, "threads=%d lanes=%d rows=%d vec=%d chunks=%d%s%s", g->threads, g->lanes,
             g->per_block, vec, g->chunks, *more ? " " : "", more);
}
