/* row.c: templates row and row_column: reductions over the inner dims of a row, one loop for each
 * level of them, then the loops that store; with sums over the rows when asked for. */
#include "emit/emit.h"

#include <string.h>

typedef struct plan {
  loop loops[MAX_LOOPS];
  int nloops;
  int roots[MAX_STORES * 2], nroots;
  int levels;
  space main; /* the longest */
  geometry g;
  const char *names[64];
  int nsums;
} plan;

static loop *loop_for(emit *e, plan *p, int level, gs_dims inner) {
  for (int i = 0; i < p->nloops; i++)
    if (p->loops[i].level == level && p->loops[i].inner == inner) return &p->loops[i];
  if (p->nloops == MAX_LOOPS) {
    emit_fail(e, 0, "a kernel would have more than %d loops over a row", MAX_LOOPS);
    return &p->loops[0];
  }
  loop *l = &p->loops[p->nloops++];
  *l = (loop){.level = level, .inner = inner};
  return l;
}

static void push_term(emit *e, loop *l, term t) {
  if (l->nterms == MAX_STORES * 2)
    emit_fail(e, 0, "a loop has too many sums and stores");
  else
    l->terms[l->nterms++] = t;
}

static gs_dims without_ones(const emit *e, gs_dims d) {
  for (int i = 0; i < gs_graph_ndims(e->g); i++)
    if ((d >> i & 1) && dim_size(e, i) == 1) d &= ~((gs_dims)1 << i);
  return d;
}

static const char *sum_name(kern *k, gs_op op) {
  const char *stem = op == GS_OP_RMAX        ? "max"
                     : op == GS_OP_RMIN      ? "min"
                     : op == GS_OP_LOGSUMEXP ? "lse"
                                             : "sum";
  return fmt(k, "%s%d", stem, ++k->counter);
}

static void plan_reductions(kern *k, plan *p) {
  emit *e = k->e;
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, p->roots, p->nroots, seen, true, NULL);
  for (int v = 0; v < e->nvals; v++) {
    const val *x = &e->vals[v];
    if (!seen[v] || x->kind != VAL_REDUCE) continue;
    if (x->level > p->levels) p->levels = x->level;
    loop *l = loop_for(e, p, x->level, without_ones(e, x->rdims));
    push_term(e, l,
              (term){.kind = TERM_REDUCE,
                     .value = x->arg[0],
                     .name = sum_name(k, x->op),
                     .chunk = "",
                     .op = x->op});
    k->name[v] = NULL;
  }
}

static void plan_stores(kern *k, plan *p) {
  emit *e = k->e;
  unit *u = k->u;
  for (int i = 0; i < u->nstores; i++) {
    gs_dims inner = u->stores[i].dims & ~u->rows;
    if (!inner) continue; /* one element a row */
    push_term(
        e, loop_for(e, p, p->levels + 1, inner),
        (term){.kind = TERM_STORE, .value = u->stores[i].value, .st = &u->stores[i], .chunk = ""});
  }
  for (int i = 0; i < u->ncolumns; i++) {
    push_term(e, loop_for(e, p, p->levels + 1, u->kept),
              (term){.kind = TERM_REDUCE,
                     .value = u->columns[i].value,
                     .name = u->columns[i].name,
                     .op = u->columns[i].op,
                     .chunk = "[c]"});
  }
}

/* Spaces and one vector width for loops over the same dims. */
static void plan_spaces(emit *e, plan *p) {
  for (int i = 0; i < p->nloops; i++) {
    loop *l = &p->loops[i];
    int values[MAX_STORES * 2];
    const store *st[MAX_STORES * 2];
    int nst = 0;
    for (int j = 0; j < l->nterms; j++) {
      values[j] = l->terms[j].value;
      if (l->terms[j].st) st[nst++] = l->terms[j].st;
    }
    space_of(e, l->inner, values, l->nterms, st, nst, &l->s);
  }
  for (int i = 0; i < p->nloops; i++)
    for (int j = 0; j < p->nloops; j++) {
      if (p->loops[i].inner != p->loops[j].inner) continue;
      if (p->loops[j].s.vec < p->loops[i].s.vec) p->loops[i].s.vec = p->loops[j].s.vec;
      memcpy(p->loops[j].s.dim, p->loops[i].s.dim, sizeof p->loops[i].s.dim);
      memcpy(p->loops[j].s.size, p->loops[i].s.size, sizeof p->loops[i].s.size);
      memcpy(p->loops[j].s.stride, p->loops[i].s.stride, sizeof p->loops[i].s.stride);
    }
  p->main = (space){.count = 1, .vec = 1};
  for (int i = 0; i < p->nloops; i++)
    if (i == 0 || p->loops[i].s.count > p->main.count) p->main = p->loops[i].s;
}

