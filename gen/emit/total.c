/* total.c: template total: adds the parts that blocks wrote of sums over rows, in a fixed order,
 * then computes what follows from the sums alone. */
#include "emit/emit.h"

enum {
  SERIAL_THREADS = 64, /* one an element: few parts */
  SLICED_COLUMNS = 8,  /* elements of a block; the other threads share out their parts, */
  VECTOR_COLUMNS = 16, /* so many where a thread takes */
  VECTOR = 4,          /* neighbours at once; */
  SLICED_LEAST = 256,  /* as few threads as have, */
  SLICED_MOST = 512,   /* where there are so many, */
  SLICED_AT_ONCE = 12, /* no more parts each than they load before they add them */
  FEW_PARTS = 32
};

/* Parts of an element: those of the blocks, each over the dims that the sum does not keep. */
typedef struct parts {
  unit *made;    /* what writes them */
  int64_t width; /* elements of a part */
  int64_t extra; /* of them, those that become one */
  int64_t most;
  bool sliced;
  /* sliced: elements of a block and of a thread, threads, loads of a thread before it adds */
  int columns, vec, threads, at_once;
  bool compensated; /* a thread adds so many that it carries the rounding error along */
} parts;

/* Each turn of loads waits for memory: one turn where threads suffice for that, else even ones. */
static void share_out(parts *p) {
  int64_t threads = SLICED_LEAST, slices = threads * p->vec / p->columns;
  for (; threads < SLICED_MOST && p->most > slices * SLICED_AT_ONCE; slices *= 2) threads *= 2;
  int64_t each = up(p->most, slices);
  p->threads = (int)threads;
  p->at_once = (int)up(each, up(each, SLICED_AT_ONCE));
  p->compensated = each > LONGEST_CHAIN;
}

static parts parts_of(const kern *k, int64_t elements) {
  unit *made = k->e->units[k->u->parts_unit];
  bool number = k->u->kept == 0;
  parts p = {.made = made, .width = number ? 1 : made->parts_space.count, .compensated = true};
  p.extra = p.width / elements;
  p.most = made->cap * (number ? 1 : made->parts_each) * p.extra;
  p.sliced = !number && p.most > FEW_PARTS && k->e->caps->row_threads > 1;
  if (!p.sliced) return p;
  bool along = k->u->nrow == 1 && p.extra == 1 && elements % VECTOR == 0;
  p.vec = along ? VECTOR : 1;
  p.columns = along ? VECTOR_COLUMNS : SLICED_COLUMNS;
  share_out(&p);
  return p;
}

static void count_parts(kern *k, const parts *p) {
  unit *own = k->u;
  k->u = p->made;
  const char *rows = rows_text(k);
  k->u = own;
  long long cap = (long long)p->made->cap, by = (long long)p->made->per_block;
  long long each = own->kept ? (long long)p->made->parts_each : 1;
  if (by > 1)
    line(k, "const i64 need = (%s + %lld) / %lld;", rows, by - 1, by);
  else
    line(k, "const i64 need = %s;", rows);
  each *= (long long)p->extra;
  line(k,
       each > 1 ? "const i64 parts = (need < %lld ? need : %lld) * %lld;"
                : "const i64 parts = need < %lld ? need : %lld;",
       cap, cap, each);
}

/* Every read of a total becomes the sum that this kernel has made. */
static void name_totals(kern *k, unit *u, const int *roots, int n) {
  emit *e = k->e;
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, roots, n, seen, true, NULL);
  where_at w;
  for (int v = 0; v < e->nvals; v++) {
    if (!seen[v] || e->vals[v].kind != VAL_LOAD) continue;
    for (int c = 0; c < u->ncolumns; c++) {
      if (e->vals[v].mem != u->columns[c].total) continue;
      int row, off;
      where_loops(e, &w);
      mem_index(e, &e->mems[u->columns[c].total], &w, &row, &off);
      if (off != e->vals[v].off)
        emit_fail(e, u->line, "a sum over rows is read at another index than it is made");
      k->name[v] = fmt(k, "%s_v", e->mems[u->columns[c].total].name);
    }
  }
}

/* ---- where a part of an element lies ---- */

static bool keeps(const unit *u, int d) {
  return (u->kept >> d & 1) != 0;
}

static void add_to(kern *k, const char **sum, const char *index, int64_t stride) {
  const char *t = stride == 1 ? index : fmt(k, "%s * %lld", index, (long long)stride);
  *sum = **sum ? fmt(k, "%s + %s", *sum, t) : t;
}

/* The index of part b: its row of the parts, and in it the element that the loop variables name,
 * at the b-th point of the dims that are summed. */
