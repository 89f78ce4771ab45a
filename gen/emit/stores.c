/* stores.c: what a result becomes in a kernel: one store, or one a part of a join; and over which
 * loops. A stored dim that the value merges from two is looped over as these two, so that a block's
 * reduction is made once for the block, not once for each of its elements, and what is read in
 * blocks is read in vectors; not where parts of a few elements would only make vectors short. */
#include "emit/emit.h"

/* ---- merges above the reductions ---- */

/* Marks what root reads, above its reductions and gathers (these included). */
static bool *mark_above(emit *e, gs_id root) {
  bool *seen = GS_NEW_N(e->a, bool, gs_graph_size(e->g) + 1);
  seen[root] = true;
  for (gs_id id = root; id > 0; id--) {
    if (!seen[id]) continue;
    const gs_node *n = gs_graph_node(e->g, id);
    if (reduces_dims(n->op) || n->op == GS_OP_AT || n->op == GS_OP_SUM_BY) continue;
    for (int i = 0; i < n->nargs; i++) seen[n->arg[i]] = true;
  }
  return seen;
}

int joined_dim(const emit *e, const gs_node *m) {
  const gs_node *j = gs_graph_node(e->g, m->arg[0]);
  while (j->nargs == 1 && j->op < GS_OP_ADD) j = gs_graph_node(e->g, j->arg[0]);
  if (j->op != GS_OP_JOIN) return -1;
  return j->dim[0] == m->dim[1] || j->dim[0] == m->dim[2] ? j->dim[0] : -1;
}

/* Whether a reduction below root has one of the dims. */
static bool reduction_has(emit *e, gs_id root, gs_dims dims) {
  bool *seen = GS_NEW_N(e->a, bool, gs_graph_size(e->g) + 1);
  seen[root] = true;
  for (gs_id id = root; id > 0; id--) {
    if (!seen[id]) continue;
    const gs_node *n = gs_graph_node(e->g, id);
    if (reduces_dims(n->op) && (n->dims & dims)) return true;
    for (int i = 0; i < n->nargs; i++) seen[n->arg[i]] = true;
  }
  return false;
}

/* A merge into one of dims, of a join or else of blocks with reductions; NULL when there is none.
 */
static const gs_node *find_merge(emit *e, gs_id root, gs_dims dims, bool join) {
  bool *seen = mark_above(e, root);
  for (gs_id id = root; id > 0; id--) {
    const gs_node *n = gs_graph_node(e->g, id);
    if (!seen[id] || n->op != GS_OP_MERGE || !(dims >> n->dim[0] & 1)) continue;
    if (join != (joined_dim(e, n) >= 0)) continue;
    gs_dims parts = (gs_dims)1 << n->dim[1] | (gs_dims)1 << n->dim[2];
    if (join || dim_size(e, n->dim[2]) % 8 == 0 || reduction_has(e, n->arg[0], parts)) return n;
  }
  return NULL;
}

/* ---- stores ---- */

static void push_store(emit *e, unit *u, int to, gs_id expr, const where_at *w, gs_dims dims,
                       bool add, int guard) {
  if (u->nstores == MAX_STORES) {
    emit_fail(e, 0, "a kernel would have more than %d stores", MAX_STORES);
    return;
  }
  store *s = &u->stores[u->nstores++];
  s->mem = to;
  s->value = lower(e, expr, w);
  s->dims = dims;
  s->add = add;
  s->guard = guard;
  mem_index(e, &e->mems[to], w, &s->row, &s->off);
}

/* Which merges a store loops over the parts of, from the stored dims inward. */
typedef struct parts {
  const gs_node *merge[GS_MAX_RANK * 4];
  int n;
  gs_dims dims; /* the loops */
} parts;

static void loop_parts(const emit *e, parts *p, const gs_node *m) {
  p->merge[p->n++] = m;
  p->dims &= ~((gs_dims)1 << m->dim[0]);
  for (int i = 1; i < 3; i++)
    if (dim_size(e, m->dim[i]) != 1) p->dims |= (gs_dims)1 << m->dim[i];
}

/* Where the merged dims are for the indices of their parts, and the guard of the whole. */
static int merge_indices(emit *e, const parts *p, where_at *w) {
  for (int i = p->n - 1; i >= 0; i--) {
    const gs_node *m = p->merge[i];
    int whole = m->dim[0], high = aff_scale(e, w->at[m->dim[1]], dim_size(e, m->dim[2]));
    w->at[whole] = aff_add(e, high, w->at[m->dim[2]]);
    int inside = both_guards(e, w->guard[m->dim[1]], w->guard[m->dim[2]]);
    w->guard[whole] = both_guards(e, inside, below_size(e, w->at[whole], whole));
    w->holds = both_guards(e, w->holds, w->guard[whole]);
  }
  return w->holds;
}

/* One store for each part of a join. */
static void store_joined(emit *e, unit *u, int to, gs_id expr, const parts *p, int join, bool add) {
  for (int64_t i = 0; i < dim_size(e, join); i++) {
    where_at w;
    where_loops(e, &w);
    w.at[join] = aff_const(e, i);
    int guard = merge_indices(e, p, &w);
    push_store(e, u, to, expr, &w, p->dims & ~((gs_dims)1 << join), add, guard);
  }
}

void add_stores(emit *e, unit *u, int to, gs_id expr, bool add) {
  parts p = {0};
  const gs_node *m;
  for (int i = 0; i < e->mems[to].ndims; i++)
    if (dim_size(e, e->mems[to].dim[i]) != 1) p.dims |= (gs_dims)1 << e->mems[to].dim[i];
  while (p.n < GS_MAX_RANK * 4 - 1 && (m = find_merge(e, expr, p.dims, false)))
    loop_parts(e, &p, m);
  m = find_merge(e, expr, p.dims, true);
  if (m && dim_size(e, joined_dim(e, m)) <= 8 && !dim_is_outer(e, m->dim[0])) {
    loop_parts(e, &p, m);
    store_joined(e, u, to, expr, &p, joined_dim(e, m), add);
  } else {
    where_at w;
    where_loops(e, &w);
    int guard = merge_indices(e, &p, &w);
    push_store(e, u, to, expr, &w, p.dims, add, guard);
  }
}

void add_point_store(emit *e, unit *u, int to, gs_id expr, const where_at *w, bool add) {
  gs_dims dims = 0;
  for (int i = 0; i < e->mems[to].ndims; i++) dims |= (gs_dims)1 << e->mems[to].dim[i];
  push_store(e, u, to, expr, w, dims, add, -1);
}
