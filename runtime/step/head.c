/* head.c: the end of a language model as one block: logits = x·Wᵀ, and the mean of their cross
 * entropy, chunk of tokens by chunk of tokens, so that no tensor of all logits exists. The layer
 * cross_entropy is terminal here: its upstream is a step scalar, hence the gradient of a chunk's
 * logits is made in the pass that makes its loss, in the logits' own memory, and goes into the
 * gradients of x, of the adapter and of the weight before the next chunk's logits take that memory.
 *
 * What is summed over all tokens (the loss, A's gradient, x·Aᵀ) is formed once, as without chunks;
 * what is summed chunk by chunk (B's gradient, the weight's) is added in f32, in the order of the
 * tokens. Ignored labels cost what others do, and the host decides nothing by them. */
#include "step/record.h"

#include <stdio.h>
#include <string.h>

#define CHUNK_BYTES ((int64_t)300 << 20) /* of logits, where that is CHUNK_TOKENS or more, */
#define MOST_BYTES ((int64_t)512 << 20)  /* and in any case */
#define CHUNK_TOKENS 512                 /* with fewer rows matrix products are slower */
#define CHUNK_ROWS 256                   /* and where half a tile's rows are left over */
#define ROW_ALIGN 128                    /* bytes: rows of the logits begin at multiples of it */
#define EVEN 8 /* matrix products over a V that is no multiple take many times as long */

typedef struct head {
  gs_record *r;
  const gs_head *h;
  const gs_adapter *adapter; /* NULL: none */
  int x, weight;             /* x as [T, H] */
  const gs_named *options;   /* of cross_entropy */
  int noptions;
  int64_t T, V;
  int64_t even; /* columns of the logits that products take together; the rest follow alone */
  int64_t wide; /* columns with those that are no classes, so that vectors divide a row */
  bool wants_grad;
  int copy_b, a;            /* of the adapter, and x·Aᵀ */
  int loss;                 /* [T] f32 */
  int dx, dweight, db, da;  /* -1 none */
  bool add_dx, add_dweight; /* to what others have put there */
} head;

/* ---- sizes ---- */

static int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

/* As many as have room in CHUNK_BYTES, or CHUNK_TOKENS; all chunks about equal, multiples of
 * CHUNK_ROWS. */
int64_t gs_head_chunk(int64_t tokens, int64_t V, gs_type type) {
  int64_t row = round_up(V * (int64_t)gs_type_size(type), ROW_ALIGN);
  int64_t most = CHUNK_BYTES / row;
  if (most < CHUNK_TOKENS) most = CHUNK_TOKENS;
  if (most > MOST_BYTES / row) most = MOST_BYTES / row;
  if (most >= CHUNK_ROWS) most = most / CHUNK_ROWS * CHUNK_ROWS;
  if (most < 1) most = 1;
  if (tokens <= most) return tokens;
  int64_t chunks = (tokens + most - 1) / most;
  int64_t even = round_up((tokens + chunks - 1) / chunks, CHUNK_ROWS);
  return even < most ? even : most;
}

static gs_status check_options(const gs_head *h, gs_error *err) {
  static const char *const known[] = {"scale", "softcap", "smoothing", "z_loss"};
  for (int i = 0; i < h->noptions; i++) {
    size_t k = 0;
    while (k < 4 && strcmp(known[k], h->options[i].name) != 0) k++;
    if (k == 4)
      return gs_fail(err, GS_ERR_USE,
                     "%s: a head has no \"%s\"; it takes scale, softcap, smoothing, z_loss",
                     h->module, h->options[i].name);
  }
  return GS_OK;
}

static gs_status check_shapes(const gs_record *r, const gs_head *h, gs_error *err) {
  char text[2][160];
  const gs_var *w = &r->vars[h->weight], *v = &r->vars[h->x];
  if (w->ndims == 2 && v->ndims >= 2 && gs_var_count(v) == v->shape[0] * w->shape[1] &&
      v->type == w->type)
    return GS_OK;
  return gs_fail(err, GS_ERR_USE, "%s: a head of weight %s takes [T, %lld] %s, but %s was given",
                 h->module, gs_var_text(w, text[0], sizeof text[0]),
                 (long long)(w->ndims == 2 ? w->shape[1] : -1), gs_type_name(w->type),
                 gs_var_text(v, text[1], sizeof text[1]));
}

/* ---- one chunk ---- */

/* Columns v, v + 1, ... of the logits (or their gradient), and the rows that belong to them. */
typedef struct part {
  int64_t n;
  int z, weight, copy_b;
} part;

static part part_of(head *b, int z, int64_t v) {
  gs_record *r = b->r;
  part p = {.n = b->V - v < b->even ? b->V - v : b->even, .copy_b = -1};
  p.z = gs_record_columns(r, z, v, p.n);
  p.weight = gs_record_rows(r, b->weight, v, p.n);
  if (b->adapter) p.copy_b = gs_record_rows(r, b->copy_b, v, p.n);
  return p;
}

