/* parts.c: template row_column's sums over the rows. A lasting block carries its own, and at its
 * end writes one part of each; total.c adds the parts. */
#include "emit/emit.h"

static const char *column_dims(kern *k, const plan *p) {
  return p->g.chunks > 1 ? fmt(k, "[%d]", p->g.chunks) : "";
}

static bool is_carried(const plan *p, const term *t) {
  return p->g.carried && t->op == GS_OP_SUM && t->kind == TERM_REDUCE && t->chunk &&
         p->main.vec > 1;
}

/* Sums and their rounding errors, in shared memory: places of the thread alone. */
static void declare_far(kern *k, const plan *p, const term *t) {
  int64_t places = 2 * (int64_t)p->g.chunks * p->main.vec, all = places * p->g.threads;
  k->dynamic = fmt(k, "%sGS_DYNAMIC(f32, %s_far, %lld, %lld);\n", k->dynamic ? k->dynamic : "",
                   t->name, (long long)k->dynamic_bytes, (long long)all);
  k->dynamic_bytes += all * 4;
  line(k, "GS_UNROLL");
  line(k, "for (int c = 0; c < %lld; c++) %s_far[c * %d + GS_TID] = 0.0f;", (long long)places,
       t->name, p->g.threads);
}

/* Adds what has come together to the sums in shared memory; in the end, takes them from there. */
static void carry_sums(kern *k, const plan *p, bool last) {
  const geometry *g = &p->g;
  const char *chunk = g->chunks > 1 ? "[c]" : "";
  if (g->chunks > 1) {
    line(k, "GS_UNROLL");
    open_block(k, "for (int c = 0; c < %d; c++)", g->chunks);
  }
  for (int i = 0; i < k->u->ncolumns; i++) {
    const column *c = &k->u->columns[i];
    if (!c->kept || c->op != GS_OP_SUM) continue;
    int64_t by = 2 * (int64_t)p->main.vec * g->threads;
    const char *at = g->chunks > 1 ? fmt(k, "c * %lld + GS_TID", (long long)by) : "GS_TID";
    line(k, "gs_carry(%s_acc%s, %s_far, %s, %d);", c->name, chunk, c->name, at, g->threads);
    if (last)
      line(k, "gs_carried(%s_acc%s, %s_far, %s, %d);", c->name, chunk, c->name, at, g->threads);
  }
  if (g->chunks > 1) close_block(k);
}

void parts_carry(kern *k, const plan *p) {
  open_block(k, "if (++since == %d)", LONGEST_CHAIN);
  line(k, "since = 0;");
  carry_sums(k, p, false);
  close_block(k);
}

void parts_declare(kern *k, plan *p) {
  for (int j = 0; j < p->nloops; j++) {
    loop *l = p->loops[j];
    for (int i = 0; l->level == p->levels + 1 && i < l->nterms; i++) {
      term *t = &l->terms[i];
      if (t->kind != TERM_REDUCE) continue;
      bool wide = t->chunk[0] != 0;
      t->compensated = (p->g.compensated || !wide) && t->op == GS_OP_SUM;
      if (wide) t->chunk = p->g.chunks > 1 ? "[c]" : "";
      declare_sum(k, t, l->s.vec, wide ? column_dims(k, p) : "");
      if (wide && is_carried(p, t)) declare_far(k, p, t);
    }
  }
}

bool rows_are_grouped(const geometry *g) {
  return g->lanes > 1 && g->lanes < g->threads;
}

