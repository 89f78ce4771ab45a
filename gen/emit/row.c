/* row.c: templates row and row_column: reductions over the inner dims of a row, one loop for each
 * level of them, then the loops that store; with sums over the rows when asked for. */
#include "emit/emit.h"

#include <string.h>

typedef struct plan {
  loop *loops[MAX_LOOPS];
  int nloops;
  int roots[MAX_STORES * 3], nroots;
  int levels;
  space main; /* the longest */
  geometry g;
} plan;

static loop *loop_for(emit *e, plan *p, int level, gs_dims inner) {
  for (int i = 0; i < p->nloops; i++)
    if (p->loops[i]->level == level && p->loops[i]->inner == inner) return p->loops[i];
  if (p->nloops == MAX_LOOPS) {
    emit_fail(e, 0, "a kernel would have more than %d loops over a row", MAX_LOOPS);
    return p->loops[0];
  }
  loop *l = p->loops[p->nloops++] = GS_NEW(e->a, loop);
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
                     : op == GS_OP_FOLD      ? "fold"
                                             : "sum";
  return fmt(k, "%s%d", stem, ++k->counter);
}

static bool has_fold(const emit *e, const loop *l, const val *x) {
  for (int i = 0; i < l->nterms; i++)
    if (l->terms[i].op == GS_OP_FOLD && same_fold(&e->vals[l->terms[i].made], x)) return true;
  return false;
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
    k->name[v] = NULL;
    if (x->op == GS_OP_FOLD && has_fold(e, l, x)) continue;
    push_term(e, l,
              (term){.kind = TERM_REDUCE,
                     .value = x->arg[0],
                     .name = sum_name(k, x->op),
                     .chunk = "",
                     .op = x->op,
                     .made = v});
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
    const column *c = &u->columns[i]; /* a number: the thread has one sum, or one a lane */
    push_term(e, loop_for(e, p, p->levels + 1, c->kept ? u->kept : c->rdims & ~u->rows),
              (term){.kind = TERM_REDUCE,
                     .value = c->value,
                     .name = c->name,
                     .op = c->op,
                     .chunk = c->kept ? "[c]" : ""});
  }
}

/* Spaces and one vector width for loops over the same dims. */
static void plan_spaces(emit *e, plan *p) {
  for (int i = 0; i < p->nloops; i++) {
    loop *l = p->loops[i];
    int values[MAX_TERM_VALUES], nvalues = term_values(e, l->terms, l->nterms, values);
    const store *st[MAX_STORES * 2];
    int nst = 0;
    for (int j = 0; j < l->nterms; j++)
      if (l->terms[j].st) st[nst++] = l->terms[j].st;
    space_of(e, l->inner, values, nvalues, st, nst, &l->s);
  }
  for (int i = 0; i < p->nloops; i++)
    for (int j = 0; j < p->nloops; j++) {
      if (p->loops[i]->inner != p->loops[j]->inner) continue;
      if (p->loops[j]->s.vec < p->loops[i]->s.vec) p->loops[i]->s.vec = p->loops[j]->s.vec;
      memcpy(p->loops[j]->s.dim, p->loops[i]->s.dim, sizeof p->loops[i]->s.dim);
      memcpy(p->loops[j]->s.size, p->loops[i]->s.size, sizeof p->loops[i]->s.size);
      memcpy(p->loops[j]->s.stride, p->loops[i]->s.stride, sizeof p->loops[i]->s.stride);
    }
  p->main = (space){.count = 1, .vec = 1};
  for (int i = 0; i < p->nloops; i++)
    if (i == 0 || p->loops[i]->s.count > p->main.count) p->main = p->loops[i]->s;
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
    if (!same_space(&p->loops[i]->s, &p->main)) continue;
    bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
    int roots[MAX_TERM_VALUES];
    int nroots = term_values(e, p->loops[i]->terms, p->loops[i]->nterms, roots);
    collect(e, roots, nroots, seen, false, NULL);
    for (int v = 0; v < e->nvals; v++) times[v] += seen[v];
  }
  gs_dims last = p->main.n ? (gs_dims)1 << p->main.dim[p->main.n - 1] : 0;
  for (int v = 0; v < e->nvals && n < max; v++) {
    const val *x = &e->vals[v];
    if (times[v] < 2 || x->kind != VAL_LOAD || x->type != GS_F32 || !(x->deps & last)) continue;
    if (x->row >= 0 && (aff_deps(e, x->row) & last)) continue;
    if (p->main.vec > 1 && x->guard >= 0 && (e->vals[x->guard].deps & last) &&
        !is_limit(e, x->guard, &p->main, 1))
      continue;
    if (p->main.vec == 1 || is_contiguous(e, x->mem, x->off, &p->main)) out[n++] = v;
  }
  return n;
}

