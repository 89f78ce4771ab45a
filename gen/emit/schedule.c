/* schedule.c: cuts a pass into units, each of which becomes a kernel (or a few, with a template).
 *
 * Works in rounds. A round takes the sums over outer dims whose arguments hold no other such sum,
 * and the results that hold none; what can share a kernel does. Then these sums are replaced by
 * reads of temporaries, and the next round begins. A reduction over inner dims that does not fit
 * the rows of its kernel is cut out in the same way. Requires a verified graph. */
#include "emit/emit.h"

#include <string.h>

#define LONGEST_FORMULA 600 /* characters; of a value used many times little more can be read */

/* ---- walking the graph ---- */

static gs_dims outer_dims(const emit *e) {
  gs_dims d = 0;
  for (int i = 0; i < gs_graph_ndims(e->g); i++)
    if (dim_is_outer(e, i)) d |= (gs_dims)1 << i;
  return d;
}

bool reduces_dims(gs_op op) {
  return op == GS_OP_SUM || op == GS_OP_RMAX || op == GS_OP_RMIN || op == GS_OP_LOGSUMEXP ||
         op == GS_OP_FOLD;
}

static bool is_outer_sum(const emit *e, gs_id id) {
  const gs_node *n = gs_graph_node(e->g, id);
  return n->op == GS_OP_SUM_BY || (reduces_dims(n->op) && (n->rdims & outer_dims(e)));
}

/* Marks what root reads, in seen[id]. */
static void mark(const emit *e, gs_id root, bool *seen) {
  seen[root] = true;
  for (gs_id id = root; id > 0; id--) {
    if (!seen[id]) continue;
    const gs_node *n = gs_graph_node(e->g, id);
    for (int i = 0; i < n->nargs; i++) seen[n->arg[i]] = true;
  }
}

static bool *marks(emit *e) {
  return GS_NEW_N(e->a, bool, gs_graph_size(e->g) + 1);
}

/* The lowest outer sum below root (root itself too when `self`), or 0. */
static gs_id outer_below(emit *e, gs_id root, bool self) {
  bool *seen = marks(e);
  mark(e, root, seen);
  for (gs_id id = 1; id <= root; id++)
    if (seen[id] && (self || id != root) && is_outer_sum(e, id)) return id;
  return 0;
}

/* The lowest inner reduction strictly below root (or root itself), or 0. */
static gs_id inner_below(emit *e, gs_id root, bool self) {
  bool *seen = marks(e);
  mark(e, root, seen);
  for (gs_id id = 1; id <= root; id++)
    if (seen[id] && (self || id != root) && reduces_dims(gs_graph_node(e->g, id)->op) &&
        !is_outer_sum(e, id))
      return id;
  return 0;
}

void replace_node(emit *e, gs_id from, gs_id to) {
  int n = e->pass->nresults;
  gs_id *roots = GS_NEW_N(e->a, gs_id, n);
  for (int i = 0; i < n; i++) roots[i] = e->results[i].expr;
  gs_substitute(e->g, &from, &to, 1, roots, n);
  for (int i = 0; i < n; i++) e->results[i].expr = roots[i];
}

/* ---- units ---- */

static unit *add_unit(emit *e, unit_kind kind) {
  e->units = gs_arena_room(e->a, e->units, e->nunits, &e->cap_units, sizeof(unit *));
  unit *u = e->units[e->nunits++] = GS_NEW(e->a, unit);
  u->kind = kind;
  return u;
}

static void add_formula(emit *e, unit *u, const char *name, gs_id id) {
  gs_text t = {0};
  gs_print_expr(e->g, id, &t);
  bool whole = t.len <= LONGEST_FORMULA;
  u->formula = gs_arena_printf(e->a, "%s// %s = %.*s%s\n", u->formula ? u->formula : "", name,
                               LONGEST_FORMULA, t.s ? t.s : "", whole ? "" : " ...");
  gs_text_free(&t);
}

