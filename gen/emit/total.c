/* total.c: template total: adds the parts that blocks wrote of sums over rows, in a fixed order,
 * then computes what follows from the sums alone. */
#include "emit/emit.h"

enum {
  SERIAL_THREADS = 64, /* one an element: few parts */
  SLICED_THREADS = 256,
  SLICED_COLUMNS = 8, /* elements of a block; the other threads share out their parts, */
  SLICED_AT_ONCE = 8, /* of which they load so many before they add them */
  FEW_PARTS = 32
};

/* Parts of an element: those of the blocks, each over the dims that the sum does not keep. */
typedef struct parts {
  unit *made;    /* what writes them */
  int64_t width; /* elements of a part */
  int64_t extra; /* of them, those that become one */
  int64_t most;
  bool sliced;
} parts;

static parts parts_of(const kern *k, int64_t elements) {
  unit *made = k->e->units[k->u->parts_unit];
  bool number = k->u->kept == 0;
  parts p = {.made = made, .width = number ? 1 : made->parts_space.count};
  p.extra = p.width / elements;
  p.most = made->cap * (number ? 1 : made->parts_each) * p.extra;
  p.sliced = !number && p.most > FEW_PARTS && k->e->caps->row_threads > 1;
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

static void add_parts(kern *k, const parts *p, shape *sh) {
  unit *u = k->u;
  for (int c = 0; c < u->ncolumns; c++) {
    term t = {.kind = TERM_REDUCE,
              .name = u->columns[c].name,
              .chunk = "",
              .op = u->columns[c].op,
              .compensated = u->columns[c].op == GS_OP_SUM};
    declare_sum(k, &t, 1, "");
    k->reads[u->columns[c].mem] = true;
  }
  hole(sh, "SUMS", take_text(k));
  const char *at = part_index(k, p);
  for (int c = 0; c < u->ncolumns; c++) {
    const char *n = u->columns[c].name, *from = k->e->mems[u->columns[c].mem].name;
    const char *get = fmt(k, "gs_get(%s, %s)", from, at);
    if (p->sliced) get = fmt(k, "%s_part[l]", n);
    if (u->columns[c].op == GS_OP_SUM) {
      line(k, "const f32 %s_term = %s - %s_comp;", n, get, n);
      line(k, "const f32 %s_next = %s_acc + %s_term;", n, n, n);
      line(k, "%s_comp = (%s_next - %s_acc) - %s_term;", n, n, n, n);
      line(k, "%s_acc = %s_next;", n, n);
    } else {
      line(k, "%s_acc = %s(%s_acc, %s);", n, u->columns[c].op == GS_OP_RMAX ? "gs_max" : "gs_min",
           n, get);
    }
  }
  hole(sh, "ADD", take_text(k));
  if (!p->sliced) return;
  for (int c = 0; c < u->ncolumns; c++)
    line(k, "f32 %s_part[%d];", u->columns[c].name, SLICED_AT_ONCE);
  hole(sh, "LOADED", take_text(k));
  for (int c = 0; c < u->ncolumns; c++)
    line(k, "%s_part[l] = b < parts ? gs_get(%s, %s) : 0.0f;", u->columns[c].name,
         k->e->mems[u->columns[c].mem].name, at);
  hole(sh, "LOAD", take_text(k));
}

static void meet(kern *k, gs_op op, const char *acc, const char *other) {
  if (op == GS_OP_SUM)
    line(k, "%s += %s;", acc, other);
  else
    line(k, "%s = %s(%s, %s);", acc, op == GS_OP_RMAX ? "gs_max" : "gs_min", acc, other);
}

/* The slices of an element meet: within a warp, then the warps one after another. */
static void meet_slices(kern *k, shape *sh) {
  unit *u = k->u;
  int warps = SLICED_THREADS / 32, all = warps * SLICED_COLUMNS;
  for (int c = 0; c < u->ncolumns; c++)
    line(k, "GS_SHARED(f32, %s_slices, %d);", u->columns[c].name, all);
  hole(sh, "SHARED", take_text(k));
  for (int c = 0; c < u->ncolumns; c++) {
    const char *n = u->columns[c].name, *acc = fmt(k, "%s_acc", n);
    for (int o = 16; o >= SLICED_COLUMNS; o /= 2)
      meet(k, u->columns[c].op, acc, fmt(k, "GS_EXCHANGE(%s, %d)", acc, o));
    line(k, "if (GS_LANE < %d) %s_slices[GS_WARP * %d + GS_LANE] = %s;", SLICED_COLUMNS, n,
         SLICED_COLUMNS, acc);
  }
  hole(sh, "MEET", take_text(k));
  for (int c = 0; c < u->ncolumns; c++) {
    const char *n = u->columns[c].name, *acc = fmt(k, "%s_acc", n);
    line(k, "GS_UNROLL");
    open_block(k, "for (int w = 1; w < %d; w++)", warps);
    line(k, "const f32 %s_other = %s_slices[w * %d + GS_TID];", n, n, SLICED_COLUMNS);
    meet(k, u->columns[c].op, acc, fmt(k, "%s_other", n));
    close_block(k);
  }
}

/* together: each lane of a warp has added a share. */
static void declare_totals(kern *k, const unit *u, bool together) {
  for (int c = 0; c < u->ncolumns; c++) {
    const char *name = k->e->mems[u->columns[c].total].name;
    const char *acc = fmt(k, "%s_acc", u->columns[c].name);
    gs_op op = u->columns[c].op;
    const char *what = op == GS_OP_RMAX ? "MAX" : op == GS_OP_RMIN ? "MIN" : "SUM";
    if (together)
      line(k, "const f32 %s_v = GS_WARP_%s(%s);", name, what, acc);
    else
      line(k, "const f32 %s_v = %s;", name, acc);
  }
}

static void total_shape(kern *k, const parts *p, int64_t elements, shape *sh) {
  bool alone = k->e->caps->row_threads == 1, number = k->u->kept == 0;
  int columns = p->sliced ? SLICED_COLUMNS : SERIAL_THREADS;
  sh->template_name = "total";
  sh->follows = !alone;
  sh->threads = number ? 32 : p->sliced ? SLICED_THREADS : SERIAL_THREADS;
  sh->piece = p->sliced ? "sliced" : !number ? "columns" : alone ? "single" : "warp";
  sh->barrier_free = !p->sliced && (!number || alone);
  sh->grid = (gs_count){.coef = elements, .div = number ? 1 : columns};
  sh->tunables = fmt(k, "threads=%d", sh->threads);
  if (number) return;
  hole(sh, "ROW", row_name(k));
  hole_int(k, sh, "WIDTH", elements);
  if (!p->sliced) return;
  hole_int(k, sh, "COLUMNS", SLICED_COLUMNS);
  hole_int(k, sh, "SLICES", SLICED_THREADS / SLICED_COLUMNS);
  hole_int(k, sh, "AT_ONCE", SLICED_AT_ONCE);
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
  if (p.sliced) meet_slices(&k, &sh);
  declare_totals(&k, u, !u->kept && e->caps->row_threads > 1);
  hole(&sh, "SUMMED", take_text(&k));
  row_values(&k, roots, n, 0);
  for (int i = 0; i < n; i++) row_store(&k, &u->stores[i], NULL);
  hole(&sh, "BODY", take_text(&k));
  add_kernel(&k, &sh);
}
