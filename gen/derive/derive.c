/* derive.c: the adjoint of a forward, made short by search.
 *
 * The raw adjoint names values of the forward node by node. For a set of values that may be read
 * from memory, their nodes are replaced by leaves and the rest is simplified; the set grows by
 * whatever lowers the cost most, as long as something does. That is tried from the forward as it
 * was written and from the simplified forward, and the cheaper result is kept.
 *
 * requires: a verified graph. keeps: everything; new nodes are appended. */
#include "derive/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OUTER = 1024, MOST_ROOTS = 64, MOST_REPLACED = 256 };

void derive_mark(const gs_graph *g, const gs_id *roots, int n, char *marks) {
  gs_id top = 0;
  for (int k = 0; k < n; k++) {
    if (roots[k] <= 0) continue;
    marks[roots[k]] = 1;
    if (roots[k] > top) top = roots[k];
  }
  for (gs_id id = top; id > 0; id--) {
    if (!marks[id]) continue;
    const gs_node *node = gs_graph_node(g, id);
    for (int k = 0; k < node->nargs; k++) marks[node->arg[k]] = 1;
  }
}

/* ---- cost ---- */

double gs_derive_points(const gs_graph *g, gs_dims dims) {
  double p = 1;
  for (int d = 0; d < gs_graph_ndims(g); d++) {
    if (!(dims >> d & 1)) continue;
    int64_t size = gs_graph_dim_at(g, gs_graph_dim_root(g, d))->size;
    p *= size >= 0 ? (double)size : OUTER;
  }
  return p;
}

static gs_dims all_dims(const gs_graph *g, const gs_node *n) {
  gs_dims s = 0;
  for (int k = 0; k < n->nargs; k++) s |= gs_graph_node(g, n->arg[k])->dims;
  return s;
}

/* Elements that a sum over an outer dim, or by key, which something waits for reads; counted once.
 */
static double pass_of(const gs_graph *g, gs_id id, char *marks) {
  const gs_node *n = gs_graph_node(g, id);
  bool outer = n->op == GS_OP_SUM_BY;
  for (int d = 0; d < gs_graph_ndims(g); d++)
    outer |= (n->rdims >> d & 1) && gs_graph_dim_at(g, gs_graph_dim_root(g, d))->size < 0;
  if (!outer || marks[id] == 2) return 0;
  marks[id] = 2;
  return gs_derive_points(g, all_dims(g, n));
}

gs_derive_count gs_derive_cost(const gs_graph *g, const gs_id *roots, int n) {
  int64_t sizes[GS_MAX_DIMS];
  gs_derive_count c = {0};
  for (int d = 0; d < GS_MAX_DIMS; d++) sizes[d] = OUTER;
  c.flops = gs_flops(g, roots, n, sizes);
  gs_id count = gs_graph_size(g);
  char *marks = calloc((size_t)count + 1, 1);
  if (!marks) return c;
  derive_mark(g, roots, n, marks);
  for (gs_id id = 1; id < count; id++) {
    const gs_node *node = gs_graph_node(g, id);
    if (!marks[id]) continue;
    for (int k = 0; k < node->nargs; k++) c.passes += pass_of(g, node->arg[k], marks);
    if (node->op == GS_OP_SUM_BY) c.flops += gs_derive_points(g, node->dims); /* each is cleared */
    if (node->op != GS_OP_INPUT) continue;
    c.elements += gs_derive_points(g, node->dims);
    c.tensors++;
  }
  free(marks);
  return c;
}

static double price(const gs_derive_job *job, const gs_id *roots, int n) {
  gs_derive_count c = gs_derive_cost(job->g, roots, n);
  double p = c.flops + GS_DERIVE_READ * (c.elements + c.passes);
  for (int k = 0; k < job->nleaves; k++)
    if (job->leaves[k].used && job->leaves[k].must_be_kept)
      p += GS_DERIVE_READ *
           gs_derive_points(job->g, gs_graph_node(job->g, job->leaves[k].leaf)->dims);
  return p;
}

/* ---- the forward as the adjoint sees it ---- */