static int first_line(emit *e, gs_id root) {
  bool *seen = marks(e);
  mark(e, root, seen);
  for (gs_id id = root; id > 0; id--)
    if (seen[id] && gs_graph_node(e->g, id)->line > 0) return gs_graph_node(e->g, id)->line;
  return 0;
}

/* ---- what may share a kernel ---- */

typedef struct need {
  gs_dims rows;    /* that some reduction or sum asks for */
  gs_dims reduced; /* inner dims that reductions remove */
  bool reduces, bad;
} need;

static void need_value(const emit *e, int v, need *n, bool *seen) {
  if (seen[v]) return;
  seen[v] = true;
  const val *x = &e->vals[v];
  if (x->kind == VAL_REDUCE) {
    n->reduces = true;
    n->rows |= x->deps;
    n->reduced |= x->rdims;
    if ((x->rdims & outer_dims(e)) || x->captured) n->bad = true;
  }
  for (int i = 0; i < x->nargs; i++) need_value(e, x->arg[i], n, seen);
  if (x->guard >= 0) need_value(e, x->guard, n, seen);
  const int index[2] = {x->row, x->off};
  for (int k = 0; k < 2; k++)
    for (int i = 0; index[k] >= 0 && i < e->affs[index[k]].n; i++)
      if (e->affs[index[k]].var[i] >= OPAQUE)
        need_value(e, e->affs[index[k]].var[i] - OPAQUE, n, seen);
}

static need unit_need(emit *e, const unit *u) {
  need n = {0};
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  gs_dims outer = outer_dims(e);
  for (int i = 0; i < u->nstores; i++) {
    need_value(e, u->stores[i].value, &n, seen);
    n.rows |= u->stores[i].dims & outer;
  }
  for (int i = 0; i < u->ncolumns; i++) need_value(e, u->columns[i].value, &n, seen);
  return n;
}

static int64_t count_inner(const emit *e, gs_dims dims) {
  int64_t n = 1;
  for (int d = 0; d < gs_graph_ndims(e->g); d++)
    if (dims >> d & 1) n *= dim_size(e, d);
  return n;
}

/* Column sums stay in registers: as many values a thread as a row of this length has. */
static bool columns_fit(const emit *e, const unit *u) {
  int wide = 0;
  for (int i = 0; i < u->ncolumns; i++) wide += u->columns[i].kept != 0;
  return count_inner(e, u->kept) * wide <= 16 * 1024;
}

/* Sums to numbers cost nothing beside other work on the same elements, but have a faster kernel of
 * their own where a row would have a single one. */
static bool numbers_fit(const emit *e, const unit *u) {
  gs_dims outer = outer_dims(e);
  for (int i = 0; i < u->ncolumns; i++) {
    const column *c = &u->columns[i];
    if (c->kept) continue;
    gs_dims inner = c->rdims & ~u->rows;
    if ((u->rows & ~c->rdims) || (inner & outer)) return false;
    if (!u->reduces && !u->kept && count_inner(e, inner) < 8) return false;
  }
  return true;
}

/* Sums of a unit: the rows are what those that keep the most go over; the others keep fewer of the
 * same dims, or none. Sets u->rows. */
static bool columns_hold(const emit *e, unit *u, const need *n) {
  gs_dims rows = n->rows;
  bool numbers = false;
  u->kept = 0;
  for (int i = 0; i < u->ncolumns; i++) u->kept |= u->columns[i].kept;
  if ((u->kept & outer_dims(e)) || (n->rows & u->kept)) return false;
  for (int i = 0; i < u->ncolumns; i++)
    if (u->kept && u->columns[i].kept == u->kept) rows = u->columns[i].rdims;
  for (int i = 0; i < u->ncolumns; i++) {
    const column *c = &u->columns[i];
    numbers |= !c->kept;
    if (c->kept && c->rdims != (rows | (u->kept & ~c->kept))) return false;
  }
  if ((n->rows & ~rows) || (rows & n->reduced)) return false;
  for (int i = 0; i < u->nstores; i++)
    if ((rows & ~u->stores[i].dims) || (u->stores[i].dims & ~rows & outer_dims(e))) return false;
  u->rows = rows;
  if (numbers && !numbers_fit(e, u)) return false;
  return (!n->reduces && !u->nstores && !numbers) || columns_fit(e, u);
}

