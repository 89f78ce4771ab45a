/* graph.c: storage of the graph: dims, tensors, nodes shared by hashing, and the constructors.
 *
 * A node lives where it was made: pointers stay valid as long as the arena. Equality covers every
 * field but the line. Checking and simplification on construction are types.c and local.c. */
#include "graph/internal.h"
#include "graph/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gs_graph *gs_graph_new(gs_arena *a) {
  gs_graph *g = GS_NEW(a, gs_graph);
  g->arena = a;
  g->count = 1;
  g->chunks_cap = 16;
  g->chunks = GS_NEW_N(a, gs_node *, g->chunks_cap);
  g->chunks[0] = GS_NEW_N(a, gs_node, CHUNK_NODES);
  g->nchunks = 1;
  g->table_cap = 1024;
  g->table = GS_NEW_N(a, gs_id, g->table_cap);
  return g;
}

gs_id gs_graph_size(const gs_graph *g) {
  return g->count;
}
int gs_graph_ndims(const gs_graph *g) {
  return g->ndims;
}
int gs_graph_ntensors(const gs_graph *g) {
  return g->ntensors;
}

const gs_node *gs_graph_node(const gs_graph *g, gs_id id) {
  return id > 0 && id < g->count ? node_at(g, id) : NULL;
}

/* ---- dims and tensors ---- */

int gs_graph_dim(gs_graph *g, const char *name, int64_t size) {
  if (g->ndims == GS_MAX_DIMS) return -1;
  gs_dim *d = &g->dims[g->ndims];
  d->name = gs_arena_strdup(g->arena, name);
  d->size = size < 0 ? -1 : size;
  d->same_as = -1;
  d->div = 1;
  return g->ndims++;
}

int gs_graph_dim_like(gs_graph *g, const char *name, int like) {
  int root = gs_graph_dim_root(g, like);
  int d = gs_graph_dim(g, name, g->dims[root].size);
  if (d >= 0 && g->dims[root].size < 0) g->dims[d].same_as = root;
  return d;
}

int find_blocks(const gs_graph *g, int like, int64_t div) {
  int root = gs_graph_dim_root(g, like);
  if (div == 1) return root;
  const gs_dim *r = &g->dims[root];
  if (r->same_as >= 0) {
    div *= r->div;
    root = r->same_as;
  }
  for (int d = 0; d < g->ndims; d++)
    if (g->dims[d].same_as == root && g->dims[d].div == div) return d;
  return -1;
}

int gs_graph_dim_blocks(gs_graph *g, const char *name, int like, int64_t div) {
  int root = gs_graph_dim_root(g, like);
  int64_t size = g->dims[root].size;
  if (size >= 0) return gs_graph_dim(g, name, size / div + (size % div != 0));
  int found = find_blocks(g, root, div);
  if (found >= 0) return gs_graph_dim_like(g, name, found);
  if (g->dims[root].same_as >= 0) { /* ceil(ceil(N/a)/b) = ceil(N/(a*b)) */
    div *= g->dims[root].div;
    root = g->dims[root].same_as;
  }
  int d = gs_graph_dim(g, name, -1);
  if (d < 0) return d;
  g->dims[d].same_as = root;
  g->dims[d].div = div;
  return d;
}

int gs_graph_dim_root(const gs_graph *g, int d) {
  while (g->dims[d].same_as >= 0 && g->dims[d].div == 1) d = g->dims[d].same_as;
  return d;
}

static int64_t size_from(const gs_graph *g, int d, const int64_t *sizes) {
  const gs_dim *dim = &g->dims[d];
  if (dim->size >= 0) return dim->size;
  if (dim->same_as < 0) return sizes[d];
  int64_t size = size_from(g, dim->same_as, sizes);
  return size / dim->div + (size % dim->div != 0);
}

void gs_graph_sizes(const gs_graph *g, int64_t *sizes) {
  for (int d = 0; d < g->ndims; d++) sizes[d] = size_from(g, d, sizes);
}

int gs_graph_find_dim(const gs_graph *g, const char *name) {
  for (int d = 0; d < g->ndims; d++)
    if (strcmp(g->dims[d].name, name) == 0) return d;
  return -1;
}

const gs_dim *gs_graph_dim_at(const gs_graph *g, int d) {
  return d >= 0 && d < g->ndims ? &g->dims[d] : NULL;
}

int64_t inner_size(const gs_graph *g, int d) {
  return g->dims[gs_graph_dim_root(g, d)].size;
}

bool divides(const gs_graph *g, const gs_node *n) {
  int64_t whole = inner_size(g, n->dim[0]);
  return whole >= 0 && whole == inner_size(g, n->dim[1]) * inner_size(g, n->dim[2]);
}

int gs_graph_tensor(gs_graph *g, const gs_tensor *t) {
  g->tensors =
      gs_arena_room(g->arena, g->tensors, g->ntensors, &g->tensors_cap, sizeof *g->tensors);
  g->tensors[g->ntensors] = *t;
  g->tensors[g->ntensors].name = gs_arena_strdup(g->arena, t->name);
  return g->ntensors++;
}

