/* attention_plain.c: fills templates/attention_plain.cu. On the emulator a lane of its own has a
 * whole row, in vectors; elsewhere a warp shares it. */
#include "emit/attention.h"

enum { EMULATED_THREADS = 32, THREADS = 128, KEY_BLOCK = 4, SINK_THREADS = 256 };

typedef struct lanes {
  int lanes, vec, chunks, threads;
} lanes;

static lanes choose(const att *a) {
  lanes l = {.lanes = 32, .vec = 1, .threads = THREADS};
  if (a->e->caps->is_emulator) {
    l = (lanes){.lanes = 1, .vec = 8, .threads = EMULATED_THREADS};
    while (a->size % l.vec) l.vec /= 2;
  }
  l.chunks = (int)((a->size + l.lanes * l.vec - 1) / (l.lanes * l.vec));
  return l;
}

/* Declares x_v, the vectors of a row of x that this lane has; zeros unless `when`. */
static void load(att *a, att_kernel *x, const char *name, const char *tensor, const char *row,
                 const char *head, const char *when) {
  int n = x->nown;
  att_hole(x, "X", tensor);
  att_hole(x, "ROW", row);
  att_hole(x, "HEAD", head);
  att_hole(x, "WHEN", when);
  const char *text = att_fill(a, x, "load");
  x->nown = n;
  att_hole(x, name, text);
}

/* Declares `to`, this lane's part of x_v . y_v. */
static void dot(att *a, att_kernel *x, const char *name, const char *to, const char *x_,
                const char *y) {
  int n = x->nown;
  att_hole(x, "TO", to);
  att_hole(x, "X", x_);
  att_hole(x, "Y", y);
  const char *text = att_fill(a, x, "dot");
  x->nown = n;
  att_hole(x, name, text);
}

static att_kernel begin(att *a, const lanes *l, const char *piece, int64_t count, int dim) {
  kern *k = &a->k;
  int groups = l->threads / l->lanes;
  bool single = l->lanes == 1;
  att_kernel x = {.file = "attention_plain",
                  .piece = piece,
                  .threads = l->threads,
                  .barrier_free = single,
                  .grid = {.coef = count, .div = groups, .dims = (gs_dims)1 << dim},
                  .writes = "delta"};
  att_begin(a);
  x.tunables =
      fmt(k, "threads=%d lanes=%d vec=%d chunks=%d", l->threads, l->lanes, l->vec, l->chunks);
  if (piece[0] == 'd' && piece[1] == 'q') x.writes = NULL;
  att_int(a, &x, "GROUPS", groups);
  att_int(a, &x, "LANES", l->lanes);
  att_int(a, &x, "VEC", l->vec);
  att_int(a, &x, "CHUNKS", l->chunks);
  att_int(a, &x, "BLOCK", KEY_BLOCK);
  att_int(a, &x, "BARRIER_FREE", single);
  att_hole(&x, "GROUP", single ? "GS_TID" : "GS_WARP");
  att_hole(&x, "LANE", single ? "0" : "GS_LANE");
  bool whole = a->size % (l->lanes * l->vec) == 0;
  att_hole(&x, "FITS", whole ? "true" : fmt(k, "c * 32 + lane < %lld", (long long)a->size));
  att_hole(&x, "SUM_DOT", single ? "dot" : "GS_WARP_SUM(dot)");
  att_hole(&x, "SUM_DW", single ? "dw" : "GS_WARP_SUM(dw)");
  return x;
}

/* Which row of which side a group of lanes has: query or key. */
static void place(att *a, att_kernel *x, const char *name, const char *piece, const char *cu,
                  const char *row) {
  int n = x->nown;
  att_hole(x, "CU", cu);
  att_hole(x, "ROW", row);
  const char *text = att_fill(a, x, piece);
  x->nown = n;
  att_hole(x, name, text);
}