static const char *part_index(kern *k, const parts *p) {
  const space *s = &p->made->parts_space;
  const char *at = "";
  int64_t extra = p->extra;
  if (p->width == 1) return "b";
  for (int j = 0; j < s->n; j++) {
    if (s->size[j] == 1) continue;
    if (keeps(k->u, s->dim[j])) {
      add_to(k, &at, k->var[s->dim[j]], s->stride[j]);
      continue;
    }
    extra /= s->size[j];
    const char *point = extra == 1 ? "b" : fmt(k, "b / %lld", (long long)extra);
    add_to(k, &at, fmt(k, "%s %% %lld", point, (long long)s->size[j]), s->stride[j]);
  }
  const char *row = p->extra == 1 ? "b" : fmt(k, "b / %lld", (long long)p->extra);
  return fmt(k, "%s * %lld + %s", row, (long long)p->width, at);
}

/* ---- adding ---- */

/* Writes that a sum takes a value in; what names the place in vectors, or "". */
static void add_part(kern *k, const column *c, bool compensated, const char *at,
                     const char *value) {
  const char *n = c->name;
  if (c->op != GS_OP_SUM) {
    const char *how = c->op == GS_OP_RMAX ? "gs_max" : "gs_min";
    line(k, "%s_acc%s = %s(%s_acc%s, %s);", n, at, how, n, at, value);
  } else if (!compensated) {
    line(k, "%s_acc%s += %s;", n, at, value);
  } else {
    line(k, "const f32 %s_term = %s - %s_comp%s;", n, value, n, at);
    line(k, "const f32 %s_next = %s_acc%s + %s_term;", n, n, at, n);
    line(k, "%s_comp%s = (%s_next - %s_acc%s) - %s_term;", n, at, n, n, at, n);
    line(k, "%s_acc%s = %s_next;", n, at, n);
  }
}

static void load_parts(kern *k, const parts *p, const char *at, shape *sh) {
  const unit *u = k->u;
  for (int c = 0; c < u->ncolumns; c++)
    line(k, p->vec > 1 ? "f32 %s_part[%d][%d];" : "f32 %s_part[%d];", u->columns[c].name,
         p->at_once, p->vec);
  hole(sh, "LOADED", take_text(k));
  for (int c = 0; c < u->ncolumns; c++) {
    const char *n = u->columns[c].name, *from = k->e->mems[u->columns[c].mem].name;
    if (p->vec > 1)
      line(k, "if (b < parts) gs_load<%d>(%s_part[l], %s, b * %lld + at);", p->vec, n, from,
           (long long)p->width);
    else
      line(k, "%s_part[l] = b < parts ? gs_get(%s, %s) : 0.0f;", n, from, at);
  }
  hole(sh, "LOAD", take_text(k));
}

static void add_parts(kern *k, const parts *p, shape *sh) {
  unit *u = k->u;
  bool vectors = p->sliced && p->vec > 1;
  for (int c = 0; c < u->ncolumns; c++) {
    term t = {.kind = TERM_REDUCE,
              .name = u->columns[c].name,
              .chunk = "",
              .op = u->columns[c].op,
              .compensated = u->columns[c].op == GS_OP_SUM && p->compensated};
    declare_sum(k, &t, vectors ? p->vec : 1, "");
    k->reads[u->columns[c].mem] = true;
  }
  hole(sh, "SUMS", take_text(k));
  const char *at = vectors ? "" : part_index(k, p);
  if (vectors) line(k, "GS_UNROLL");
  if (vectors) open_block(k, "for (int v = 0; v < %d; v++)", p->vec);
  for (int c = 0; c < u->ncolumns; c++) {
    const char *from = k->e->mems[u->columns[c].mem].name;
    const char *value = p->sliced ? fmt(k, "%s_part[l]%s", u->columns[c].name, vectors ? "[v]" : "")
                                  : fmt(k, "gs_get(%s, %s)", from, at);
    add_part(k, &u->columns[c], p->compensated, vectors ? "[v]" : "", value);
  }
  if (vectors) close_block(k);
  hole(sh, "ADD", take_text(k));
  if (p->sliced) load_parts(k, p, at, sh);
}

static void meet(kern *k, gs_op op, const char *acc, const char *other) {
  if (op == GS_OP_SUM)
    line(k, "%s += %s;", acc, other);
  else
    line(k, "%s = %s(%s, %s);", acc, op == GS_OP_RMAX ? "gs_max" : "gs_min", acc, other);
}

/* The slices of a warp meet; what they have goes to shared memory. */
static void leave_slices(kern *k, const parts *p, const column *c) {
  int lanes = p->columns / p->vec;
  bool vectors = p->vec > 1;
  const char *acc = fmt(k, vectors ? "%s_acc[v]" : "%s_acc", c->name);
  if (vectors) line(k, "GS_UNROLL");
  if (vectors) open_block(k, "for (int v = 0; v < %d; v++)", p->vec);
  for (int o = 16; o >= lanes; o /= 2) meet(k, c->op, acc, fmt(k, "GS_EXCHANGE(%s, %d)", acc, o));
  const char *own = vectors ? fmt(k, "GS_LANE * %d + v", p->vec) : "GS_LANE";
  line(k, "if (GS_LANE < %d) %s_slices[GS_WARP * %d + %s] = %s;", lanes, c->name, p->columns, own,
       acc);
  if (vectors) close_block(k);
}