const gs_tensor *gs_graph_tensor_at(const gs_graph *g, int t) {
  return t >= 0 && t < g->ntensors ? &g->tensors[t] : NULL;
}

/* ---- tables and folds ---- */

int gs_graph_table(gs_graph *g, const double *value, int count) {
  double *v = GS_NEW_N(g->arena, double, (size_t)count + 1);
  for (int i = 0; i < count; i++) v[i] = (double)(float)value[i];
  size_t bytes = sizeof *v * (size_t)count;
  for (int t = 0; t < g->ntables; t++)
    if (g->tables[t].count == count && memcmp(g->tables[t].value, v, bytes) == 0) return t;
  g->tables = gs_arena_room(g->arena, g->tables, g->ntables, &g->tables_cap, sizeof *g->tables);
  g->tables[g->ntables] = (gs_table){count, v};
  return g->ntables++;
}

int gs_graph_ntables(const gs_graph *g) {
  return g->ntables;
}

const gs_table *gs_graph_table_at(const gs_graph *g, int t) {
  return t >= 0 && t < g->ntables ? &g->tables[t] : NULL;
}

static bool same_fold(const gs_fold *a, const gs_fold *b) {
  if (a->nelements != b->nelements || a->nstate != b->nstate) return false;
  for (int k = 0; k < a->nstate; k++)
    if (a->type[k] != b->type[k] || a->init[k] != b->init[k] || a->step[k] != b->step[k] ||
        a->merge[k] != b->merge[k])
      return false;
  return true;
}

int gs_graph_fold(gs_graph *g, const gs_fold *f) {
  for (int k = 0; k < g->nfolds; k++)
    if (same_fold(&g->folds[k], f)) return k;
  g->folds = gs_arena_room(g->arena, g->folds, g->nfolds, &g->folds_cap, sizeof *g->folds);
  g->folds[g->nfolds] = *f;
  return g->nfolds++;
}

const gs_fold *gs_graph_fold_at(const gs_graph *g, int f) {
  return f >= 0 && f < g->nfolds ? &g->folds[f] : NULL;
}

void dims_text(const gs_graph *g, gs_dims s, char *buf, size_t cap) {
  size_t len = (size_t)snprintf(buf, cap, "[");
  const char *sep = "";
  for (int d = 0; d < g->ndims && len < cap; d++) {
    if (!has(s, d)) continue;
    len += (size_t)snprintf(buf + len, cap - len, "%s%s", sep, g->dims[d].name);
    sep = ", ";
  }
  if (len < cap) snprintf(buf + len, cap - len, "]");
}

/* ---- sharing ---- */

static uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdu;
}

static uint64_t bits_of(double v) {
  uint64_t u;
  memcpy(&u, &v, sizeof u);
  return u;
}

static uint64_t hash_node(const gs_node *n) {
  uint64_t h = mix((uint64_t)n->op, (uint64_t)n->type);
  h = mix(mix(h, (uint64_t)n->to), n->rdims);
  for (int k = 0; k < n->nargs; k++) h = mix(h, (uint64_t)n->arg[k]);
  for (int k = 0; k < 3; k++) h = mix(h, (uint64_t)n->dim[k]);
  h = mix(mix(h, (uint64_t)n->index), bits_of(n->value));
  return h ^ (h >> 29);
}

static bool same_node(const gs_node *a, const gs_node *b) {
  return a->op == b->op && a->type == b->type && a->to == b->to && a->rdims == b->rdims &&
         a->nargs == b->nargs && a->index == b->index && bits_of(a->value) == bits_of(b->value) &&
         memcmp(a->arg, b->arg, sizeof a->arg) == 0 && memcmp(a->dim, b->dim, sizeof a->dim) == 0;
}

static void grow_table(gs_graph *g) {
  size_t cap = 2 * g->table_cap;
  gs_id *t = GS_NEW_N(g->arena, gs_id, cap);
  for (gs_id id = 1; id < g->count; id++) {
    size_t h = (size_t)hash_node(node_at(g, id)) & (cap - 1);
    while (t[h]) h = (h + 1) & (cap - 1);
    t[h] = id;
  }
  g->table = t;
  g->table_cap = cap;
}

static gs_id append(gs_graph *g, const gs_node *n) {
  int chunk = g->count / CHUNK_NODES;
  if (chunk == g->nchunks) {
    if (g->nchunks == g->chunks_cap) {
      gs_node **grown = GS_NEW_N(g->arena, gs_node *, 2 * g->chunks_cap);
      memcpy(grown, g->chunks, sizeof *grown * (size_t)g->nchunks);
      g->chunks = grown;
      g->chunks_cap *= 2;
    }
    g->chunks[g->nchunks++] = GS_NEW_N(g->arena, gs_node, CHUNK_NODES);
  }
  g->chunks[chunk][g->count % CHUNK_NODES] = *n;
  return g->count++;
}

gs_id intern(gs_graph *g, const gs_node *n) {
  if ((size_t)g->count * 2 > g->table_cap) grow_table(g);
  size_t h = (size_t)hash_node(n) & (g->table_cap - 1);
  for (; g->table[h]; h = (h + 1) & (g->table_cap - 1))
    if (same_node(node_at(g, g->table[h]), n)) return g->table[h];
  gs_id id = append(g, n);
  g->table[h] = id;
  return id;
}