/* Stores of a map that differ in their inner dims: a few sides of the same rows, none so small that
 * it would lengthen the row of another for little. */
static bool sides_fit(const emit *e, const unit *u) {
  gs_dims sides[MAX_SIDES];
  int n = 0;
  for (int i = 0; i < u->nstores; i++) {
    int j = 0;
    gs_dims inner = u->stores[i].dims & ~u->rows;
    while (j < n && sides[j] != inner) j++;
    if (j == MAX_SIDES) return false;
    sides[j] = inner;
    n += j == n;
  }
  int64_t least = INT64_MAX, most = 0;
  for (int j = 0; j < n; j++) {
    int64_t count = count_inner(e, sides[j]);
    least = count < least ? count : least;
    most = count > most ? count : most;
  }
  return n <= 1 || (least > 1 && most / least <= 32);
}

/* Whether the stores and columns of u can be one kernel; sets its rows. */
static bool unit_holds(emit *e, unit *u) {
  need n = unit_need(e, u);
  gs_dims outer = outer_dims(e);
  if (n.bad || (n.rows & n.reduced)) return false;
  u->reduces = n.reduces;
  u->rows = n.rows;
  for (int i = 0; i < u->nstores; i++) {
    if (n.rows & ~u->stores[i].dims) return false;
    if ((u->stores[i].dims & ~n.rows) & outer) return false;
  }
  if (u->ncolumns) {
    if (!columns_hold(e, u, &n)) return false;
  } else if (!n.reduces) {
    if (!sides_fit(e, u)) return false;
  }
  u->kind = u->ncolumns ? UNIT_COLUMNS : n.reduces ? UNIT_ROW : UNIT_MAP;
  return true;
}

/* Adds `job` to a unit of this round that can hold it. */
static bool join(emit *e, const unit *job) {
  for (int k = e->round_start; k < e->nunits; k++) {
    unit both = *e->units[k];
    if (both.kind > UNIT_COLUMNS || both.nstores + job->nstores > MAX_STORES ||
        both.ncolumns + job->ncolumns > 4)
      continue;
    for (int i = 0; i < job->nstores; i++) both.stores[both.nstores++] = job->stores[i];
    for (int i = 0; i < job->ncolumns; i++) both.columns[both.ncolumns++] = job->columns[i];
    if (!unit_holds(e, &both)) continue;
    both.formula = gs_arena_printf(e->a, "%s%s", both.formula ? both.formula : "",
                                   job->formula ? job->formula : "");
    *e->units[k] = both;
    return true;
  }
  return false;
}

/* As join, or as a unit of its own. */
static bool place(emit *e, const unit *job) {
  unit alone = *job;
  if (!unit_holds(e, &alone)) return false;
  if (!join(e, job)) *add_unit(e, alone.kind) = alone;
  return true;
}

/* ---- cutting ---- */

static bool reads_stores_of(const emit *e, const unit *u, const unit *made) {
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  int roots[MAX_STORES];
  for (int i = 0; i < u->nstores; i++) roots[i] = u->stores[i].value;
  collect(e, roots, u->nstores, seen, true, NULL);
  for (int v = 0; v < e->nvals; v++)
    for (int i = 0; seen[v] && i < made->nstores; i++)
      if (e->vals[v].kind == VAL_LOAD && e->vals[v].mem == made->stores[i].mem) return true;
  return false;
}