static bool same_space(const space *a, const space *b) {
  return a->n == b->n && a->vec == b->vec && a->count == b->count &&
         memcmp(a->dim, b->dim, sizeof(int) * (size_t)a->n) == 0;
}

/* Loads that more than one loop over the main space reads: candidates to stay in registers. */
static int shared_loads(kern *k, const plan *p, int *out, int max) {
  emit *e = k->e;
  int *times = GS_NEW_N(e->a, int, e->nvals + 1), n = 0;
  for (int i = 0; i < p->nloops; i++) {
    if (!same_space(&p->loops[i].s, &p->main)) continue;
    bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
    int roots[MAX_STORES * 2];
    for (int j = 0; j < p->loops[i].nterms; j++) roots[j] = p->loops[i].terms[j].value;
    collect(e, roots, p->loops[i].nterms, seen, false, NULL);
    for (int v = 0; v < e->nvals; v++) times[v] += seen[v];
  }
  gs_dims last = p->main.n ? (gs_dims)1 << p->main.dim[p->main.n - 1] : 0;
  for (int v = 0; v < e->nvals && n < max; v++) {
    const val *x = &e->vals[v];
    if (times[v] < 2 || x->kind != VAL_LOAD || x->type != GS_F32 || !(x->deps & last)) continue;
    if (x->guard >= 0 || (x->row >= 0 && (aff_deps(e, x->row) & last))) continue;
    if (p->main.vec == 1 || is_contiguous(e, x->mem, x->off, &p->main)) out[n++] = v;
  }
  return n;
}

static void keep_loads(kern *k, plan *p, const int *loads, int n) {
  const char *dims = p->g.chunks > 1 ? fmt(k, "[%d]", p->g.chunks) : "";
  const char *vec = p->main.vec > 1 ? fmt(k, "[%d]", p->main.vec) : "";
  for (int i = 0; i < n; i++) {
    const char *name = unique(k, fmt(k, "%s_v", k->e->mems[k->e->vals[loads[i]].mem].name));
    line(k, "f32 %s%s%s;", name, dims, vec);
    k->kept[k->nkept].value = loads[i];
    k->kept[k->nkept].loaded = false;
    k->kept[k->nkept++].name = name;
  }
}

static int reduction_of(const emit *e, const plan *p, const term *t, const loop *l) {
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, p->roots, p->nroots, seen, true, NULL);
  for (int v = 0; v < e->nvals; v++)
    if (seen[v] && e->vals[v].kind == VAL_REDUCE && e->vals[v].arg[0] == t->value &&
        e->vals[v].op == t->op && e->vals[v].level == l->level &&
        without_ones(e, e->vals[v].rdims) == l->inner)
      return v;
  return -1;
}

/* The collective that gives every thread of the row its reductions. */
static void finish_reductions(kern *k, const plan *p, const loop *l) {
  for (int i = 0; i < l->nterms; i++) {
    const term *t = &l->terms[i];
    const char *acc = fmt(k, "%s_acc", t->name);
    if (t->op == GS_OP_LOGSUMEXP) {
      const char *all = fmt(k, "%s_all", t->name), *top = fmt(k, "%s_top", t->name);
      line(k, "const f32 %s = %s;", all, collective(k, &p->g, GS_OP_RMAX, top));
      const char *sum = fold_lanes(k, acc, l->s.vec, GS_OP_SUM);
      if (p->g.lanes > 1) sum = fmt(k, "%s * gs_exp(%s - %s)", sum, top, all);
      line(k, "const f32 %s = %s + gs_log(%s);", t->name, all,
           collective(k, &p->g, GS_OP_SUM, sum));
    } else {
      const char *sum = fold_lanes(k, acc, l->s.vec, t->op);
      line(k, "const f32 %s = %s;", t->name, collective(k, &p->g, t->op, sum));
    }
    int v = reduction_of(k->e, p, t, l);
    if (v >= 0) k->name[v] = t->name;
  }
}