/* ---- constructors ---- */

gs_id const_of(gs_graph *g, double v, gs_type type) {
  gs_node n = {.op = GS_OP_CONST, .type = type, .dim = {-1, -1, -1}, .value = v == 0 ? 0.0 : v};
  return intern(g, &n);
}

gs_id gs_const(gs_graph *g, double v) {
  return const_of(g, v, GS_F32);
}

gs_id gs_input(gs_graph *g, int tensor) {
  const gs_tensor *t = &g->tensors[tensor];
  bool scalar = t->role == GS_ROLE_SCALAR || t->role == GS_ROLE_STEP_SCALAR;
  gs_node n = {.op = scalar ? GS_OP_SCALAR : GS_OP_INPUT, .index = tensor};
  return make(g, &n);
}

/* Keeps only the fields that the operation uses, so that equality means equality. */
static gs_node clean(const gs_node *n) {
  gs_node c = {.op = n->op, .line = n->line};
  const op_row *row = row_of(n->op);
  c.nargs = row->info.arity >= 0 ? row->info.arity : n->nargs;
  for (int k = 0; k < c.nargs && k < GS_MAX_ARGS; k++) c.arg[k] = n->arg[k];
  switch (n->op) {
  case GS_OP_CONST:
    c.value = n->value == 0 ? 0.0 : n->value;
    c.type = n->type;
    break;
  case GS_OP_ROUND:
  case GS_OP_ROUND_RAND: c.to = n->to; break;
  case GS_OP_STATE:
  case GS_OP_ELEMENT: c.type = n->type; /* fall through */
  case GS_OP_INPUT:
  case GS_OP_SCALAR:
  case GS_OP_BUCKET:
  case GS_OP_LOOKUP:
  case GS_OP_FOLD:
  case GS_OP_PICK:
  case GS_OP_SLICE: c.index = n->index; break;
  default: break;
  }
  if (row->kind == KIND_REDUCE) c.rdims = n->rdims;
  for (int k = 0; k < 3; k++) c.dim[k] = k < row->ndims ? n->dim[k] : -1;
  if (n->op == GS_OP_FOLD) c.dim[0] = n->dim[0]; /* the component, no dim */
  return c;
}

gs_id gs_apply(gs_graph *g, const gs_node *n, gs_error *err) {
  if (n->op <= GS_OP_NONE || n->op >= GS_OP_COUNT) {
    gs_fail(err, GS_ERR_USE, "no operation has number %d", (int)n->op);
    return 0;
  }
  gs_node c = clean(n);
  if (check_types(g, &c, err) != GS_OK) return 0;
  gs_id simpler = simplify_local(g, &c);
  return simpler ? simpler : intern(g, &c);
}

gs_id make(gs_graph *g, const gs_node *n) {
  gs_error err = {0};
  gs_id id = gs_apply(g, n, &err);
  if (!id) abort(); /* a mistake of this compiler, never of its user */
  return id;
}

gs_id gs_op1(gs_graph *g, gs_op op, gs_id a) {
  return make(g, &(gs_node){.op = op, .nargs = 1, .arg = {a}});
}

gs_id gs_op2(gs_graph *g, gs_op op, gs_id a, gs_id b) {
  return make(g, &(gs_node){.op = op, .nargs = 2, .arg = {a, b}});
}

gs_id gs_where(gs_graph *g, gs_id c, gs_id a, gs_id b) {
  return make(g, &(gs_node){.op = GS_OP_WHERE, .nargs = 3, .arg = {c, a, b}});
}

gs_id gs_reduce(gs_graph *g, gs_op op, gs_id a, gs_dims rdims) {
  rdims &= node_at(g, a)->dims;
  return make(g, &(gs_node){.op = op, .nargs = 1, .arg = {a}, .rdims = rdims});
}

gs_id sum_over(gs_graph *g, gs_id a, gs_dims rdims) {
  return make(g, &(gs_node){.op = GS_OP_SUM, .nargs = 1, .arg = {a}, .rdims = rdims});
}

gs_id size_real(gs_graph *g, int d) {
  return to_real(g, make(g, &(gs_node){.op = GS_OP_SIZE, .dim = {d}}));
}

gs_id view1(gs_graph *g, gs_op op, gs_id a, int d0, int d1, int64_t index) {
  return make(g, &(gs_node){.op = op, .nargs = 1, .arg = {a}, .dim = {d0, d1}, .index = index});
}

gs_id view2(gs_graph *g, gs_op op, gs_id a, int d0, int d1, int d2) {
  return make(g, &(gs_node){.op = op, .nargs = 1, .arg = {a}, .dim = {d0, d1, d2}});
}

gs_id gather(gs_graph *g, gs_id e, gs_id i, gs_id ok, int d) {
  return make(g, &(gs_node){.op = GS_OP_AT, .nargs = ok ? 3 : 2, .arg = {e, i, ok}, .dim = {d}});
}