/* The groups of a warp add up their sums; the first has them. */
static void meet_groups(kern *k, const geometry *g, const column *c, int vec) {
  const char *chunk = g->chunks > 1 ? "[c]" : "";
  for (int o = g->lanes; rows_are_grouped(g) && o < 32; o *= 2) {
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

/* Whether the groups of a block find one another's sums in shared memory. */
static bool meets_far(const unit *u, const plan *p) {
  bool far = rows_are_grouped(&p->g) && p->g.carried;
  for (int i = 0; i < u->ncolumns; i++) far &= !u->columns[i].kept || u->columns[i].op == GS_OP_SUM;
  return far;
}

/* Each block of groups writes their sums of the columns, one group after another, to a row of the
 * parts. The sums of a lane lie apart by the threads of the block. */
static void write_met_parts(kern *k, const plan *p) {
  const unit *u = k->u;
  const geometry *g = &p->g;
  int vec = p->main.vec;
  line(k, "GS_SYNC();");
  line(k, "const i64 parts_at = GS_BID * %lld;", (long long)p->main.count);
  open_block(k, "for (int own = GS_TID; own < %d; own += %d)", g->lanes * vec, g->threads);
  line(k, "const int from = own / %d * %d + own %% %d;", g->lanes, g->threads, g->lanes);
  line(k, "const int i = own %% %d * %d + own / %d;", g->lanes, vec, g->lanes);
  bool exact = (int64_t)g->lanes * vec == p->main.count;
  if (!exact) open_block(k, "if (i < %lld)", (long long)p->main.count);
  for (int i = 0; i < u->ncolumns; i++) {
    const column *c = &u->columns[i];
    if (!c->kept) continue;
    line(k, "f32 %s_all = %s_far[from];", c->name, c->name);
    line(k, "GS_UNROLL");
    line(k, "for (int g = 1; g < %d; g++) %s_all += %s_far[from + g * %d];", g->per_block, c->name,
         c->name, g->lanes);
    line(k, "gs_put(%s, parts_at + i, %s_all);", k->e->mems[c->mem].name, c->name);
    k->writes[c->mem] = true;
  }
  if (!exact) close_block(k);
  close_block(k);
}

/* Each warp of groups, or each block, writes its sums of the columns to a row of the parts. */
static void write_wide_parts(kern *k, plan *p) {
  unit *u = k->u;
  const geometry *g = &p->g;
  const space *s = &p->main;
  const char *row =
      rows_are_grouped(g) ? fmt(k, "(GS_BID * %d + GS_WARP)", g->threads / 32) : "GS_BID";
  line(k, "const i64 parts_at = %s * %lld;", row, (long long)s->count);
  if (g->chunks <= 16) line(k, "GS_UNROLL"); /* registers have no addresses */
  open_block(k, "for (int c = 0; c < %d; c++)", g->chunks);
  const char *lane = g->lanes == 1 ? "c" : fmt(k, "(c * %d + %s)", g->lanes, lane_name(g));
  line(k, s->vec > 1 ? "const int i = %s * %d;" : "const int i = %s;", lane, s->vec);
  for (int i = 0; i < u->ncolumns; i++)
    if (u->columns[i].kept) meet_groups(k, g, &u->columns[i], s->vec);
  bool exact = (int64_t)g->chunks * g->lanes * s->vec == s->count;
  bool first = rows_are_grouped(g) && g->lanes < 32;
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

void parts_write(kern *k, plan *p) {
  unit *u = k->u;
  for (int i = 0; i < u->ncolumns; i++)
    if (!u->columns[i].kept) write_number_part(k, p, &u->columns[i]);
  bool met = meets_far(u, p);
  if (u->kept && p->g.carried) carry_sums(k, p, !met);
  if (u->kept && met) write_met_parts(k, p);
  if (u->kept && !met) write_wide_parts(k, p);
}

void parts_allocate(emit *e, unit *u, const plan *p) {
  u->per_block = p->g.per_block;
  u->parts_each = rows_are_grouped(&p->g) && !meets_far(u, p) ? p->g.threads / 32 : 1;
  u->cap = p->g.cap;
  u->parts_space = p->main;
  for (int i = 0; i < u->ncolumns; i++) {
    int64_t each = u->columns[i].kept ? u->parts_each * p->main.count : 1;
    mem_allocate_temp(e, u->columns[i].mem, (gs_count){.coef = u->cap * each, .div = 1});
  }
}