static bool loop_is_chunked(const plan *p, const loop *l) {
  return same_space(&l->s, &p->main) &&
         (p->g.resident || l->terms[0].chunk[0] || l->terms[l->nterms - 1].chunk[0]);
}

static void write_level(kern *k, plan *p, int level) {
  for (int i = 0; i < p->nloops; i++) {
    loop *l = &p->loops[i];
    if (l->level != level) continue;
    bool chunked = loop_is_chunked(p, l);
    for (int j = 0; j < l->nterms && level <= p->levels; j++) {
      int64_t chain = l->s.count / ((int64_t)l->s.vec * p->g.lanes);
      l->terms[j].compensated = chain > LONGEST_CHAIN;
      declare_sum(k, &l->terms[j], l->s.vec, "");
    }
    write_loop(k, &p->g, l, chunked);
    if (level <= p->levels) finish_reductions(k, p, l);
  }
}

/* Everything that is done for one row. */
static void write_one_row(kern *k, plan *p) {
  unit *u = k->u;
  int loads[16];
  int n = p->g.resident ? shared_loads(k, p, loads, 16) : 0;
  row_bind(k);
  row_values(k, p->roots, p->nroots, 0);
  keep_loads(k, p, loads, n);
  for (int level = 1; level <= p->levels; level++) {
    write_level(k, p, level);
    row_values(k, p->roots, p->nroots, level);
  }
  if (u->gathers && p->g.lanes > 1 && p->g.lanes < p->g.threads) /* a block's sums are barriers */
    line(k, "GS_SYNCWARP();");
  const char *first = p->g.lanes == 1 ? k->live
                      : k->live       ? fmt(k, "%s && %s == 0", k->live, lane_name(&p->g))
                                      : fmt(k, "%s == 0", lane_name(&p->g));
  for (int i = 0; i < u->nstores; i++)
    if (!(u->stores[i].dims & ~u->rows)) row_store(k, &u->stores[i], first);
  write_level(k, p, p->levels + 1);
}

/* ---- sums over the rows ---- */

static const char *column_dims(kern *k, const plan *p) {
  return p->g.chunks > 1 ? fmt(k, "[%d]", p->g.chunks) : "";
}

static term *next_column(plan *p, int *at) {
  for (loop *l = p->loops; l < p->loops + p->nloops; l++) {
    if (l->level != p->levels + 1) continue;
    for (int i = 0; i < l->nterms; i++)
      if (l->terms[i].kind == TERM_REDUCE && i >= *at) {
        *at = i + 1;
        return &l->terms[i];
      }
  }
  return NULL;
}

static void declare_columns(kern *k, plan *p) {
  int at = 0;
  for (term *t; (t = next_column(p, &at));) {
    t->compensated = p->g.compensated && t->op == GS_OP_SUM;
    t->chunk = p->g.chunks > 1 ? "[c]" : "";
    declare_sum(k, t, p->main.vec, column_dims(k, p));
  }
}

/* Each group of lanes writes its sums of the columns to a row of the parts. */
static void write_parts(kern *k, plan *p) {
  unit *u = k->u;
  const geometry *g = &p->g;
  const space *s = &p->main;
  bool grouped = g->lanes > 1 && g->lanes < g->threads;
  const char *row = grouped ? fmt(k, "(GS_BID * %d + group)", g->per_block) : "GS_BID";
  line(k, "const i64 parts_at = %s * %lld;", row, (long long)s->count);
  if (g->chunks <= 16) line(k, "GS_UNROLL"); /* registers have no addresses */
  open_block(k, "for (int c = 0; c < %d; c++)", g->chunks);
  const char *lane = g->lanes == 1 ? "c" : fmt(k, "(c * %d + %s)", g->lanes, lane_name(g));
  line(k, s->vec > 1 ? "const int i = %s * %d;" : "const int i = %s;", lane, s->vec);
  bool exact = (int64_t)g->chunks * g->lanes * s->vec == s->count;
  if (!exact) open_block(k, "if (i < %lld)", (long long)s->count);
  for (int i = 0; i < u->ncolumns; i++) {
    const char *put = s->vec > 1 ? fmt(k, "gs_store<%d>", s->vec) : "gs_put";
    line(k, "%s(%s, parts_at + i, %s_acc%s);", put, k->e->mems[u->columns[i].mem].name,
         u->columns[i].name, g->chunks > 1 ? "[c]" : "");
    k->writes[u->columns[i].mem] = true;
  }
  if (!exact) close_block(k);
  close_block(k);
}

