/* adjoint.c: reverse mode on the graph. The derivative of one operation is in its row (ops.c); here
 * the contributions are summed down to the dims of each argument and added up.
 *
 * requires: a verified graph. keeps: everything; new nodes are appended. Consumers are met in
 * descending order of id, so that the sum of contributions has one fixed order. */
#include "graph/internal.h"
#include "graph/ops.h"

/* The dims over which a contribution to argument k of n lives, before it is summed down. A dim
 * that the contribution lacks, but this set has, is one along which it is constant. */
static gs_dims space_of(const gs_graph *g, const gs_node *n) {
  gs_dims s = n->dims | n->rdims;
  int key;
  switch (n->op) {
  case GS_OP_SPLIT: return (s & ~(bit(n->dim[1]) | bit(n->dim[2]))) | bit(n->dim[0]);
  case GS_OP_MERGE: return (s & ~bit(n->dim[0])) | bit(n->dim[1]) | bit(n->dim[2]);
  case GS_OP_PICK: return s | bit(n->dim[0]);
  case GS_OP_SLICE:
  case GS_OP_RENAME: return (s & ~bit(n->dim[1])) | bit(n->dim[0]);
  case GS_OP_JOIN: return s & ~bit(n->dim[0]);
  case GS_OP_AT: key = key_dim(g, n); return (key >= 0 ? s & ~bit(key) : s) | bit(n->dim[0]);
  case GS_OP_SUM_BY: return (s & ~bit(n->dim[1])) | bit(n->dim[0]);
  default: return s;
  }
}

typedef struct reverse {
  gs_graph *g;
  gs_id *grad;  /* of each node; 0: none yet */
  char *needed; /* depends on an x through differentiable operations */
} reverse;

static void add_to(reverse *r, gs_id id, gs_id contribution) {
  gs_id old = r->grad[id];
  r->grad[id] = old ? gs_op2(r->g, GS_OP_ADD, old, contribution) : contribution;
}

/* A real fold has a derivative, which nobody can tell from its program. */
static bool is_opaque(const gs_node *n) {
  return n->op == GS_OP_FOLD && n->type == GS_F32;
}

static gs_status refuse(const gs_node *n, gs_error *err) {
  return gs_fail(err, GS_ERR_USE,
                 "the fold (gs.reduce) of line %d has no derivative, but a gradient goes through "
                 "it: write it with sums and maxima, or put gs.stop around it",
                 n->line);
}

static void pass_down(reverse *r, gs_id id) {
  gs_graph *g = r->g;
  const gs_node *n = node_at(g, id);
  const op_row *row = row_of(n->op);
  if (!row->derive) return;
  for (int k = 0; k < n->nargs; k++) {
    gs_id a = n->arg[k];
    if (!r->needed[a] || node_at(g, a)->type != GS_F32) continue;
    gs_id c = row->derive(g, id, k, r->grad[id]);
    if (!c) continue;
    add_to(r, a, sum_over(g, c, space_of(g, n) & ~node_at(g, a)->dims));
  }
}

static void mark_needed(reverse *r, const id_list *list, const gs_id *x, int nx) {
  for (int j = 0; j < nx; j++) r->needed[x[j]] = 1;
  for (int i = 0; i < list->n; i++) {
    const gs_node *n = node_at(r->g, list->id[i]);
    if (!row_of(n->op)->derive && !is_opaque(n)) continue;
    for (int k = 0; k < n->nargs; k++) r->needed[list->id[i]] |= r->needed[n->arg[k]];
  }
}

gs_status gs_adjoint(gs_graph *g, const gs_id *y, const gs_id *dy, int ny, const gs_id *x, int nx,
                     gs_id *d, gs_error *err) {
  gs_status status = GS_OK;
  gs_arena *a = gs_arena_new();
  id_list list = reachable(g, y, ny, a);
  gs_id count = g->count;
  reverse r = {g, GS_NEW_N(a, gs_id, count), GS_NEW_N(a, char, count)};
  mark_needed(&r, &list, x, nx);
  for (int i = 0; i < ny; i++) {
    gs_dims along = node_at(g, dy[i])->dims & ~node_at(g, y[i])->dims; /* the output is constant */
    if (r.needed[y[i]]) add_to(&r, y[i], sum_over(g, to_real(g, dy[i]), along));
  }
  for (int i = list.n - 1; i >= 0 && status == GS_OK; i--) {
    if (!r.grad[list.id[i]] || !r.needed[list.id[i]]) continue;
    pass_down(&r, list.id[i]);
    const gs_node *n = node_at(g, list.id[i]);
    if (is_opaque(n) && !is_value(g, r.grad[list.id[i]], 0)) status = refuse(n, err);
  }
  if (status != GS_OK) goto done;
  for (int j = 0; j < nx; j++) d[j] = r.grad[x[j]] ? r.grad[x[j]] : gs_const(g, 0);
done:
  gs_arena_free(a);
  return status;
}
