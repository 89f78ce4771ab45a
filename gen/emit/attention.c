/* attention.c: fills templates/attention.cu. Self-contained: a faster template replaces both files.
 */
#include "emit/emit.h"

#include <string.h>

enum { ATTENTION_THREADS = 128, KEY_BLOCK = 4 };

typedef struct attention {
  kern k;
  int t, kv, g, d;          /* dims */
  int64_t heads, groups_of; /* K*G, G */
  int64_t size;             /* D */
  int vec, lanes, chunks, threads;
} attention;

static int find(emit *e, const char *name) {
  for (int i = 0; i < e->nmems; i++)
    if (e->mems[i].binding >= 0 && strcmp(e->list->bindings[e->mems[i].binding].name, name) == 0)
      return i;
  return -1;
}

/* The tensor of that name; one that the pass does not read by itself is bound too. */
static int need(emit *e, const char *name) {
  int m = find(e, name);
  for (int i = 0; m < 0 && i < gs_graph_ntensors(e->g); i++)
    if (strcmp(gs_graph_tensor_at(e->g, i)->name, name) == 0) m = memory_add_leaf(e, i);
  if (m < 0) emit_fail(e, 0, "the template attention needs a tensor '%s'", name);
  return m;
}

static void reads(attention *a, const char *name) {
  int m = need(a->k.e, name);
  if (m < 0) return;
  a->k.reads[m] = true;
  a->k.strides[m] = a->k.e->mems[m].ndims > 1;
}

static bool writes(attention *a, const char *name) {
  int m = find(a->k.e, name);
  if (m < 0 || a->k.e->mems[m].tensor >= 0) return false;
  a->k.writes[m] = true;
  a->k.strides[m] = a->k.e->mems[m].ndims > 1;
  return true;
}

static const char *piece_text(attention *a, const char *name, const shape *s) {
  emit *e = a->k.e;
  const char *text;
  size_t len;
  gs_text t = {0};
  if (gs_piece("templates/attention.cu", name, &text, &len, e->err)) {
    e->status = GS_ERR_INPUT;
    return "";
  }
  char *copy = gs_arena_alloc(e->a, len + 1);
  memcpy(copy, text, len);
  gs_status st = gs_expand(fmt(&a->k, "templates/attention.cu(%s)", name), copy, s->holes,
                           s->nholes, &t, e->err);
  if (st) e->status = st;
  const char *out = gs_arena_strdup(e->a, t.s ? t.s : "");
  gs_text_free(&t);
  return out;
}

/* Declares x_v, the vectors of x at a row and head that this lane has: zeros where not seen. */
static const char *load(attention *a, const char *x, const char *row, const char *head) {
  shape s = {0};
  hole(&s, "X", x);
  hole(&s, "ROW", row);
  hole(&s, "HEAD", head);
  hole_int(&a->k, &s, "D", a->size);
  hole_int(&a->k, &s, "VEC", a->vec);
  hole_int(&a->k, &s, "CHUNKS", a->chunks);
  hole_int(&a->k, &s, "LANES", a->lanes);
  return piece_text(a, "load", &s);
}

/* Declares `to`, this lane's part of x_v . y_v. */
static const char *dot(attention *a, const char *to, const char *x, const char *y) {
  shape s = {0};
  hole(&s, "TO", to);
  hole(&s, "X", x);
  hole(&s, "Y", y);
  hole_int(&a->k, &s, "VEC", a->vec);
  hole_int(&a->k, &s, "CHUNKS", a->chunks);
  return piece_text(a, "dot", &s);
}

static const char *summed(attention *a, const char *x) {
  return a->lanes == 1 ? x : fmt(&a->k, "GS_GROUP_SUM(%d, %s)", a->lanes, x);
}

/* Which token and head a group of lanes has: count heads of a token. */
static const char *place(attention *a, const char *what, int64_t count, bool with_g) {
  shape s = {0}, p = {0};
  kern *k = &a->k;
  hole_int(k, &s, "COUNT", count);
  if (with_g) hole_int(k, &s, "G", a->groups_of);
  if (a->lanes == 1) {
    hole(&s, "T", dim_text(k, a->t));
    hole_int(k, &s, "THREADS", a->threads);
    return piece_text(a, fmt(k, "%s_single", what), &s);
  }
  hole_int(k, &p, "COUNT", count);
  hole(&p, "T", dim_text(k, a->t));
  hole_int(k, &p, "GROUPS", a->threads / a->lanes);
  hole_int(k, &p, "PER_WARP", 32 / a->lanes);
  hole_int(k, &p, "LANES", a->lanes);
  hole(&s, "PLACE", piece_text(a, "place_group", &p));
  if (with_g) hole(&s, "T", dim_text(k, a->t));
  return piece_text(a, fmt(k, "%s_group", what), &s);
}