/* Adds what is cut out to the unit that was cut out just before, unless it reads that. */
static bool join_cut(emit *e, const unit *u) {
  unit *last = e->nunits ? e->units[e->nunits - 1] : NULL;
  if (!last || !last->is_cut || last->nstores + u->nstores > MAX_STORES) return false;
  unit both = *last;
  for (int i = 0; i < u->nstores; i++) both.stores[both.nstores++] = u->stores[i];
  if (reads_stores_of(e, u, last) || !unit_holds(e, &both)) return false;
  both.formula = gs_arena_printf(e->a, "%s%s", both.formula, u->formula);
  *last = both;
  return true;
}

/* Writes the value of node id to a temporary before the rest of the round, and reads it from there.
 */
static bool cut_out(emit *e, gs_id id, gs_id *input) {
  const char *name = gs_arena_printf(e->a, "temp%d", e->nmems);
  int source_line = gs_graph_node(e->g, id)->line;
  int to = mem_temp(e, name, gs_graph_node(e->g, id)->type, gs_graph_node(e->g, id)->dims,
                    source_line, input);
  unit u = {.line = source_line};
  add_stores(e, &u, to, id, false);
  add_formula(e, &u, name, id);
  gs_count all = {.coef = 1, .div = 1};
  for (int i = 0; i < e->mems[to].ndims; i++) count_dim(e, &all, e->mems[to].dim[i]);
  mem_allocate_temp(e, to, all);
  if (e->status || !unit_holds(e, &u)) return false;
  u.is_cut = true;
  if (!join_cut(e, &u)) *add_unit(e, u.kind) = u;
  e->round_start = e->nunits; /* nothing else joins it: what follows reads it */
  return true;
}

static void cut_inner(emit *e, gs_id id) {
  gs_id input = id;
  if (!cut_out(e, id, &input))
    emit_fail(e, gs_graph_node(e->g, id)->line, "no schedule covers this reduction");
  else
    replace_node(e, id, input);
}

/* A logsumexp over an outer dim is a maximum and a sum. */
static gs_id plain_sum(emit *e, gs_id id) {
  gs_node n = *gs_graph_node(e->g, id);
  if (n.op != GS_OP_LOGSUMEXP) return 0;
  gs_id top = gs_reduce(e->g, GS_OP_RMAX, n.arg[0], n.rdims);
  gs_id rest = gs_op1(e->g, GS_OP_EXP, gs_op2(e->g, GS_OP_SUB, n.arg[0], top));
  gs_id sum = gs_reduce(e->g, GS_OP_SUM, rest, n.rdims);
  return gs_op2(e->g, GS_OP_ADD, top, gs_op1(e->g, GS_OP_LOG, sum));
}

/* Makes the reduction of a round that a job can't hold a temporary. */
static bool cut_below(emit *e, gs_id root, bool self, int source_line) {
  gs_id id = inner_below(e, root, self);
  if (id)
    cut_inner(e, id);
  else
    emit_fail(e, source_line, "no schedule covers this expression");
  return id != 0;
}

static gs_dims without_ones(const emit *e, gs_dims dims) {
  for (int d = 0; d < GS_MAX_DIMS; d++)
    if ((dims >> d & 1) && dim_size(e, d) == 1) dims &= ~((gs_dims)1 << d);
  return dims;
}

/* One round's outer sums, ready to be made. */
typedef struct ready {
  gs_id id, input;
  const char *name;
  int total, unit_index;
  gs_dims kept;
} ready;

/* Called after the result that it becomes, where there is one. */
static const char *total_name(emit *e, gs_id id) {
  for (int i = 0; i < e->pass->nresults; i++)
    if (e->results[i].expr == id) return e->results[i].name;
  return gs_arena_printf(e->a, "total%d", e->nmems);
}

/* Whether neighbours in memory are summed, not kept: then a row's sum comes before that over rows.
 */