static void write_forward(att *a, const lanes *l) {
  att_kernel x = begin(a, l, "forward", a->heads, a->t);
  place(a, &x, "QUERY", "query", "cu_q", "t");
  load(a, &x, "LOAD_Q", "q", "t", "head", "live");
  load(a, &x, "LOAD_K", "k", "(j0 + b)", "kv", "seen");
  load(a, &x, "LOAD_V", "v", "(j0 + b)", "kv", "true");
  dot(a, &x, "DOT_QK", "dot", "q", "k");
  att_hole(&x, "JOIN_SINK", a->sink < 0 ? "" : att_fill(a, &x, "join_sink"));
  att_hole(&x, "STORE_LSE",
           !att_wants(a, "lse")
               ? ""
               : fmt(&a->k,
                     "%sgs_put(lse, t * lse_ld + head, !inside ? 0.0f : total > 0.0f ? top "
                     "+ gs_log(total) : -GS_INF);",
                     l->lanes > 1 ? "if (lane == 0) " : ""));
  att_write(a, &x);
}

static void write_delta(att *a) {
  lanes l = {.lanes = 1, .vec = 8, .threads = THREADS};
  att_kernel x = begin(a, &l, "delta", a->heads, a->t);
  int64_t wide = 8;
  while (a->size % wide) wide /= 2;
  att_int(a, &x, "WIDE", wide);
  att_write(a, &x);
}

static void write_dq(att *a, const lanes *l) {
  att_kernel x = begin(a, l, "dq", a->heads, a->t);
  place(a, &x, "QUERY", "query", "cu_q", "t");
  load(a, &x, "LOAD_Q", "q", "t", "head", "live");
  load(a, &x, "LOAD_DY", "dy", "t", "head", "live");
  load(a, &x, "LOAD_K", "k", "(j0 + b)", "kv", "true");
  load(a, &x, "LOAD_V", "v", "(j0 + b)", "kv", "true");
  dot(a, &x, "DOT_QK", "dot", "q", "k");
  dot(a, &x, "DOT_DYV", "dw", "dy", "v");
  att_write(a, &x);
}

static const char *store_text(att *a, const lanes *l, const char *name) {
  if (!att_wants(a, name)) return "";
  return fmt(&a->k, "gs_store<%d>(%s, j * %s_ld + (i64)kv * %lld + i, %s_v[c]);", l->vec, name,
             name, (long long)a->size, name);
}

/* dk and dv, or dv alone, which needs neither v nor delta. */
static void write_dkv(att *a, const lanes *l) {
  att_kernel x = begin(a, l, "dkv", a->kheads, a->s);
  bool dk = att_wants(a, "dk");
  x.writes = NULL;
  place(a, &x, "KEY", "key", "cu_k", "j");
  load(a, &x, "LOAD_K", "k", "j", "kv", "live");
  load(a, &x, "LOAD_V", "v", "j", "kv", "live");
  if (!dk) x.own[x.nown - 1].text = "";
  load(a, &x, "LOAD_Q", "q", "t", "head", "true");
  load(a, &x, "LOAD_DY", "dy", "t", "head", "true");
  dot(a, &x, "DOT_KQ", "dot", "k", "q");
  dot(a, &x, "DOT_VDY", "dw", "v", "dy");
  att_hole(&x, "SLOPES", dk ? att_fill(a, &x, "slopes") : "");
  att_hole(&x, "ADD_DK", dk ? "dk_part[c][l] += dx * q_v[c][l];" : "");
  att_hole(&x, "STORE_DK", store_text(a, l, "dk"));
  att_hole(&x, "STORE_DV", store_text(a, l, "dv"));
  att_write(a, &x);
}

void att_plain(att *a) {
  lanes l = choose(a);
  if (a->e->pass->kind != GS_PASS_BACKWARD) {
    write_forward(a, &l);
    return;
  }
  bool dq = att_wants(a, "dq"), dk = att_wants(a, "dk"), sink = a->dsink != NULL;
  if (dq || dk || sink) {
    att_temp(a, "delta", GS_F32, att_count(a->heads, a->t));
    write_delta(a);
  }
  if (dq) write_dq(a, &l);
  if (dk || att_wants(a, "dv")) write_dkv(a, &l);
  if (sink) att_sink(a, SINK_THREADS, fmt(&a->k, "t * %lld + head", (long long)a->heads));
}