static bool is_precision(const gs_node *n) {
  return n->op == GS_OP_ROUND && (n->to == GS_F32 || n->to == GS_BF16 || n->to == GS_F16);
}

static gs_id drop_rounding(gs_graph *g, const gs_node *n) {
  (void)g;
  return is_precision(n) ? n->arg[0] : 0;
}

/* A sum by a key that differs from row to row is one that no kernel groups: a sum over comparisons
 * instead. */
static gs_id spell_out_groups(gs_graph *g, const gs_node *n) {
  if (n->op != GS_OP_SUM_BY) return 0;
  gs_dims from = (gs_dims)1 << n->dim[0];
  bool outer = gs_graph_dim_at(g, gs_graph_dim_root(g, n->dim[0]))->size < 0;
  if (outer && gs_graph_node(g, n->arg[1])->dims == from) return 0;
  gs_id index = gs_apply(g, &(gs_node){.op = GS_OP_INDEX, .dim = {n->dim[1]}}, NULL);
  gs_id hit = gs_op2(g, GS_OP_EQ, index, n->arg[1]);
  return gs_reduce(g, GS_OP_SUM, gs_where(g, hit, n->arg[0], gs_const(g, 0)), from);
}

/* Roots with every node replaced for which `change` gives another. */
static gs_status change_all(gs_graph *g, gs_id *roots, int n,
                            gs_id (*change)(gs_graph *g, const gs_node *n), gs_error *err) {
  gs_id count = gs_graph_size(g);
  char *marks = calloc((size_t)count + 1, 1);
  gs_id *map = calloc((size_t)count + 1, sizeof *map);
  gs_status st = marks && map ? GS_OK : gs_fail(err, GS_ERR_MEMORY, "derive: out of memory");
  if (st == GS_OK) derive_mark(g, roots, n, marks);
  for (gs_id id = 1; st == GS_OK && id < count; id++) {
    if (!marks[id]) continue;
    gs_node node = *gs_graph_node(g, id);
    bool moved = false;
    for (int k = 0; k < node.nargs; k++) {
      gs_id to = map[node.arg[k]];
      moved |= to != node.arg[k];
      node.arg[k] = to;
    }
    map[id] = change(g, &node);
    if (!map[id]) map[id] = moved ? gs_apply(g, &node, err) : id;
    if (!map[id]) st = GS_ERR_CHECK;
  }
  for (int k = 0; st == GS_OK && k < n; k++)
    if (roots[k]) roots[k] = map[roots[k]];
  free(marks);
  free(map);
  return st;
}

/* ---- the search ---- */

typedef struct search {
  gs_derive_job *job;
  gs_id raw[MOST_ROOTS]; /* the adjoint in the forward's own nodes */
  gs_id best[MOST_ROOTS];
  double cost;
} search;

/* Whether id is a/b, or a*(1/b), with an a that costs something. */
static bool quotient_of(const gs_graph *g, gs_id id, gs_id *a, gs_id *b) {
  const gs_node *n = gs_graph_node(g, id);
  for (int k = 0; k < 2 && n->op == GS_OP_MUL; k++) {
    const gs_node *d = gs_graph_node(g, n->arg[k]);
    if (d->op != GS_OP_DIV) continue;
    const gs_node *one = gs_graph_node(g, d->arg[0]);
    if (one->op != GS_OP_CONST || one->value != 1) continue;
    *a = n->arg[1 - k];
    *b = d->arg[1];
    return gs_op_row(gs_graph_node(g, *a)->op)->cost > 0;
  }
  if (n->op != GS_OP_DIV) return false;
  *a = n->arg[0];
  *b = n->arg[1];
  return gs_op_row(gs_graph_node(g, *a)->op)->cost > 0;
}