static bool sums_along_memory(const emit *e, const column *c) {
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, &c->value, 1, seen, false, NULL);
  for (int v = 0; v < e->nvals; v++)
    for (int d = 0; seen[v] && e->vals[v].kind == VAL_LOAD && d < gs_graph_ndims(e->g); d++)
      if ((c->rdims >> d & 1) && !dim_is_outer(e, d) && dim_size(e, d) >= 4 &&
          (e->vals[v].deps & c->kept) && aff_coef(e, e->vals[v].off, d) == 1)
        return true;
  return false;
}

/* The unit of this round's sums to numbers over the same dims, or a new one. */
static void add_number(emit *e, const unit *job) {
  for (int k = e->round_start; k < e->nunits; k++) {
    unit *u = e->units[k];
    if (u->kind != UNIT_ALL || u->ncolumns == 4 || u->columns[0].rdims != job->columns[0].rdims)
      continue;
    u->columns[u->ncolumns++] = job->columns[0];
    u->formula = gs_arena_printf(e->a, "%s%s", u->formula, job->formula);
    return;
  }
  unit *u = add_unit(e, UNIT_ALL);
  *u = *job;
  u->kind = UNIT_ALL;
  u->rows = job->columns[0].rdims;
}

typedef enum placed { PLACED, CUT_BELOW, SPLIT_SUM } placed;

static placed place_column(emit *e, gs_id id, const unit *job) {
  const column *c = &job->columns[0];
  bool along = c->kept && sums_along_memory(e, c);
  if (join(e, job)) return PLACED;
  if (along) return SPLIT_SUM;
  if (c->kept) return place(e, job) ? PLACED : CUT_BELOW;
  if (inner_below(e, id, false)) return CUT_BELOW;
  add_number(e, job);
  return PLACED;
}

static placed add_column(emit *e, gs_id id, ready *r) {
  gs_node n = *gs_graph_node(e->g, id);
  unit job = {.line = n.line, .ncolumns = 1};
  where_at w;
  where_loops(e, &w);
  const char *name = total_name(e, id);
  column *c = &job.columns[0];
  c->op = n.op;
  c->kept = job.kept = without_ones(e, n.dims);
  c->rdims = without_ones(e, n.rdims);
  c->value = lower(e, n.arg[0], &w);
  c->name = name;
  c->mem = mem_temp(e, gs_arena_printf(e->a, "%s_parts", name), GS_F32, n.dims, n.line, NULL);
  add_formula(e, &job, name, id);
  placed how = place_column(e, id, &job);
  if (how != PLACED) return how;
  r->id = id;
  r->name = name;
  r->kept = c->kept;
  r->total = mem_temp(e, gs_arena_printf(e->a, "%s_sum", name), GS_F32, n.dims, n.line, &r->input);
  e->mems[r->total].partials = c->mem;
  e->mems[r->total].parts_op = n.op;
  return PLACED;
}

static void add_sum_by(emit *e, gs_id id) {
  gs_node n = *gs_graph_node(e->g, id);
  where_at w;
  where_loops(e, &w);
  unit *u = add_unit(e, UNIT_SUM_BY);
  u->line = n.line;
  u->from = n.dim[0];
  u->to = n.dim[1];
  u->key = lower(e, n.arg[1], &w);
  int to = -1;
  if (e->vals[u->key].deps & ~((gs_dims)1 << u->from))
    emit_fail(e, n.line, "the key of a grouped sum may depend on %s alone",
              gs_graph_dim_at(e->g, u->from)->name);
  for (int i = 0; i < e->pass->nresults && to < 0; i++)
    if (e->results[i].expr == id && !e->done[i]) {
      to = e->result_mem[i];
      e->done[i] = true;
      add_point_store(e, u, to, n.arg[0], &w, e->results[i].add);
      add_formula(e, u, e->results[i].name, id);
    }
  if (to < 0) {
    gs_id input;
    const char *name = gs_arena_printf(e->a, "temp%d", e->nmems);
    to = mem_temp(e, name, GS_F32, n.dims, n.line, &input);
    gs_count all = {.coef = mem_packed(e, &e->mems[to]), .div = 1};
    count_dim(e, &all, e->mems[to].dim[0]);
    mem_allocate_temp(e, to, all);
    add_point_store(e, u, to, n.arg[0], &w, false);
    add_formula(e, u, name, id);
    replace_node(e, id, input);
  }
  e->round_start = e->nunits;
}

