/* row.c: templates row and row_column: reductions over the inner dims of a row, one loop for each
 * level of them, then the loops that store; with sums over the rows when asked for. */
#include "emit/emit.h"

#include <string.h>

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

/* logsumexp(x - c) is logsumexp(x) - c where c is one for the row: the maximum less c is exact to a
 * rounding, as x - c would be at it. Returns x; *shift receives c or -1. */
static int without_shift(const kern *k, const val *reduce, int *shift) {
  const val *x = &k->e->vals[reduce->arg[0]];
  *shift = -1;
  if (reduce->op != GS_OP_LOGSUMEXP || x->kind != VAL_OP || x->op != GS_OP_SUB)
    return reduce->arg[0];
  if (k->e->vals[x->arg[1]].deps & ~k->u->rows) return reduce->arg[0];
  *shift = x->arg[1];
  return x->arg[0];
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
    int shift, value = without_shift(k, x, &shift);
    push_term(e, l,
              (term){.kind = TERM_REDUCE,
                     .value = value,
                     .shift = shift,
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

/* The maxima and sums of a cluster's blocks make one of each. */
static const char *join_blocks(kern *k, const geometry *g, const char *n, const char *top,
                               const char *sum) {
  line(k, "const f32 %s_own[2] = {%s, %s};", n, top, sum);
  line(k, "f32 %s_each[%d];", n, 2 * g->cluster);
  line(k, "GS_CLUSTER_GATHER(%d, %s_each, %s_own, meet%d);", g->cluster, n, n, ++k->meets);
  line(k, "f32 %s_all = %s_each[0], %s_total = 0.0f;", n, n, n);
  line(k, "GS_UNROLL");
  line(k, "for (int b = 1; b < %d; b++) %s_all = gs_max(%s_all, %s_each[2 * b]);", g->cluster, n, n,
       n);
  line(k, "GS_UNROLL");
  line(k, "for (int b = 0; b < %d; b++)", g->cluster);
  line(k, "  %s_total += %s_each[2 * b + 1] * gs_exp(%s_each[2 * b] - %s_all);", n, n, n, n);
  return fmt(k, "%s_total", n);
}

/* What the warps of all blocks found meets once; each warp puts it together. Returns the sum, of
 * terms less NAME_all. */
static const char *meet_once(kern *k, const geometry *g, const char *n, const char *sum) {
  int warps = g->threads / 32, all = warps * g->cluster;
  bool far = g->cluster > 1;
  line(k, "const f32 %s_most = GS_WARP_MAX(%s_top);", n, n);
  line(k, "const f32 %s_own = GS_WARP_SUM(%s * gs_exp(%s_from - %s_most));", n, sum, n, n);
  open_block(k, far ? "if (GS_LANE < %d)" : "if (GS_LANE == 0)", g->cluster);
  line(k,
       far ? "const int at = ((turn * %d + GS_CLUSTER_RANK) * %d + GS_WARP) * 2;"
           : "const int at = (turn * %d * %d + GS_WARP) * 2;",
       g->cluster, warps);
  line(k, far ? "GS_CLUSTER_PUT(%s_met, GS_LANE, at, %s_most);" : "%s_met[at] = %s_most;", n, n);
  line(k, far ? "GS_CLUSTER_PUT(%s_met, GS_LANE, at + 1, %s_own);" : "%s_met[at + 1] = %s_own;", n,
       n);
  close_block(k);
  line(k, far ? "GS_CLUSTER_SYNC();" : "GS_SYNC();");
  line(k, "f32 %s_all = -3.40282347e+38f, %s_total = 0.0f;", n, n);
  const char *each =
      fmt(k, "for (int e = turn * %d + GS_LANE; e < (turn + 1) * %d; e += 32)", all, all);
  line(k, "%s", each);
  line(k, "  %s_all = gs_max(%s_all, %s_met[2 * e]);", n, n, n);
  line(k, "%s_all = GS_WARP_MAX(%s_all);", n, n);
  line(k, "%s", each);
  line(k, "  %s_total += %s_met[2 * e + 1] * gs_exp(%s_met[2 * e] - %s_all);", n, n, n, n);
  k->dynamic = fmt(k, "GS_SHARED(f32, %s_met, %d);\n%s", n, 4 * all, k->dynamic);
  return fmt(k, "GS_WARP_SUM(%s_total)", n);
}

/* From a thread's sum, of its own maximum or one that all of its block have. */
static void finish_logsumexp(kern *k, const plan *p, const term *t, const char *sum) {
  const geometry *g = &p->g;
  const char *all = fmt(k, "%s_all", t->name), *top = fmt(k, "%s_top", t->name);
  if (g->ring) {
    sum = meet_once(k, g, t->name, sum);
  } else if (!t->top) {
    const char *most = block_collective(k, g, GS_OP_RMAX, top);
    top = g->cluster > 1 ? fmt(k, "%s_most", t->name) : all;
    line(k, "const f32 %s = %s;", top, most);
    sum = fmt(k, "%s * gs_exp(%s_from - %s)", sum, t->name, top);
  } else if (g->cluster <= 1) {
    all = top;
  }
  if (!g->ring) sum = block_collective(k, g, GS_OP_SUM, sum);
  if (g->cluster > 1 && !g->ring) sum = join_blocks(k, g, t->name, top, sum);
  if (t->shift >= 0) all = fmt(k, "(%s - %s)", all, value_text(k, t->shift));
  line(k, "const f32 %s = %s + gs_log(%s);", t->name, all, sum);
}

/* Packed elements of 16 bits as they lie in memory are compared two at a time. */
static const char *packed_type(const kern *k, int v) {
  const val *x = &k->e->vals[v];
  gs_type type = x->kind == VAL_LOAD ? k->e->mems[x->mem].type : GS_F32;
  for (int i = 0; i < k->nkept; i++)
    if (k->kept[i].value == v && k->kept[i].packed && (type == GS_BF16 || type == GS_F16))
      return gs_type_name(type);
  return NULL;
}

/* The maximum of what a thread has of kept value v: NAME_acc[0], edges included. */
static void find_packed_top(kern *k, const plan *p, const loop *l, const term *t) {
  const char *type = packed_type(k, t->value), *name = t->name;
  line(k, "gs_packed<%d, %s> %s_most;", l->s.vec, type, name);
  line(k, "gs_lowest(%s_most);", name);
  bool tested = open_chunks(k, &p->g, &l->s);
  for (int i = 0; i < k->nkept; i++) {
    if (k->kept[i].value != t->value) continue;
    line(k, "gs_most(%s_most, %s%s);", name, k->kept[i].name, k->chunk);
    break;
  }
  close_chunks(k, &p->g, tested);
  line(k, "f32 %s_acc[1] = {gs_most_of(%s_most)};", name, name);
  if (!l->s.shifted) return;
  loop edge = {.level = l->level, .s = l->s, .inner = l->inner, .terms = {*t}, .nterms = 1};
  write_edges(k, &edge);
}

/* The maximum of a logsumexp's elements; the text of the thread's own. */
static const char *find_top(kern *k, plan *p, const loop *l, term t) {
  loop *first = GS_NEW(k->e->a, loop);
  t.op = GS_OP_RMAX;
  t.name = fmt(k, "%s_max", t.name);
  if (packed_type(k, t.value) && l->s.vec > 1) {
    find_packed_top(k, p, l, &t);
    return fmt(k, "%s_acc[0]", t.name);
  }
  *first = (loop){.level = l->level, .s = l->s, .inner = l->inner, .terms = {t}, .nterms = 1};
  declare_sum(k, &t, l->s.vec, "");
  write_loop(k, &p->g, first, true);
  return fold_lanes(k, fmt(k, "%s_acc", t.name), l->s.vec, GS_OP_RMAX);
}

/* The maxima that the logsumexps of a loop need come first where its elements are kept. */
static void find_tops(kern *k, plan *p, loop *l) {
  for (int i = 0; i < l->nterms; i++) {
    term *t = &l->terms[i];
    if (t->op != GS_OP_LOGSUMEXP) continue;
    const char *own = find_top(k, p, l, *t);
    t->top = fmt(k, "%s_top", t->name);
    line(k, "const f32 %s = gs_max(%s, -3.40282347e+38f);", t->top,
         block_collective(k, &p->g, GS_OP_RMAX, own));
  }
}

static bool is_sum(const term *t) {
  return t->op != GS_OP_FOLD && t->op != GS_OP_LOGSUMEXP && t->op != GS_OP_RMAX &&
         t->op != GS_OP_RMIN;
}

/* Sums of one loop by a block: they meet together. How many were finished. */
static int finish_sums(kern *k, const plan *p, const loop *l) {
  int n = 0;
  const char *all = "";
  for (int i = 0; i < l->nterms; i++) n += is_sum(&l->terms[i]);
  bool block =
      p->g.lanes == p->g.threads && p->g.lanes > 32 && (k->u->ncolumns == 0 || p->g.ahead > 0);
  if (n < 2 || !block) return 0;
  for (int i = 0; i < l->nterms; i++) {
    const term *t = &l->terms[i];
    if (!is_sum(t)) continue;
    const char *sum = fold_lanes(k, fmt(k, "%s_acc", t->name), l->s.vec, t->op);
    all = fmt(k, "%s%s%s", all, *all ? ", " : "", sum);
  }
  const char *name = unique(k, "sums");
  line(k, "f32 %s[%d] = {%s};", name, n, all);
  line(k, "GS_BLOCK_SUMS_AT(%d, %s, scratch, %s);", n, name, meeting_area(k, &p->g, n));
  for (int i = 0, j = 0; i < l->nterms; i++) {
    const term *t = &l->terms[i];
    if (!is_sum(t)) continue;
    line(k, "const f32 %s = %s[%d];", t->name, name, j++);
    k->name[t->made] = t->name;
  }
  return n;
}

/* The collective that gives every thread of the row its reductions. */
static void finish_reductions(kern *k, const plan *p, const loop *l) {
  bool summed = finish_sums(k, p, l) > 0;
  for (int i = 0; i < l->nterms; i++) {
    const term *t = &l->terms[i];
    const char *acc = fmt(k, "%s_acc", t->name);
    if (summed && is_sum(t)) continue;
    if (t->op == GS_OP_FOLD) {
      fold_finish(k, &p->g, t);
      continue;
    }
    if (t->op == GS_OP_LOGSUMEXP) {
      finish_logsumexp(k, p, t, fold_lanes(k, acc, l->s.vec, GS_OP_SUM));
    } else {
      const char *sum = fold_lanes(k, acc, l->s.vec, t->op);
      line(k, "const f32 %s = %s;", t->name, collective(k, &p->g, t->op, sum));
    }
    k->name[t->made] = t->name;
  }
}

static bool loop_is_chunked(const plan *p, const loop *l) {
  bool kept = p->g.resident || p->g.ahead > 0;
  for (int i = 0; i < l->nterms; i++) kept |= l->terms[i].chunk[0] != 0;
  return kept && same_space(&l->s, &p->main);
}

/* Whether a second loop over the row reads registers. */
static bool is_kept(const plan *p) {
  bool kept = false;
  for (int i = 0; i < p->nheld; i++) kept |= p->held[i].twice;
  return kept;
}

static void write_level(kern *k, plan *p, int level) {
  for (int i = 0; i < p->nloops; i++) {
    loop *l = p->loops[i];
    if (l->level != level) continue;
    bool chunked = loop_is_chunked(p, l);
    if (chunked && p->g.resident && !p->g.ring && level <= p->levels && is_kept(p))
      find_tops(k, p, l);
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

/* Whether elements are read after the last meeting, that another thread may overwrite. */
static bool gathers_last(kern *k, const plan *p) {
  bool *seen = GS_NEW_N(k->e->a, bool, k->e->nvals + 1), last = false;
  collect(k->e, p->roots, p->nroots, seen, true, NULL);
  for (int v = 0; v < k->e->nvals; v++)
    last |= seen[v] && k->e->vals[v].kind == VAL_LOAD && k->e->vals[v].level == p->levels;
  return last;
}

/* All threads have met, so they have read the row: its place goes to a later one. */
static void refill(kern *k, const plan *p) {
  const char *row = row_name(k);
  open_block(k, "if (GS_TID == 0)");
  line(k, "const i64 %s = first + %d * GS_NBLOCKS;", row, p->g.ahead + 1);
  line(k, "const int place = to, into = from;");
  open_block(k, "if (%s < %s)", row, rows_text(k));
  for (const char *at = k->again, *end; *at; at = *end ? end + 1 : end) {
    end = at + strcspn(at, "\n");
    line(k, "%.*s", (int)(end - at), at);
  }
  close_block(k);
  close_block(k);
}

/* Everything that is done for one row. */
void row_inside(kern *k, plan *p) {
  unit *u = k->u;
  row_bind(k);
  load_next(k, p);
  row_values(k, p->roots, p->nroots, 0);
  declare_shift(k, p);
  if (p->g.bulk)
    line(k, "gs_mbar_wait(come, to, phase);");
  else if (p->g.ahead > 0)
    line(k, "GS_COPY_WAIT(%d);", p->g.ahead);
  hold_row(k, p);
  for (int level = 1; level <= p->levels; level++) {
    write_level(k, p, level);
    if (p->g.bulk && level == 1) refill(k, p);
    row_values(k, p->roots, p->nroots, level);
  }
  if (u->gathers && p->g.lanes > 1 && p->g.lanes < p->g.threads) /* a block's sums are barriers */
    line(k, "GS_SYNCWARP();");
  if (p->g.cluster > 1 && u->gathers && gathers_last(k, p)) line(k, "GS_CLUSTER_SYNC();");
  const char *first = p->g.lanes == 1 ? k->live
                      : k->live       ? fmt(k, "%s && %s == 0", k->live, lane_name(&p->g))
                                      : fmt(k, "%s == 0", lane_name(&p->g));
  for (int i = 0; i < u->nstores; i++)
    if (!(u->stores[i].dims & ~u->rows)) row_store(k, &u->stores[i], first);
  write_level(k, p, p->levels + 1);
}

/* ---- both templates ---- */

static const char *shared_text(kern *k, const geometry *g) {
  int size = k->areas > 32 ? k->areas : 32, meeting = g->ring ? 2 * MEETING : MEETING;
  const char *t = k->scratch ? fmt(k, "GS_SHARED(f32, scratch, %d);\n", size) : "";
  if (k->dynamic) t = fmt(k, "%s%s", t, k->dynamic);
  for (int i = 1; i <= k->meets; i++) t = fmt(k, "%sGS_SHARED(f32, meet%d, %d);\n", t, i, meeting);
  for (int i = 0; i < GS_MAX_FOLD; i++) {
    if (k->fold_f32 >> i & 1) t = fmt(k, "%sGS_SHARED(f32, fold_f32_%d, 32);\n", t, i);
    if (k->fold_i64 >> i & 1) t = fmt(k, "%sGS_SHARED(i64, fold_i64_%d, 32);\n", t, i);
  }
  return t;
}

static void ring_shape(kern *k, const geometry *g, shape *sh) {
  hole_int(k, sh, "RING", g->ring);
  hole_int(k, sh, "WARPS", g->threads / 32);
  hole_int(k, sh, "PIECES", g->chunks);
  if (g->cluster > 1) hole_int(k, sh, "PART", g->part);
  sh->prelude = GS_PRELUDE_HOPPER;
}

/* Whether the kernel of the unit before u, which lasts too, may be running yet: then u waits for it
 * only before it ends, so that what follows u has both. One of them alone waits like that. */
static bool overlaps(const emit *e, const unit *u) {
  const unit *before = NULL;
  for (int k = 1; k < e->nunits; k++)
    if (e->units[k] == u) before = e->units[k - 1];
  if (!before || before->kind != UNIT_COLUMNS || before->overlaps || e->caps->row_threads == 1)
    return false;
  gs_dims outer = 0;
  for (int d = 0; d < gs_graph_ndims(e->g); d++)
    if (dim_is_outer(e, d)) outer |= (gs_dims)1 << d;
  return (before->rows & outer) == (u->rows & outer) && are_apart(e, before, u);
}

static void row_shape(kern *k, plan *p, shape *sh, const char *body) {
  unit *u = k->u;
  const geometry *g = &p->g;
  bool persistent = u->ncolumns > 0, group = rows_are_grouped(g), numbers = false;
  for (int i = 0; i < u->ncolumns; i++) numbers |= !u->columns[i].kept;
  bool meets = g->lanes > 1 &&
               (u->reduces || numbers || (group && persistent && g->lanes < 32) || k->dynamic);
  sh->template_name = persistent ? "row_column" : "row";
  sh->piece = g->lanes == 1    ? "single"
              : g->bulk        ? "bulk"
              : g->ahead > 0   ? (group ? "ahead_group" : "ahead")
              : group          ? "group"
              : g->ring        ? (g->cluster > 1 ? "ring_cluster" : "ring")
              : g->cluster > 1 ? "cluster"
                               : "block";
  sh->shared = k->dynamic_bytes;
  sh->follows = u->overlaps = persistent && overlaps(k->e, u);
  if (persistent && g->lanes > 1) hole(sh, "WAIT", u->overlaps ? "GS_WAIT_LAST();" : "");
  if (g->ahead > 0) {
    hole_int(k, sh, g->bulk ? "RING" : "AHEAD", g->bulk ? g->ahead + 1 : g->ahead);
    hole_int(k, sh, "WIDTH", p->main.count);
  }
  if (g->bulk) sh->prelude = GS_PRELUDE_HOPPER;
  if (g->lanes > 1 && !g->ring) hole_int(k, sh, "BLOCKS", g->blocks);
  sh->threads = g->threads;
  sh->barrier_free = !meets;
  sh->grid = count_rows(k->e, u, g->per_block, persistent || g->ring ? g->cap : 0);
  if (g->cluster > 1) sh->grid.coef *= g->cluster;
  if (g->cluster > 1) sh->grid.cap *= g->cluster;
  hole(sh, "BODY", body);
  hole(sh, "ROW", row_name(k));
  if (group || g->lanes == 1 || persistent || g->ring) hole(sh, "COUNT", rows_text(k));
  if (group) {
    hole_int(k, sh, "ROWS", g->per_block);
    hole_int(k, sh, "LANES", g->lanes);
  }
  if (g->lanes > 1) hole(sh, "SHARED", shared_text(k, g));
  if (g->ring) ring_shape(k, g, sh);
  if (g->cluster > 1)
    hole_int(k, sh, "CLUSTER", g->cluster);
  else if (g->lanes > 1 && !g->ahead && !g->ring)
    hole(sh, "BARRIER_FREE", meets ? "0" : "1");
  const char *mode = p->g.resident ? "mode=resident" : "mode=streamed";
  if (g->cluster > 1) mode = fmt(k, "cluster=%d %s", g->cluster, mode);
  if (g->ahead > 0) mode = fmt(k, "%s ahead=%d", mode, g->ahead);
  if (g->ring) mode = fmt(k, "%s ring=%d", mode, g->ring);
  if (k->dynamic) mode = fmt(k, "%s shared=%lld", mode, (long long)k->dynamic_bytes);
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

static void plan_long(kern *k, plan *p, const demand *d) {
  const unit *u = k->u;
  if (u->ncolumns || !u->reduces || k->e->caps->row_threads == 1) return;
  for (int i = 0; i < p->nloops; i++)
    for (int j = 0; j < p->loops[i]->nterms; j++)
      if (p->loops[i]->terms[j].op == GS_OP_FOLD) return;
  int64_t vectors = (p->main.count + p->main.vec - 1) / p->main.vec;
  if (!ring_row(k->e, vectors, d->kept, ring_bytes(k, p), &p->g))
    long_row(k->e, vectors, d->kept, &p->g);
}

static void plan_geometry(kern *k, plan *p) {
  unit *u = k->u;
  demand d;
  plan_reductions(k, p);
  plan_stores(k, p);
  plan_spaces(k->e, p);
  if (u->kept) /* the sums live along the kept dims */
    for (int i = 0; i < p->nloops; i++)
      if (p->loops[i]->level == p->levels + 1 && p->loops[i]->inner == u->kept)
        p->main = p->loops[i]->s;
  int vec = p->main.vec;
  bool shifted = u->ncolumns == 0 && u->reduces && shift_rows(k, p);
  for (;; unshift_rows(p, vec), shifted = false) {
    p->nheld = 0;
    find_held(k, p);
    count_demand(k, p, &d);
    geometry_row(k->e, &d, &p->g);
    plan_long(k, p, &d);
    if (!shifted || p->g.resident) break;
  }
}

/* The copies of a row begin in a scope of their own, under its own name. */
static const char *write_ahead(kern *k, plan *p) {
  int bases = k->nbases, taken = k->ntaken;
  const char *live = k->live;
  k->live = NULL;
  row_bind(k);
  copy_ahead(k, p);
  k->nbases = bases;
  k->ntaken = taken;
  k->live = live;
  return take_text(k);
}

bool row_begin(kern *k, plan *p, emit *e, unit *u) {
  p->nroots = unit_values(u, p->roots);
  unit_rows(e, u);
  kern_begin(k, e, u);
  kern_uses(k, p->roots, p->nroots);
  plan_geometry(k, p);
  if (rows_are_grouped(&p->g)) k->live = "live";
  return e->status == GS_OK;
}

/* What persistent blocks do before their rows. */
static void write_sums(kern *k, plan *p, shape *sh) {
  const char *live = k->live;
  parts_allocate(k->e, k->u, p);
  parts_declare(k, p);
  k->live = NULL;
  hold_same(k, p);
  load_first(k, p);
  k->live = live;
  if (p->g.carried) /* blocks do not all stop for that at the same row */
    line(k, "int since = (int)(GS_BID %% %d);", LONGEST_CHAIN);
  hole(sh, "SUMS", take_text(k));
  if (p->g.ahead) hole(sh, "FETCH", k->again = write_ahead(k, p));
}

void write_row(emit *e, unit *u) {
  kern k;
  plan *p = GS_NEW(e->a, plan);
  shape sh = {0};
  const char *copies = NULL;
  if (!row_begin(&k, p, e, u)) return;
  if (u->ncolumns) write_sums(&k, p, &sh);
  if (p->g.ring) {
    k.rows_apart = true;
    copies = ring_begin(&k, p);
    hole(&sh, "COPIES", copies);
    load_first(&k, p);
    hole(&sh, "FIRST", take_text(&k));
  }
  row_inside(&k, p);
  if (p->g.carried) parts_carry(&k, p);
  const char *body = take_text(&k);
  if (copies) body = ring_finish(&k, body, copies);
  if (u->ncolumns) {
    k.live = NULL;
    parts_write(&k, p);
    hole(&sh, "PARTS", take_text(&k));
  }
  row_shape(&k, p, &sh, body);
  add_kernel(&k, &sh);
}