/* What is read instead of l's expression; of values joined along a dim each may be picked. */
static void replace(const gs_derive_job *job, const gs_derive_leaf *l, gs_id *from, gs_id *to,
                    int *n) {
  const gs_node *e = gs_graph_node(job->g, l->expr);
  for (int k = 0; e->op == GS_OP_JOIN && k < e->nargs && *n < MOST_REPLACED - 1; k++) {
    gs_node pick = {.op = GS_OP_PICK, .nargs = 1, .arg = {l->leaf}, .dim = {e->dim[0]}, .index = k};
    gs_id part = gs_apply(job->g, &pick, NULL);
    gs_op op = gs_graph_node(job->g, e->arg[k])->op;
    gs_dims more = part ? gs_graph_node(job->g, part)->dims : ~(gs_dims)0;
    if (op == GS_OP_CONST || op == GS_OP_INPUT) continue;
    if (more & ~gs_graph_node(job->g, e->arg[k])->dims) continue;
    from[*n] = e->arg[k];
    to[(*n)++] = part;
  }
  if (*n > MOST_REPLACED - 3) return;
  gs_id a, b;
  if (l->solved && quotient_of(job->g, l->expr, &a, &b)) {
    from[*n] = b; /* stays itself: it is made of a */
    to[(*n)++] = b;
    from[*n] = a;
    to[(*n)++] = gs_op2(job->g, GS_OP_MUL, l->leaf, b);
  }
  from[*n] = l->expr;
  to[(*n)++] = l->leaf;
}

/* Replaces what is used by its leaf, simplifies, and prices. */
static double attempt(const search *s, gs_id *roots) {
  const gs_derive_job *job = s->job;
  gs_id from[MOST_REPLACED], to[MOST_REPLACED];
  int n = 0;
  for (int k = 0; k < job->nleaves; k++)
    if (job->leaves[k].used) replace(job, &job->leaves[k], from, to, &n);
  memcpy(roots, s->raw, sizeof *roots * (size_t)job->nx);
  gs_substitute(job->g, from, to, n, roots, job->nx);
  gs_simplify(job->g, roots, job->nx);
  return price(job, roots, job->nx);
}

static void take(search *s, const gs_id *roots, double cost) {
  memcpy(s->best, roots, sizeof s->best);
  s->cost = cost;
}

/* Uses the leaf, in the way, that lowers the cost most. False when none does. */
static bool best_step(search *s) {
  gs_id roots[MOST_ROOTS] = {0}, found[MOST_ROOTS] = {0};
  double least = s->cost * (1 - 1e-6);
  int best = -1;
  bool solved = false;
  for (int k = 0; k < 2 * s->job->nleaves; k++) {
    gs_derive_leaf *l = &s->job->leaves[k / 2];
    gs_id a, b;
    if (l->used || (k % 2 && !quotient_of(s->job->g, l->expr, &a, &b))) continue;
    l->used = true;
    l->solved = k % 2;
    double cost = attempt(s, roots);
    l->used = false;
    if (cost >= least) continue;
    least = cost;
    best = k / 2;
    solved = k % 2;
    memcpy(found, roots, sizeof found);
  }
  if (best < 0) return false;
  take(s, found, least);
  s->job->leaves[best].used = true;
  s->job->leaves[best].solved = solved;
  return true;
}

/* Gives back what is not worth its memory any more. */
static void give_back(search *s) {
  gs_id roots[MOST_ROOTS] = {0};
  for (int k = 0; k < s->job->nleaves; k++) {
    gs_derive_leaf *l = &s->job->leaves[k];
    if (!l->used) continue;
    l->used = false;
    double cost = attempt(s, roots);
    if (cost <= s->cost)
      take(s, roots, cost);
    else
      l->used = true;
  }
}

static void find_shortest(search *s) {
  gs_id roots[MOST_ROOTS] = {0};
  double cost = attempt(s, roots);
  take(s, roots, cost);
  while (best_step(s)) {
  }
  give_back(s);
}

/* A leaf that stands for nothing that could be saved: an input itself, a number, or a value over
 * fewer dims than it is stored with. */
static bool is_useless(const gs_graph *g, const gs_derive_leaf *l) {
  const gs_node *e = gs_graph_node(g, l->expr);
  bool leaf = e->op == GS_OP_INPUT || e->op == GS_OP_CONST || e->op == GS_OP_SCALAR;
  return leaf || (gs_graph_node(g, l->leaf)->dims & ~e->dims) != 0;
}