/* The unit that adds the parts of those of unit k's sums that keep the dims `kept`. */
static unit *add_total(emit *e, int k, gs_dims kept, const ready *r, int n) {
  unit *u = NULL;
  for (int i = 0; i < n; i++) {
    const mem *total = &e->mems[r[i].total];
    if (r[i].unit_index != k || r[i].kept != kept) continue;
    if (!u) {
      u = add_unit(e, UNIT_TOTAL);
      u->parts_unit = k;
      u->kept = kept;
    }
    u->columns[u->ncolumns++] = (column){.mem = total->partials,
                                         .total = r[i].total,
                                         .name = r[i].name,
                                         .op = total->parts_op,
                                         .kept = kept};
    replace_node(e, r[i].id, r[i].input);
  }
  return u;
}

/* An element of its argument at another index. */
static bool moves_index(gs_op op) {
  return op == GS_OP_AT || (op >= GS_OP_SPLIT && op <= GS_OP_JOIN);
}

static bool reads_only(emit *e, gs_id root, const unit *u) {
  bool *seen = marks(e), *below = marks(e); /* below: a sum of u is */
  mark(e, root, seen);
  bool any = false;
  for (gs_id id = 1; id <= root; id++) {
    if (!seen[id]) continue;
    const gs_node *n = gs_graph_node(e->g, id);
    if (reduces_dims(n->op) || n->op == GS_OP_SUM_BY) return false;
    for (int i = 0; i < n->nargs; i++) below[id] |= below[n->arg[i]];
    if (below[id] && moves_index(n->op))
      return false; /* this kernel has each sum at its own index */
    if (n->op != GS_OP_INPUT) continue;
    for (int i = 0; i < e->nmems; i++) {
      const mem *m = &e->mems[i];
      if (m->tensor != n->index || m->partials < 0) continue;
      bool own = false;
      for (int c = 0; c < u->ncolumns; c++) own |= u->columns[c].total == i;
      if (!own) return false;
      any = below[id] = true;
    }
  }
  return any;
}

static bool reads_mem(emit *e, gs_id root, int at) {
  bool *seen = marks(e);
  mark(e, root, seen);
  for (gs_id id = 1; id <= root; id++)
    if (seen[id] && gs_graph_node(e->g, id)->op == GS_OP_INPUT &&
        gs_graph_node(e->g, id)->index == e->mems[at].tensor)
      return true;
  return false;
}

/* Whether r follows from the sums that u adds, each of them at its own index; or each part of r, a
 * join over one of its dims, does. */
static bool follows_from(emit *e, const gs_result *r, const unit *u) {
  gs_dims dims = 0;
  for (int k = 0; k < r->ndims; k++) dims |= (gs_dims)1 << r->dim[k];
  if (without_ones(e, dims) == u->kept) return reads_only(e, r->expr, u);
  const gs_node *m = gs_graph_node(e->g, r->expr);
  if (m->op != GS_OP_MERGE || !(dims >> m->dim[0] & 1)) return false;
  const gs_node join = *gs_graph_node(e->g, m->arg[0]);
  dims &= ~((gs_dims)1 << m->dim[0]);
  for (int k = 1; k < 3; k++) dims |= (gs_dims)1 << m->dim[k];
  bool each = join.op == GS_OP_JOIN && (dims >> join.dim[0] & 1);
  if (!each || without_ones(e, dims & ~((gs_dims)1 << join.dim[0])) != u->kept) return false;
  for (int k = 0; k < join.nargs; k++)
    if (!reads_only(e, join.arg[k], u)) return false;
  return true;
}

