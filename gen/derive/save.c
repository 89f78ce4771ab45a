/* save.c: what a forward could save for its backward: values that cost a reduction and are small.
 */
#include "derive/internal.h"

#include <string.h>

enum { MOST_FOUND = 12, TIMES_SMALLER = 8 };

bool derive_is_reduction(gs_op op) {
  return op == GS_OP_SUM || op == GS_OP_RMAX || op == GS_OP_RMIN || op == GS_OP_LOGSUMEXP ||
         op == GS_OP_FOLD || op == GS_OP_SUM_BY;
}

const char *derive_saved_stem(gs_op op) {
  switch (op) {
  case GS_OP_RSQRT: return "rstd";
  case GS_OP_SQRT: return "norm";
  case GS_OP_LOGSUMEXP: return "lse";
  case GS_OP_RMAX: return "max";
  case GS_OP_RMIN: return "min";
  case GS_OP_SUM:
  case GS_OP_SUM_BY: return "sum";
  case GS_OP_FOLD: return "best";
  default: return "kept";
  }
}

static int bits(gs_dims s) {
  int n = 0;
  for (; s; s &= s - 1) n++;
  return n;
}

/* Of each node below the adjoint. */
typedef struct facts {
  char *reached, *incoming, *reduced, *worth;
  double *largest; /* input below */
} facts;

static bool is_worth_saving(const gs_derive_job *job, const facts *f, gs_id id) {
  const gs_node *n = gs_graph_node(job->g, id);
  bool kind = n->type == GS_F32 || (n->type == GS_I64 && n->op == GS_OP_FOLD);
  bool dims = !(n->dims & ~job->may_save) && bits(n->dims & job->outer) <= 1;
  return kind && dims && f->reduced[id] && !f->incoming[id] &&
         gs_derive_points(job->g, n->dims) * TIMES_SMALLER <= f->largest[id];
}

static void learn(const gs_derive_job *job, facts *f, gs_id id) {
  const gs_node *n = gs_graph_node(job->g, id);
  for (int k = 0; k < n->nargs; k++) {
    f->incoming[id] |= f->incoming[n->arg[k]];
    f->reduced[id] |= f->reduced[n->arg[k]];
    if (f->largest[n->arg[k]] > f->largest[id]) f->largest[id] = f->largest[n->arg[k]];
  }
  if (derive_is_reduction(n->op)) f->reduced[id] = 1;
  if (n->op == GS_OP_INPUT) {
    f->largest[id] = gs_derive_points(job->g, n->dims);
    f->incoming[id] = gs_graph_tensor_at(job->g, (int)n->index)->role == GS_ROLE_UPSTREAM;
  }
  f->worth[id] = (char)is_worth_saving(job, f, id);
}

static bool is_taken(const gs_derive_job *job, const char *name) {
  for (int t = 0; t < job->made_from; t++)
    if (strcmp(gs_graph_tensor_at(job->g, t)->name, name) == 0) return true;
  for (int k = 0; k < job->ntaken; k++)
    if (strcmp(job->taken[k], name) == 0) return true;
  for (int k = 0; k < job->nleaves; k++) {
    const gs_node *n = gs_graph_node(job->g, job->leaves[k].leaf);
    if (strcmp(gs_graph_tensor_at(job->g, (int)n->index)->name, name) == 0) return true;
  }
  return false;
}

/* A tensor that an earlier variant of the search made may stand for this variant's value. */
static gs_id tensor_like(gs_derive_job *job, const gs_tensor *t) {
  for (int k = job->made_from; k < gs_graph_ntensors(job->g); k++) {
    const gs_tensor *old = gs_graph_tensor_at(job->g, k);
    bool same = strcmp(old->name, t->name) == 0 && old->type == t->type && old->role == t->role &&
                old->ndims == t->ndims;
    if (same && memcmp(old->dim, t->dim, sizeof *t->dim * (size_t)t->ndims) == 0)
      return gs_input(job->g, k);
  }
  return gs_input(job->g, gs_graph_tensor(job->g, t));
}

static void add_leaf(gs_derive_job *job, gs_id id, gs_arena *a) {
  const gs_node *n = gs_graph_node(job->g, id);
  const char *stem = derive_saved_stem(n->op);
  gs_tensor t = {.role = GS_ROLE_SAVED, .type = n->type == GS_F32 ? GS_F32 : GS_I32};
  for (int d = 0; d < GS_MAX_DIMS; d++)
    if (n->dims >> d & 1) {
      if (t.ndims == GS_MAX_RANK) return;
      t.dim[t.ndims++] = d;
    }
  if (t.ndims > 1 && (job->outer & n->dims) && !(job->outer >> t.dim[0] & 1)) return;
  t.name = stem;
  for (int count = 2; is_taken(job, t.name); count++)
    t.name = gs_arena_printf(a, "%s%d", stem, count);
  gs_id leaf = tensor_like(job, &t);
  job->leaves[job->nleaves++] = (gs_derive_leaf){.leaf = leaf, .expr = id, .must_be_kept = true};
}

/* Whether id still needs a reduction when everything in leaves can be read. */
static bool needs_reduction(const gs_derive_job *job, gs_id id, gs_arena *a) {
  char *marks = GS_NEW_N(a, char, id + 1);
  marks[id] = 1;
  for (gs_id k = id; k > 0; k--) {
    if (!marks[k]) continue;
    bool readable = false;
    for (int j = 0; j < job->nleaves; j++) readable |= job->leaves[j].expr == k;
    if (readable) continue;
    const gs_node *n = gs_graph_node(job->g, k);
    if (derive_is_reduction(n->op)) return true;
    for (int j = 0; j < n->nargs; j++) marks[n->arg[j]] = 1;
  }
  return false;
}

/* What a person would save first. */
static int rank_of(gs_op op) {
  if (op == GS_OP_RSQRT || op == GS_OP_SQRT || op == GS_OP_LOGSUMEXP) return 0;
  return derive_is_reduction(op) ? 1 : 2;
}

/* Those that something larger reads, and reductions themselves; what others give without a
 * reduction is left out. */
void derive_find_saves(gs_derive_job *job, const gs_id *d, int n, gs_arena *a) {
  const gs_graph *g = job->g;
  gs_id count = gs_graph_size(g);
  facts f = {GS_NEW_N(a, char, count), GS_NEW_N(a, char, count), GS_NEW_N(a, char, count),
             GS_NEW_N(a, char, count), GS_NEW_N(a, double, count)};
  char *wanted = GS_NEW_N(a, char, count);
  derive_mark(g, d, n, f.reached);
  for (gs_id id = 1; id < count; id++) {
    if (!f.reached[id]) continue;
    learn(job, &f, id);
    const gs_node *node = gs_graph_node(g, id);
    for (int k = 0; k < node->nargs; k++)
      if (f.worth[node->arg[k]] && !f.worth[id]) wanted[node->arg[k]] = 1;
    if (f.worth[id] && rank_of(node->op) < 2) wanted[id] = 1;
  }
  int most = job->nleaves + MOST_FOUND;
  for (int rank = 0; rank < 3; rank++)
    for (gs_id id = 1; id < count; id++) {
      bool room = job->nleaves < most && job->nleaves < GS_DERIVE_MOST_LEAVES;
      if (!wanted[id] || !room || rank_of(gs_graph_node(g, id)->op) != rank) continue;
      if (needs_reduction(job, id, a)) add_leaf(job, id, a);
    }
}