static void keep_loads(kern *k, plan *p, const int *loads, int n) {
  const char *dims = p->g.chunks > 1 ? fmt(k, "[%d]", p->g.chunks) : "";
  const char *vec = p->main.vec > 1 ? fmt(k, "[%d]", p->main.vec) : "";
  for (int i = 0; i < n; i++) {
    const char *name = unique(k, fmt(k, "%s_v", k->e->mems[k->e->vals[loads[i]].mem].name));
    int guard = k->e->vals[loads[i]].guard;
    bool skips = p->main.vec > 1 && guard >= 0 && !is_limit(k->e, guard, &p->main, 1);
    line(k, "f32 %s%s%s%s;", name, dims, vec, skips ? " = {}" : "");
    k->kept[k->nkept].value = loads[i];
    k->kept[k->nkept].loaded = false;
    k->kept[k->nkept++].name = name;
  }
}

/* The collective that gives every thread of the row its reductions. */
static void finish_reductions(kern *k, const plan *p, const loop *l) {
  for (int i = 0; i < l->nterms; i++) {
    const term *t = &l->terms[i];
    const char *acc = fmt(k, "%s_acc", t->name);
    if (t->op == GS_OP_FOLD) {
      fold_finish(k, &p->g, t);
      continue;
    }
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
    k->name[t->made] = t->name;
  }
}

static bool loop_is_chunked(const plan *p, const loop *l) {
  bool kept = p->g.resident;
  for (int i = 0; i < l->nterms; i++) kept |= l->terms[i].chunk[0] != 0;
  return kept && same_space(&l->s, &p->main);
}