/* Results that are made where the parts are added; what others read is kept in a temporary. */
static void finish_total(emit *e, unit *u) {
  for (int i = 0; i < e->pass->nresults; i++) {
    const gs_result *r = &e->results[i];
    if (e->done[i] || !follows_from(e, r, u)) continue;
    add_stores(e, u, e->result_mem[i], r->expr, r->add);
    add_formula(e, u, r->name, r->expr);
    e->done[i] = true;
  }
  for (int c = 0; c < u->ncolumns; c++) {
    int total = u->columns[c].total;
    bool wanted = false;
    for (int i = 0; i < e->pass->nresults; i++)
      wanted |= !e->done[i] && reads_mem(e, e->results[i].expr, total);
    if (!wanted) continue;
    gs_count all = {.coef = 1, .div = 1};
    for (int k = 0; k < e->mems[total].ndims; k++) all.coef *= dim_size(e, e->mems[total].dim[k]);
    mem_allocate_temp(e, total, all);
    gs_id in = gs_input(e->g, e->mems[total].tensor);
    add_stores(e, u, total, in, false);
  }
}

/* ---- rounds ---- */

/* The outer sums below unfinished results that hold no other: at most max. */
static int find_ready(emit *e, gs_id *ids, int max) {
  int n = 0;
  bool *seen = marks(e);
  for (int i = 0; i < e->pass->nresults; i++)
    if (!e->done[i]) mark(e, e->results[i].expr, seen);
  for (gs_id id = 1; id < gs_graph_size(e->g) && n < max; id++)
    if (seen[id] && is_outer_sum(e, id) && !outer_below(e, id, false)) ids[n++] = id;
  return n;
}

/* A grouped sum whose key differs along more than the summed dim is a sum of what has the key. */
static gs_id plain_grouped_sum(emit *e, gs_id id) {
  gs_node n = *gs_graph_node(e->g, id);
  if (n.op != GS_OP_SUM_BY || dim_is_outer(e, n.dim[1])) return 0;
  gs_dims from = (gs_dims)1 << n.dim[0];
  if (!(gs_graph_node(e->g, n.arg[1])->dims & ~from)) return 0;
  gs_id to = gs_apply(e->g, &(gs_node){.op = GS_OP_INDEX, .dim = {n.dim[1]}}, e->err);
  gs_id is_key = gs_op2(e->g, GS_OP_EQ, n.arg[1], to);
  gs_id own = gs_where(e->g, is_key, n.arg[0], gs_const(e->g, 0));
  gs_node sum = {.op = GS_OP_SUM, .nargs = 1, .arg = {own}, .rdims = from, .line = n.line};
  return gs_apply(e->g, &sum, e->err);
}

/* Replaces or cuts what the sums of a round can't hold; true when something changed. */
static bool prepare_sums(emit *e, const gs_id *ids, int n) {
  for (int i = 0; i < n; i++) {
    gs_id plain = plain_sum(e, ids[i]);
    if (!plain) plain = plain_grouped_sum(e, ids[i]);
    if (plain) {
      replace_node(e, ids[i], plain);
      return true;
    }
    bool by = gs_graph_node(e->g, ids[i])->op == GS_OP_SUM_BY;
    gs_id inner = by ? inner_below(e, ids[i], false) : 0;
    if (!inner) continue;
    cut_inner(e, inner);
    return true;
  }
  return false;
}