static void begin(attention *a, emit *e, shape *s, const char *piece) {
  kern_begin(&a->k, e, NULL);
  *s = (shape){.template_name = "attention",
               .piece = piece,
               .threads = a->threads,
               .barrier_free = a->lanes == 1};
  s->tunables =
      fmt(&a->k, "threads=%d lanes=%d vec=%d chunks=%d", a->threads, a->lanes, a->vec, a->chunks);
  hole_int(&a->k, s, "D", a->size);
  hole_int(&a->k, s, "VEC", a->vec);
}

static void common(attention *a, shape *s, int64_t count) {
  kern *k = &a->k;
  hole_int(k, s, "CHUNKS", a->chunks);
  hole_int(k, s, "LANES", a->lanes);
  hole(s, "BARRIER_FREE", a->lanes == 1 ? "1" : "0");
  hole(s, "SUM_DOT", summed(a, "dot"));
  hole(s, "CLOSE", a->lanes == 1 ? "}" : "");
  s->grid = (gs_count){.coef = count, .div = a->threads / a->lanes};
  if (dim_is_outer(k->e, a->t))
    s->grid.dims = (gs_dims)1 << dim_root(k->e, a->t);
  else
    s->grid.coef *= dim_size(k->e, a->t);
}

static void write_forward(attention *a, emit *e) {
  shape s;
  begin(a, e, &s, "forward");
  static const char *const in[] = {"q", "k", "v", "start", "scale"};
  for (int i = 0; i < 5; i++) reads(a, in[i]);
  writes(a, "y");
  bool saves = writes(a, "lse");
  hole_int(&a->k, &s, "BLOCK", KEY_BLOCK);
  hole(&s, "PLACE_QUERY", place(a, "query", a->heads, true));
  hole(&s, "LOAD_K", load(a, "k", "(j0 + b)", "kv"));
  hole(&s, "DOT_QK", dot(a, "dot", "q", "k"));
  hole(&s, "STORE_LSE",
       !saves ? ""
              : fmt(&a->k, "%sgs_put(lse, t * lse_ld + head, top + gs_log(total));",
                    a->lanes > 1 ? "if (lane == 0) " : ""));
  common(a, &s, a->heads);
  add_kernel(&a->k, &s);
}

static void write_delta(attention *a, emit *e, int delta) {
  shape s;
  begin(a, e, &s, "delta");
  reads(a, "y");
  reads(a, "dy");
  a->k.writes[delta] = true;
  s.barrier_free = true;
  hole_int(&a->k, &s, "COUNT", a->heads);
  hole(&s, "T", dim_text(&a->k, a->t));
  s.grid = (gs_count){.coef = a->heads, .div = a->threads};
  if (dim_is_outer(e, a->t))
    s.grid.dims = (gs_dims)1 << dim_root(e, a->t);
  else
    s.grid.coef *= dim_size(e, a->t);
  add_kernel(&a->k, &s);
}

static void read_backward(attention *a, int delta) {
  static const char *const in[] = {"q", "k", "start", "scale", "lse", "dy"};
  for (int i = 0; i < 6; i++) reads(a, in[i]);
  if (delta < 0) return;
  reads(a, "v");
  a->k.reads[delta] = true;
}

static void write_dq(attention *a, emit *e, int delta) {
  shape s;
  begin(a, e, &s, "dq");
  read_backward(a, delta);
  writes(a, "dq");
  hole_int(&a->k, &s, "BLOCK", KEY_BLOCK);
  hole_int(&a->k, &s, "COUNT", a->heads);
  hole(&s, "PLACE_QUERY", place(a, "query", a->heads, true));
  hole(&s, "LOAD_K", load(a, "k", "(j0 + b)", "kv"));
  hole(&s, "LOAD_V", load(a, "v", "(j0 + b)", "kv"));
  hole(&s, "DOT_QK", dot(a, "dot", "q", "k"));
  hole(&s, "DOT_DYV", dot(a, "dw", "dy", "v"));
  hole(&s, "SUM_DW", summed(a, "dw"));
  common(a, &s, a->heads);
  add_kernel(&a->k, &s);
}