static void write_level(kern *k, plan *p, int level) {
  for (int i = 0; i < p->nloops; i++) {
    loop *l = p->loops[i];
    if (l->level != level) continue;
    bool chunked = loop_is_chunked(p, l);
    for (int j = 0; j < l->nterms && level <= p->levels; j++) {
      if (l->terms[j].op == GS_OP_FOLD) {
        fold_declare(k, &l->terms[j]);
        continue;
      }
      int64_t chain = l->s.count / ((int64_t)l->s.vec * p->g.lanes);
      l->terms[j].compensated = chain > LONGEST_CHAIN;
      declare_sum(k, &l->terms[j], l->s.vec, "");
    }
    int nkept = k->nkept;
    if (!chunked) k->nkept = 0; /* registers hold elements of the main space alone */
    write_loop(k, &p->g, l, chunked);
    k->nkept = nkept;
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

static void declare_columns(kern *k, plan *p) {
  for (int j = 0; j < p->nloops; j++) {
    loop *l = p->loops[j];
    for (int i = 0; l->level == p->levels + 1 && i < l->nterms; i++) {
      term *t = &l->terms[i];
      if (t->kind != TERM_REDUCE) continue;
      bool wide = t->chunk[0] != 0;
      t->compensated = (p->g.compensated || !wide) && t->op == GS_OP_SUM;
      if (wide) t->chunk = p->g.chunks > 1 ? "[c]" : "";
      declare_sum(k, t, l->s.vec, wide ? column_dims(k, p) : "");
    }
  }
}

static bool is_grouped(const geometry *g) {
  return g->lanes > 1 && g->lanes < g->threads;
}

/* The groups of a warp add up their sums; the first has them. */
static void meet_groups(kern *k, const geometry *g, const column *c, int vec) {
  const char *chunk = g->chunks > 1 ? "[c]" : "";
  for (int o = g->lanes; is_grouped(g) && o < 32; o *= 2) {
    if (vec > 1) line(k, "GS_UNROLL");
    const char *acc = fmt(k, vec > 1 ? "%s_acc%s[l]" : "%s_acc%s", c->name, chunk);
    const char *other = fmt(k, "GS_EXCHANGE(%s, %d)", acc, o);
    const char *each = vec > 1 ? fmt(k, "for (int l = 0; l < %d; l++) ", vec) : "";
    if (c->op == GS_OP_SUM)
      line(k, "%s%s += %s;", each, acc, other);
    else
      line(k, "%s%s = %s(%s, %s);", each, acc, c->op == GS_OP_RMAX ? "gs_max" : "gs_min", acc,
           other);
  }
}

/* Each warp of groups, or each block, writes its sums of the columns to a row of the parts. */
static void write_wide_parts(kern *k, plan *p) {
  unit *u = k->u;
  const geometry *g = &p->g;
  const space *s = &p->main;
  const char *row = is_grouped(g) ? fmt(k, "(GS_BID * %d + GS_WARP)", g->threads / 32) : "GS_BID";
  line(k, "const i64 parts_at = %s * %lld;", row, (long long)s->count);
  if (g->chunks <= 16) line(k, "GS_UNROLL"); /* registers have no addresses */
  open_block(k, "for (int c = 0; c < %d; c++)", g->chunks);
  const char *lane = g->lanes == 1 ? "c" : fmt(k, "(c * %d + %s)", g->lanes, lane_name(g));
  line(k, s->vec > 1 ? "const int i = %s * %d;" : "const int i = %s;", lane, s->vec);
  for (int i = 0; i < u->ncolumns; i++)
    if (u->columns[i].kept) meet_groups(k, g, &u->columns[i], s->vec);
  bool exact = (int64_t)g->chunks * g->lanes * s->vec == s->count;
  bool first = is_grouped(g) && g->lanes < 32;
  const char *in = exact ? "" : fmt(k, "i < %lld", (long long)s->count);
  if (first) in = fmt(k, "GS_LANE < %d%s%s", g->lanes, *in ? " && " : "", in);
  if (*in) open_block(k, "if (%s)", in);
  for (int i = 0; i < u->ncolumns; i++) {
    if (!u->columns[i].kept) continue;
    const char *put = s->vec > 1 ? fmt(k, "gs_store<%d>", s->vec) : "gs_put";
    line(k, "%s(%s, parts_at + i, %s_acc%s);", put, k->e->mems[u->columns[i].mem].name,
         u->columns[i].name, g->chunks > 1 ? "[c]" : "");
    k->writes[u->columns[i].mem] = true;
  }
  if (*in) close_block(k);
  close_block(k);
}

/* A number a block. */
static void write_number_part(kern *k, plan *p, const column *c) {
  int vec = 1;
  for (int j = 0; j < p->nloops; j++)
    for (int i = 0; i < p->loops[j]->nterms; i++)
      if (p->loops[j]->terms[i].name == c->name) vec = p->loops[j]->s.vec;
  const char *v = fold_lanes(k, fmt(k, "%s_acc", c->name), vec, c->op);
  bool alone = p->g.lanes == 1;
  if (!alone) {
    const char *what = c->op == GS_OP_RMAX ? "MAX" : c->op == GS_OP_RMIN ? "MIN" : "SUM";
    line(k, "const f32 %s_all = GS_BLOCK_%s(%s, scratch);", c->name, what, v);
    v = fmt(k, "%s_all", c->name);
    k->scratch = true;
  }
  line(k, "%sgs_put(%s, GS_BID, %s);", alone ? "" : "if (GS_TID == 0) ", k->e->mems[c->mem].name,
       v);
  k->writes[c->mem] = true;
}

static void write_parts(kern *k, plan *p) {
  unit *u = k->u;
  for (int i = 0; i < u->ncolumns; i++)
    if (!u->columns[i].kept) write_number_part(k, p, &u->columns[i]);
  if (u->kept) write_wide_parts(k, p);
}

static void allocate_parts(emit *e, unit *u, const plan *p) {
  u->per_block = p->g.per_block;
  u->parts_each = is_grouped(&p->g) ? p->g.threads / 32 : 1;
  u->cap = p->g.cap;
  u->parts_space = p->main;
  for (int i = 0; i < u->ncolumns; i++) {
    int64_t each = u->columns[i].kept ? u->parts_each * p->main.count : 1;
    mem_allocate_temp(e, u->columns[i].mem, (gs_count){.coef = u->cap * each, .div = 1});
  }
}

/* ---- both templates ---- */

static const char *shared_text(kern *k) {
  const char *t = k->scratch ? "GS_SHARED(f32, scratch, 32);\n" : "";
  for (int i = 0; i < GS_MAX_FOLD; i++) {
    if (k->fold_f32 >> i & 1) t = fmt(k, "%sGS_SHARED(f32, fold_f32_%d, 32);\n", t, i);
    if (k->fold_i64 >> i & 1) t = fmt(k, "%sGS_SHARED(i64, fold_i64_%d, 32);\n", t, i);
  }
  return t;
}

static void row_shape(kern *k, plan *p, shape *sh, const char *body) {
  unit *u = k->u;
  const geometry *g = &p->g;
  bool persistent = u->ncolumns > 0, group = is_grouped(g), numbers = false;
  for (int i = 0; i < u->ncolumns; i++) numbers |= !u->columns[i].kept;
  bool meets = g->lanes > 1 && (u->reduces || numbers || (group && persistent && g->lanes < 32));
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
    hole(sh, "SHARED", shared_text(k));
    hole(sh, "BARRIER_FREE", meets ? "0" : "1");
  }
  const char *mode = p->g.resident ? "mode=resident" : "mode=streamed";
  if (persistent) mode = fmt(k, "%s blocks=%lld", mode, (long long)g->cap);
  sh->tunables = geometry_text(k, g, p->main.vec, mode);
}

static int unit_values(const unit *u, int *roots) {
  int n = 0;
  for (int i = 0; i < u->nstores; i++) {
    roots[n++] = u->stores[i].value;
    if (u->stores[i].guard >= 0) roots[n++] = u->stores[i].guard;
  }
  for (int i = 0; i < u->ncolumns; i++) roots[n++] = u->columns[i].value;
  return n;
}

static void plan_geometry(kern *k, plan *p) {
  unit *u = k->u;
  int loads[16], n;
  plan_reductions(k, p);
  plan_stores(k, p);
  plan_spaces(k->e, p);
  if (u->kept) /* the sums live along the kept dims */
    for (int i = 0; i < p->nloops; i++)
      if (p->loops[i]->level == p->levels + 1 && p->loops[i]->inner == u->kept)
        p->main = p->loops[i]->s;
  n = shared_loads(k, p, loads, 16);
  int wide = 0;
  for (int i = 0; i < u->ncolumns; i++) wide += u->columns[i].kept != 0;
  geometry_row(k->e, p->main.count, p->main.vec, n, wide, u->ncolumns > 0, &p->g);
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
  if (is_grouped(&p->g)) k.live = "live";
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