/* Fills job->leaves with what may be read, in terms of the forward's nodes after the changes. */
static void set_leaves(gs_derive_job *job, const gs_derive_leaf *given, int n, const gs_id *expr) {
  job->nleaves = 0;
  for (int k = 0; k < n; k++) {
    gs_derive_leaf l = given[k];
    l.expr = expr[k];
    l.used = false;
    bool twice = false;
    for (int j = 0; j < job->nleaves; j++) twice |= job->leaves[j].expr == l.expr;
    if (!twice && !is_useless(job->g, &l)) job->leaves[job->nleaves++] = l;
  }
}

/* One variant: the forward as it is, or simplified. */
static gs_status search_from(search *s, bool simplified, gs_arena *a, gs_error *err) {
  gs_derive_job *job = s->job;
  gs_id roots[MOST_ROOTS + GS_DERIVE_MOST_LEAVES], y[MOST_ROOTS], dy[MOST_ROOTS];
  gs_derive_leaf given[GS_DERIVE_MOST_LEAVES];
  int n = job->nleaves, ny = 0;
  memcpy(given, job->leaves, sizeof given);
  for (int k = 0; k < job->ny; k++) roots[k] = job->y[k];
  for (int k = 0; k < n; k++) roots[job->ny + k] = given[k].expr;
  gs_status st = change_all(job->g, roots, job->ny + n, drop_rounding, err);
  if (st != GS_OK) return st;
  if (simplified) gs_simplify(job->g, roots, job->ny + n);
  for (int k = 0; k < job->ny; k++) {
    if (!job->dy[k]) continue;
    y[ny] = roots[k];
    dy[ny] = job->dy[k];
    /* what was said to vary along more dims than it does takes the sum of its gradients */
    gs_dims more = gs_graph_node(job->g, dy[ny])->dims & ~gs_graph_node(job->g, y[ny])->dims;
    if (more) dy[ny] = gs_reduce(job->g, GS_OP_SUM, dy[ny], more);
    ny++;
  }
  st = gs_adjoint(job->g, y, dy, ny, job->x, job->nx, s->raw, err);
  if (st == GS_OK) st = change_all(job->g, s->raw, job->nx, spell_out_groups, err);
  if (st != GS_OK) return st;
  set_leaves(job, given, n, roots + job->ny);
  if (job->may_save) derive_find_saves(job, s->raw, job->nx, a);
  find_shortest(s);
  return GS_OK;
}

gs_status gs_derive(gs_derive_job *job, gs_id *d, gs_error *err) {
  gs_arena *a = gs_arena_new();
  search *s = GS_NEW_N(a, search, 2);
  gs_derive_job *other = GS_NEW(a, gs_derive_job);
  gs_status st = GS_OK;
  if (job->nx > MOST_ROOTS || job->ny > MOST_ROOTS)
    st = gs_fail(err, GS_ERR_USE, "derive: more than %d inputs or outputs", MOST_ROOTS);
  job->made_from = gs_graph_ntensors(job->g);
  *other = *job;
  s[0].job = job;
  s[1].job = other;
  if (st == GS_OK) st = search_from(&s[0], false, a, err);
  if (st == GS_OK) st = search_from(&s[1], true, a, err);
  if (st == GS_OK) {
    bool second = s[1].cost < s[0].cost * (1 - 1e-6);
    if (second) *job = *other;
    memcpy(d, s[second].best, sizeof *d * (size_t)job->nx);
  }
  gs_arena_free(a);
  return st;
}

gs_status gs_derive_backward(gs_graph *g, const gs_id *y, const gs_id *dy, const gs_id *stored,
                             int ny, const gs_id *x, int nx, gs_id *d, gs_error *err) {
  gs_derive_job job = {.g = g, .ny = ny, .nx = nx, .y = y, .dy = dy, .x = x};
  for (int k = 0; k < ny && job.nleaves < GS_DERIVE_MOST_LEAVES / 2; k++)
    if (stored[k]) job.leaves[job.nleaves++] = (gs_derive_leaf){.leaf = stored[k], .expr = y[k]};
  return gs_derive(&job, d, err);
}