static bool place_results(emit *e) {
  for (int i = 0; i < e->pass->nresults; i++) {
    const gs_result *r = &e->results[i];
    if (r->same) share_same(e, i), e->done[i] = true; /* by the store of the other */
    if (e->done[i] || outer_below(e, r->expr, true)) continue;
    unit job = {.line = first_line(e, r->expr)};
    add_stores(e, &job, e->result_mem[i], r->expr, r->add);
    add_formula(e, &job, r->name, r->expr);
    if (!place(e, &job)) {
      cut_below(e, r->expr, true, job.line);
      return false;
    }
    e->done[i] = true;
  }
  return true;
}

static int unit_of_parts(const emit *e, int parts) {
  for (int k = 0; k < e->nunits; k++)
    for (int c = 0; c < e->units[k]->ncolumns; c++)
      if (e->units[k]->kind != UNIT_TOTAL && e->units[k]->columns[c].mem == parts) return k;
  return -1;
}

/* Sums that keep the most come first: the others may join them. */
static void sort_sums(const emit *e, gs_id *ids, int n) {
  for (int i = 1; i < n; i++) {
    gs_id id = ids[i];
    int64_t size = count_inner(e, gs_graph_node(e->g, id)->dims & ~outer_dims(e));
    int j = i;
    while (j > 0 && count_inner(e, gs_graph_node(e->g, ids[j - 1])->dims & ~outer_dims(e)) < size) {
      ids[j] = ids[j - 1];
      j--;
    }
    ids[j] = id;
  }
}

/* Adds the parts of all sums that were placed. */
static void add_totals(emit *e, ready *r, int n) {
  int made = e->nunits;
  for (int i = 0; i < n; i++) r[i].unit_index = unit_of_parts(e, e->mems[r[i].total].partials);
  for (int k = 0; k < made; k++)
    for (int c = 0; c < e->units[k]->ncolumns; c++) {
      gs_dims kept = e->units[k]->columns[c].kept;
      bool first = e->units[k]->kind != UNIT_TOTAL;
      for (int j = 0; j < c; j++) first &= e->units[k]->columns[j].kept != kept;
      unit *u = first ? add_total(e, k, kept, r, n) : NULL;
      if (u) finish_total(e, u);
    }
}

/* A sum over rows and along them: first along each row, into a temporary. */
static void split_sum(emit *e, gs_id id) {
  gs_node n = *gs_graph_node(e->g, id);
  gs_id along = gs_reduce(e->g, n.op, n.arg[0], n.rdims & ~outer_dims(e)), input;
  if (cut_out(e, along, &input))
    replace_node(e, id, gs_reduce(e->g, n.op, input, n.rdims & outer_dims(e)));
  else
    cut_below(e, id, false, n.line);
}

static void round_once(emit *e) {
  gs_id ids[32], cut = 0, split[32];
  e->round_start = e->nunits;
  int n = find_ready(e, ids, 32), nready = 0, nsplit = 0;
  if (prepare_sums(e, ids, n)) return;
  if (!place_results(e)) return;
  sort_sums(e, ids, n);
  ready r[32];
  for (int i = 0; i < n && !e->status; i++) {
    if (gs_graph_node(e->g, ids[i])->op == GS_OP_SUM_BY) {
      add_sum_by(e, ids[i]);
      continue;
    }
    placed p = add_column(e, ids[i], &r[nready]);
    nready += p == PLACED;
    if (p == CUT_BELOW) cut = ids[i];
    if (p == SPLIT_SUM) split[nsplit++] = ids[i];
  }
  add_totals(e, r, nready); /* those that are not placed keep their numbers */
  for (int i = 0; i < nsplit; i++) split_sum(e, split[i]);
  if (cut) cut_below(e, cut, false, gs_graph_node(e->g, cut)->line);
}

gs_status schedule(emit *e) {
  halve_reductions(e);
  for (int guard = 0; guard < 64 && !e->status; guard++) {
    bool all = true;
    for (int i = 0; i < e->pass->nresults; i++) all &= e->done[i];
    if (all) return GS_OK;
    round_once(e);
  }
  if (!e->status) emit_fail(e, 0, "no schedule was found");
  return e->status;
}