static int logits_of(head *b, int x, int64_t from, int64_t n) {
  gs_record *r = b->r;
  int64_t shape[2] = {n, b->wide}, size = (int64_t)gs_type_size(r->dtype);
  char name[200];
  snprintf(name, sizeof name, "%s logits", b->h->module);
  int z = gs_record_var(r, name, r->dtype, 2, shape);
  r->vars[z].stride = round_up(b->wide * size, ROW_ALIGN) / size;
  for (int64_t v = 0; v < b->V; v += b->even) {
    part p = part_of(b, z, v);
    gs_record_gemm(r, b->h->module, x, false, p.weight, true, p.z, 1, false);
    if (b->adapter)
      gs_record_gemm(r, b->h->module, gs_record_rows(r, b->a, from, n), false, p.copy_b, true, p.z,
                     gs_params_scale(r->params), true);
  }
  if (b->wide > b->V) /* zeros */
    gs_record_gemm(r, b->h->module, x, false, gs_record_rows(r, b->weight, 0, b->wide - b->V), true,
                   gs_record_columns(r, z, b->V, b->wide - b->V), 0, false);
  return z;
}

/* What dz, the gradient of the logits from row `from`, adds to the others. */
static void spread(head *b, int dz, int x, int64_t from, int64_t n) {
  gs_record *r = b->r;
  const char *what = b->h->module;
  bool later = from > 0;
  for (int64_t v = 0; v < b->V; v += b->even) {
    part p = part_of(b, dz, v);
    if (b->dx >= 0)
      gs_record_gemm(r, what, p.z, false, p.weight, false, gs_record_rows(r, b->dx, from, n), 1,
                     b->add_dx || v > 0);
    if (b->dweight >= 0)
      gs_record_gemm(r, what, p.z, true, x, false, gs_record_rows(r, b->dweight, v, p.n), 1,
                     b->add_dweight || later);
    if (!b->adapter) continue;
    double scale = gs_params_scale(r->params);
    int a = gs_record_rows(r, b->a, from, n), da = gs_record_rows(r, b->da, from, n);
    gs_record_gemm(r, what, p.z, true, a, false, gs_record_rows(r, b->db, v, p.n), scale, later);
    gs_record_gemm(r, what, p.z, false, p.copy_b, false, da, scale, v > 0);
  }
}

static gs_status record_chunk(head *b, int64_t from, int64_t n, gs_error *err) {
  gs_record *r = b->r;
  int x = gs_record_rows(r, b->x, from, n), z = logits_of(b, x, from, n), dz;
  gs_named args[2] = {{"logits", z, 0}, {"label", gs_record_rows(r, b->h->label, from, n), 0}};
  gs_terminal t = {.layer = "cross_entropy",
                   .args = args,
                   .nargs = 2,
                   .options = b->options,
                   .noptions = b->noptions,
                   .result = gs_record_rows(r, b->loss, from, n),
                   .input = b->wants_grad ? z : -1,
                   .upstream = b->h->upstream};
  gs_status s = gs_record_terminal(r, &t, &dz, err);
  if (s) return s;
  if (b->wants_grad) spread(b, dz, x, from, n);
  if (r->keep_logits) {
    r->head.logits = gs_record_columns(r, z, 0, b->V);
    r->vars[z].keep = true;
  }
  return GS_OK;
}

/* ---- all of it ---- */

/* A contribution to the gradient of var, when it needs one: its place, or -1. */
static int begin_grad(gs_record *r, int var, int contributions, bool *add) {
  *add = false;
  if (!gs_record_base(r, var)->needs_grad) return -1;
  int grad = gs_record_grad(r, var, add);
  gs_record_base(r, var)->uses += contributions;
  gs_record_base(r, var)->taken += contributions - 1;
  return grad;
}

/* Nobody adds to the gradient of var, and one product makes it: rounded once, it loses no more than
 * a linear's result does. */
static bool is_made_at_once(const head *b, int var) {
  const gs_record *r = b->r;
  int base = r->vars[var].base;
  for (int i = 0; i < r->ncalls; i++) {
    const gs_call *c = &r->calls[i];
    if (c->is_linear && r->vars[c->x].base == base) return false;
    for (int k = 0; !c->is_linear && k < c->decl->nparams; k++)
      if (c->param[k] >= 0 && r->vars[c->param[k]].base == base) return false;
  }
  return !b->adapter && b->even == b->V;
}

static void begin_adapter(head *b) {
  gs_record *r = b->r;
  int64_t shape[2] = {b->T, gs_params_lora(r->params)->r};
  b->copy_b = gs_record_adapter(r, b->adapter, true, false);
  b->a = gs_record_var(r, b->h->module, r->dtype, 2, shape);
  gs_record_gemm(r, b->h->module, b->x, false, gs_record_adapter(r, b->adapter, false, false), true,
                 b->a, 1, false);
  if (!b->wants_grad) return;
  b->db = gs_record_adapter(r, b->adapter, true, true);
  b->da = gs_record_var(r, "d x·Aᵀ", GS_F32, 2, shape);
}