/* The slices of an element meet: within a warp, then the warps one after another. */
static void meet_slices(kern *k, const parts *p, shape *sh) {
  unit *u = k->u;
  int warps = p->threads / 32, all = warps * p->columns;
  for (int c = 0; c < u->ncolumns; c++)
    line(k, "GS_SHARED(f32, %s_slices, %d);", u->columns[c].name, all);
  hole(sh, "SHARED", take_text(k));
  for (int c = 0; c < u->ncolumns; c++) leave_slices(k, p, &u->columns[c]);
  hole(sh, "MEET", take_text(k));
  for (int c = 0; c < u->ncolumns; c++) {
    const char *n = u->columns[c].name;
    line(k, "f32 %s_all = %s_slices[GS_TID];", n, n);
    line(k, "GS_UNROLL");
    open_block(k, "for (int w = 1; w < %d; w++)", warps);
    line(k, "const f32 %s_other = %s_slices[w * %d + GS_TID];", n, n, p->columns);
    meet(k, u->columns[c].op, fmt(k, "%s_all", n), fmt(k, "%s_other", n));
    close_block(k);
  }
}

/* together: each lane of a warp has added a share. */
static void declare_totals(kern *k, const unit *u, const char *what_has, bool together) {
  for (int c = 0; c < u->ncolumns; c++) {
    const char *name = k->e->mems[u->columns[c].total].name;
    const char *acc = fmt(k, "%s_%s", u->columns[c].name, what_has);
    gs_op op = u->columns[c].op;
    const char *what = op == GS_OP_RMAX ? "MAX" : op == GS_OP_RMIN ? "MIN" : "SUM";
    if (together)
      line(k, "const f32 %s_v = GS_WARP_%s(%s);", name, what, acc);
    else
      line(k, "const f32 %s_v = %s;", name, acc);
  }
}

/* A thread begins with the first of its neighbours, and ends with an element of its own. */
static void sliced_shape(kern *k, const parts *p, shape *sh) {
  int lanes = p->columns / p->vec;
  bool vectors = p->vec > 1;
  hole_int(k, sh, "COLUMNS", p->columns);
  hole_int(k, sh, "LANES", lanes);
  hole_int(k, sh, "SLICES", p->threads / lanes);
  hole_int(k, sh, "AT_ONCE", p->at_once);
  hole(sh, "AT", vectors ? "at" : row_name(k));
  hole(sh, "PLACE",
       vectors ? fmt(k, "GS_TID %% %d * %d", lanes, p->vec) : fmt(k, "GS_TID %% %d", lanes));
  const char *own = fmt(k, "const i64 %s = GS_BID * %d + GS_TID;", row_name(k), p->columns);
  hole(sh, "OWN", vectors ? own : "");
}

static void total_shape(kern *k, const parts *p, int64_t elements, shape *sh) {
  bool alone = k->e->caps->row_threads == 1, number = k->u->kept == 0;
  int columns = p->sliced ? p->columns : SERIAL_THREADS;
  sh->template_name = "total";
  sh->follows = !alone;
  sh->threads = number ? 32 : p->sliced ? p->threads : SERIAL_THREADS;
  sh->piece = p->sliced ? "sliced" : !number ? "columns" : alone ? "single" : "warp";
  sh->barrier_free = !p->sliced && (!number || alone);
  sh->grid = (gs_count){.coef = elements, .div = number ? 1 : columns};
  sh->tunables = fmt(k, "threads=%d", sh->threads);
  if (number) return;
  hole(sh, "ROW", row_name(k));
  hole_int(k, sh, "WIDTH", elements);
  if (p->sliced) sliced_shape(k, p, sh);
}

void write_total(emit *e, unit *u) {
  kern k;
  int roots[MAX_STORES], n = u->nstores;
  int64_t elements = 1;
  for (int i = 0; i < n; i++) roots[i] = u->stores[i].value;
  for (int d = 0; d < gs_graph_ndims(e->g); d++)
    if (u->kept >> d & 1) elements *= dim_size(e, d);
  u->rows = u->kept;
  unit_rows(e, u);
  kern_begin(&k, e, u);
  kern_uses(&k, roots, n);
  name_totals(&k, u, roots, n);
  parts p = parts_of(&k, elements);
  shape sh = {0};
  total_shape(&k, &p, elements, &sh);
  count_parts(&k, &p);
  row_bind(&k);
  hole(&sh, "COUNT_PARTS", take_text(&k));
  add_parts(&k, &p, &sh);
  if (p.sliced) meet_slices(&k, &p, &sh);
  declare_totals(&k, u, p.sliced ? "all" : "acc", !u->kept && e->caps->row_threads > 1);
  hole(&sh, "SUMMED", take_text(&k));
  row_values(&k, roots, n, 0);
  for (int i = 0; i < n; i++) row_store(&k, &u->stores[i], NULL);
  hole(&sh, "BODY", take_text(&k));
  add_kernel(&k, &sh);
}