static void allocate_parts(emit *e, unit *u, const plan *p) {
  bool grouped = p->g.lanes > 1 && p->g.lanes < p->g.threads;
  u->per_block = p->g.per_block;
  u->parts_each = grouped ? p->g.per_block : 1;
  u->cap = p->g.cap;
  gs_count n = {.coef = u->cap * u->parts_each * p->main.count, .div = 1};
  for (int i = 0; i < u->ncolumns; i++) mem_allocate_temp(e, u->columns[i].mem, n);
}

/* ---- both templates ---- */

static void row_shape(kern *k, plan *p, shape *sh, const char *body) {
  unit *u = k->u;
  const geometry *g = &p->g;
  bool persistent = u->ncolumns > 0, meets = u->reduces && g->lanes > 1;
  bool group = g->lanes > 1 && g->lanes < g->threads;
  sh->template_name = persistent ? "row_column" : "row";
  sh->piece = g->lanes == 1 ? "single" : group ? "group" : "block";
  sh->threads = g->threads;
  sh->barrier_free = !meets;
  sh->grid = count_rows(k->e, u, g->per_block, persistent ? g->cap : 0);
  hole(sh, "BODY", body);
  hole(sh, "ROW", row_name(k));
  if (group || g->lanes == 1 || persistent) hole(sh, "COUNT", rows_text(k));
  if (group) {
    hole_int(k, sh, "ROWS", g->per_block);
    hole_int(k, sh, "LANES", g->lanes);
  }
  if (g->lanes > 1) {
    bool block = g->lanes == g->threads && u->reduces;
    hole(sh, "SHARED", block ? "GS_SHARED(f32, scratch, 32);" : "");
    hole(sh, "BARRIER_FREE", meets ? "0" : "1");
  }
  const char *mode = p->g.resident ? "mode=resident" : "mode=streamed";
  if (persistent) mode = fmt(k, "%s blocks=%lld", mode, (long long)g->cap);
  sh->tunables = geometry_text(k, g, p->main.vec, mode);
}

static int unit_values(const unit *u, int *roots) {
  int n = 0;
  for (int i = 0; i < u->nstores; i++) roots[n++] = u->stores[i].value;
  for (int i = 0; i < u->ncolumns; i++) roots[n++] = u->columns[i].value;
  return n;
}

static void plan_geometry(kern *k, plan *p) {
  unit *u = k->u;
  int loads[16], n;
  plan_reductions(k, p);
  plan_stores(k, p);
  plan_spaces(k->e, p);
  if (u->ncolumns) /* the sums live along the kept dims */
    for (int i = 0; i < p->nloops; i++)
      if (p->loops[i].level == p->levels + 1 && p->loops[i].inner == u->kept)
        p->main = p->loops[i].s;
  n = shared_loads(k, p, loads, 16);
  geometry_row(k->e, p->main.count, p->main.vec, n, u->ncolumns, u->ncolumns > 0, &p->g);
}

void write_row(emit *e, unit *u) {
  kern k;
  plan *p = GS_NEW(e->a, plan);
  p->nroots = unit_values(u, p->roots);
  unit_rows(e, u);
  kern_begin(&k, e, u);
  kern_uses(&k, p->roots, p->nroots);
  plan_geometry(&k, p);
  if (e->status) return;
  bool group = p->g.lanes > 1 && p->g.lanes < p->g.threads;
  if (group) k.live = "live";
  shape sh = {0};
  if (u->ncolumns) {
    allocate_parts(e, u, p);
    declare_columns(&k, p);
    hole(&sh, "SUMS", take_text(&k));
  }
  write_one_row(&k, p);
  const char *body = take_text(&k);
  if (u->ncolumns) {
    k.live = NULL;
    write_parts(&k, p);
    hole(&sh, "PARTS", take_text(&k));
  }
  row_shape(&k, p, &sh, body);
  add_kernel(&k, &sh);
}