/* The options of cross_entropy: those of the head, and the columns that are no classes. */
static void add_padding(head *b) {
  gs_named *o = GS_NEW_N(b->r->arena, gs_named, b->h->noptions + 1);
  b->noptions = b->h->noptions;
  for (int i = 0; i < b->noptions; i++) o[i] = b->h->options[i];
  if (b->wide > b->V) o[b->noptions++] = (gs_named){"padding", -1, (double)(b->wide - b->V)};
  b->options = o;
}

static void begin(head *b) {
  gs_record *r = b->r;
  const gs_var *w = &r->vars[b->h->weight];
  int64_t shape[2] = {r->vars[b->h->x].shape[0], w->shape[1]};
  char name[200];
  b->T = shape[0];
  b->V = w->shape[0];
  b->even = b->V < EVEN ? b->V : b->V / EVEN * EVEN;
  b->wide = b->V < EVEN ? b->V : round_up(b->V, EVEN);
  add_padding(b);
  b->x = gs_record_view(r, b->h->x, 2, shape);
  b->weight = b->h->weight;
  b->adapter = r->params ? gs_params_find(r->params, b->h->module) : NULL;
  b->wants_grad = (r->mode == GS_STEP_TRAIN || r->mode == GS_STEP_GRADIENT) &&
                  (b->adapter || gs_record_base(r, b->x)->needs_grad ||
                   gs_record_base(r, b->weight)->needs_grad);
  b->dx = b->dweight = b->db = b->da = -1;
  if (b->wants_grad) {
    if (is_made_at_once(b, b->x)) gs_record_base(r, b->x)->narrow = true;
    b->dx = begin_grad(r, b->x, b->adapter ? 2 : 1, &b->add_dx);
    b->dweight = begin_grad(r, b->weight, 1, &b->add_dweight);
  }
  if (b->adapter) begin_adapter(b);
  snprintf(name, sizeof name, "%s losses", b->h->module);
  b->loss = gs_record_var(r, name, GS_F32, 1, &b->T);
}

/* dA = daᵀ·x, dx += da·A, with da rounded once. */
static gs_status finish_adapter(head *b, gs_error *err) {
  gs_record *r = b->r;
  const char *what = b->h->module;
  int da = b->da;
  if (r->dtype != GS_F32) {
    gs_status s = gs_record_cast(r, b->da, r->dtype, &da, err);
    if (s) return s;
  }
  gs_record_gemm(r, what, da, true, b->x, false, gs_record_adapter(r, b->adapter, false, true), 1,
                 false);
  if (b->dx >= 0)
    gs_record_gemm(r, what, da, false, gs_record_adapter(r, b->adapter, false, false), false, b->dx,
                   1, true);
  return GS_OK;
}

static gs_status finish(head *b, gs_error *err) {
  gs_record *r = b->r;
  gs_call *c;
  gs_status s = b->adapter && b->wants_grad ? finish_adapter(b, err) : GS_OK;
  if (s) return s;
  gs_named mean[2] = {{"loss", b->loss, 0}, {"inv_count", b->h->upstream, 0}};
  s = gs_record_layer(r, "mean_loss", mean, 2, NULL, 0, &c, err);
  if (s) return s;
  r->head.loss = c->result[0];
  r->vars[c->result[0]].keep = true;
  return GS_OK;
}

/* Generation wants the logits of one token, a survey their shape. */
static gs_status record_logits(gs_record *r, const gs_head *h, gs_error *err) {
  int x = h->x;
  gs_status s = GS_OK;
  if (r->mode == GS_STEP_INFER) {
    gs_named args[2] = {{"E", h->x, 0}, {"id", h->last, 0}};
    gs_call *c;
    s = gs_record_layer(r, "embedding", args, 2, NULL, 0, &c, err);
    if (s) return s;
    x = c->result[0];
  }
  s = gs_record_linear(r, h->module, x, h->weight, &r->head.logits, err);
  if (!s) gs_record_base(r, r->head.logits)->keep = true;
  return s;
}

gs_status gs_record_head(gs_record *r, const gs_head *h, gs_error *err) {
  if (r->head.is_there)
    return gs_fail(err, GS_ERR_USE, "%s: the model has a head already", h->module);
  gs_status s = check_options(h, err);
  if (!s) s = check_shapes(r, h, err);
  if (s) return s;
  r->head.is_there = true;
  for (int i = 0; i < h->noptions; i++) {
    if (strcmp(h->options[i].name, "scale") == 0) r->head.scale = h->options[i].number;
    if (strcmp(h->options[i].name, "softcap") == 0) r->head.softcap = h->options[i].number;
  }
  if (r->mode == GS_STEP_INFER || r->mode == GS_STEP_SURVEY) return record_logits(r, h, err);
  head b = {.r = r, .h = h};
  begin(&b);
  int64_t chunk = r->chunk ? r->chunk : gs_head_chunk(b.T, b.V, r->dtype);
  if (r->keep_logits) chunk = b.T;
  for (int64_t from = 0; from < b.T && !s; from += chunk)
    s = record_chunk(&b, from, b.T - from < chunk ? b.T - from : chunk, err);
  return s ? s : finish(&b, err);
}