static const char *store_text(attention *a, const char *name) {
  if (!writes(a, name)) return "";
  return fmt(&a->k, "gs_store<%d>(%s, j * %s_ld + kv * %lld + i, %s_v[c]);", a->vec, name, name,
             (long long)a->size, name);
}

/* dk and dv, or dv alone, which needs neither v nor y. */
static void write_dkv(attention *a, emit *e, int delta) {
  shape s;
  bool alone = delta < 0;
  begin(a, e, &s, alone ? "dv" : "dkv");
  read_backward(a, delta);
  if (!alone) hole(&s, "STORE_DK", store_text(a, "dk"));
  hole(&s, "STORE_DV", store_text(a, "dv"));
  hole_int(&a->k, &s, "G", a->groups_of);
  if (!alone) hole_int(&a->k, &s, "HEADS", a->heads);
  hole(&s, "T", dim_text(&a->k, a->t));
  hole(&s, "PLACE_KEY", place(a, "key", a->heads / a->groups_of, false));
  hole(&s, "LOAD_Q", load(a, "q", "t", "head"));
  hole(&s, "LOAD_DY", load(a, "dy", "t", "head"));
  hole(&s, "DOT_KQ", dot(a, "dot", "k", "q"));
  if (!alone) hole(&s, "DOT_VDY", dot(a, "dw", "v", "dy"));
  if (!alone) hole(&s, "SUM_DW", summed(a, "dw"));
  common(a, &s, a->heads / a->groups_of);
  add_kernel(&a->k, &s);
}

static gs_status read_shape(attention *a, emit *e) {
  int q = need(e, "q");
  if (e->status) return e->status;
  const mem *m = &e->mems[q];
  if (m->ndims != 4) {
    emit_fail(e, 0, "the template attention wants q over [T, K, G, D]");
    return e->status;
  }
  *a = (attention){.t = m->dim[0], .kv = m->dim[1], .g = m->dim[2], .d = m->dim[3]};
  a->size = dim_size(e, a->d);
  a->groups_of = dim_size(e, a->g);
  a->heads = dim_size(e, a->kv) * a->groups_of;
  a->vec = 8;
  while (a->size % a->vec) a->vec /= 2;
  a->lanes = 32;
  while (a->size % (a->lanes * a->vec)) a->lanes /= 2;
  if (e->caps->is_emulator) a->lanes = 1;
  a->chunks = (int)(a->size / (a->lanes * a->vec));
  a->threads = a->lanes == 1 ? 32 : ATTENTION_THREADS;
  return GS_OK;
}

static int delta_temp(attention *a, emit *e) {
  gs_dims dims = (gs_dims)1 << a->t | (gs_dims)1 << a->kv | (gs_dims)1 << a->g;
  int m = mem_temp(e, "delta", GS_F32, dims, 0, NULL);
  gs_count n = {.coef = a->heads, .div = 1};
  if (dim_is_outer(e, a->t))
    n.dims = (gs_dims)1 << dim_root(e, a->t);
  else
    n.coef *= dim_size(e, a->t);
  mem_allocate_temp(e, m, n);
  return m;
}

gs_status write_attention(emit *e) {
  attention a;
  if (memory_bind(e) || read_shape(&a, e)) return e->status;
  for (int i = 0; i < e->pass->nresults; i++)
    if (e->pass->results[i].add)
      emit_fail(e, 0, "the template attention can't add to '%s'", e->pass->results[i].name);
  if (e->pass->kind == GS_PASS_TERMINAL) emit_fail(e, 0, "attention has no terminal pass");
  if (e->pass->kind != GS_PASS_BACKWARD) {
    if (!e->status) write_forward(&a, e);
    return e->status;
  }
  bool dq = find(e, "dq") >= 0, dk = find(e, "dk") >= 0, dv = find(e, "dv") >= 0;
  static const char *const in[] = {"q", "k", "start", "scale", "lse", "dy", "v", "y"};
  for (int i = 0; i < (dq || dk ? 8 : 6); i++) need(e, in[i]);
  if (e->status) return e->status;
  int delta = dq || dk ? delta_temp(&a, e) : -1;
  if (delta >= 0) write_delta(&a, e, delta);
  if (dq) write_dq(&a, e, delta);
  if (dk || dv) write_dkv(&a, e, dk ? delta : -1);
  return e->status;
}
