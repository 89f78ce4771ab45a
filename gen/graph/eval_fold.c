/* eval_fold.c: a fold in float64, with the error of its program propagated.
 *
 * The order of elements is the machine's. The value here is that of blocks of 8, each from the
 * start value, merged one after the other into a start value; so a merge that disagrees with step,
 * or cannot bear a state that has met no element, shows. The bound is twice the largest one of
 * three orders: those blocks, all in turn, and 32 threads in turn. */
#include "graph/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 8
#define THREADS 32

typedef struct number {
  double v, e;
} number;

/* One of a fold's two programs: its nodes, arguments first. */
typedef struct program {
  const gs_id *result;
  id_list list;
  number *at; /* of each node of the graph */
} program;

typedef struct folding {
  const gs_graph *g;
  const gs_fold *f;
  program step, merge;
} folding;

static program program_of(const gs_graph *g, const gs_id *result, int n, gs_arena *a, number *at) {
  return (program){result, reachable(g, result, n, a), at};
}

static void run_node(const gs_graph *g, gs_id id, number *at) {
  const gs_node *n = node_at(g, id);
  double x[3] = {0}, e[3] = {0};
  bool exact = true;
  for (int k = 0; k < n->nargs; k++) {
    x[k] = at[n->arg[k]].v;
    e[k] = at[n->arg[k]].e;
    exact &= e[k] == 0;
  }
  map_bound(g, n, x, e, exact, &at[id].v, &at[id].e);
  /* what is exact in this order need not be in another */
  double least = n->type == GS_F32 ? row_of(n->op)->info.ulps * UNIT * fabs(at[id].v) : 0;
  at[id].e = fmax(at[id].e, least);
}

/* state = program(state, other). */
static void run_program(const folding *f, const program *p, number *state, const number *other) {
  for (int i = 0; i < p->list.n; i++) {
    gs_id id = p->list.id[i];
    const gs_node *n = node_at(f->g, id);
    double off = n->op == GS_OP_CONST && n->type == GS_F32 && isfinite(n->value)
                     ? fabs(n->value - (double)(float)n->value)
                     : 0;
    if (n->op == GS_OP_CONST)
      p->at[id] = (number){n->value, off};
    else if (n->op == GS_OP_STATE)
      p->at[id] = state[n->index];
    else if (n->op == GS_OP_ELEMENT)
      p->at[id] = other[n->index];
    else
      run_node(f->g, id, p->at);
  }
  for (int k = 0; k < f->f->nstate; k++) state[k] = p->at[p->result[k]];
}

static void start(const folding *f, number *state) {
  for (int k = 0; k < f->f->nstate; k++) state[k] = (number){(double)(float)f->f->init[k], 0};
  for (int k = 0; k < f->f->nstate; k++)
    if (f->f->type[k] == GS_I64) state[k].v = f->f->init[k];
}

/* Elements j of n of one point: a[k] from its own base, through its own offsets. */
typedef struct elements {
  const value *a[GS_MAX_ARGS];
  const size_t *kept[GS_MAX_ARGS], *gone[GS_MAX_ARGS];
  size_t n;
} elements;

/* Elements from, from + step ... below to, from the start value, merged into all. */
static void run_part(const folding *f, const elements *el, size_t point, size_t from, size_t to,
                     size_t step, number *all) {
  number x[GS_MAX_ARGS], part[GS_MAX_FOLD];
  start(f, part);
  for (size_t j = from; j < to && j < el->n; j += step) {
    for (int k = 0; k < f->f->nelements; k++) {
      size_t o = el->kept[k][point] + el->gone[k][j];
      x[k] = (number){el->a[k]->v[o], el->a[k]->e ? el->a[k]->e[o] : 0};
    }
    run_program(f, &f->step, part, x);
  }
  run_program(f, &f->merge, all, part);
}

static number fold_point(const folding *f, const elements *el, size_t point, int component) {
  number blocks[GS_MAX_FOLD], turn[GS_MAX_FOLD], threads[GS_MAX_FOLD];
  start(f, blocks);
  start(f, turn);
  start(f, threads);
  for (size_t j = 0; j <= el->n; j += BLOCK) /* the last may be empty: a thread without elements */
    run_part(f, el, point, j, j + BLOCK, 1, blocks);
  run_part(f, el, point, el->n, el->n, 1, blocks);
  run_part(f, el, point, 0, el->n, 1, turn);
  for (size_t j = 0; j < THREADS && j < el->n; j++)
    run_part(f, el, point, j, el->n, THREADS, threads);
  number y = blocks[component];
  double e[] = {y.e, turn[component].e, threads[component].e};
  bool lost = isnan(y.v);
  for (int k = 0; k < 3; k++) {
    lost |= isnan(e[k]);
    y.e = fmax(y.e, 2 * e[k]);
  }
  if (lost) y.e = INFINITY;
  return y;
}

gs_status eval_fold(eval *ev, gs_id id) {
  const gs_node *n = node_at(ev->g, id);
  value *y = &ev->of[id];
  gs_arena *arena = gs_arena_new();
  folding f = {.g = ev->g, .f = gs_graph_fold_at(ev->g, (int)n->index)};
  number *at = GS_NEW_N(arena, number, ev->g->count);
  f.step = program_of(ev->g, f.f->step, f.f->nstate, arena, at);
  f.merge = program_of(ev->g, f.f->merge, f.f->nstate, arena, at);
  elements el = {.n = count_of(ev, n->rdims)};
  size_t *kept[GS_MAX_ARGS] = {0}, *gone[GS_MAX_ARGS] = {0};
  axis ax[GS_MAX_DIMS];
  gs_status status = need_errors(ev, y);
  for (int k = 0; k < n->nargs && status == GS_OK; k++) {
    el.a[k] = &ev->of[n->arg[k]];
    el.kept[k] = kept[k] = offsets(ev, ax, axes_of(ev, n->dims, el.a[k]->dims, ax), 0);
    el.gone[k] = gone[k] = offsets(ev, ax, axes_of(ev, n->rdims, el.a[k]->dims, ax), 0);
    if (!kept[k] || !gone[k]) status = GS_ERR_MEMORY;
  }
  for (size_t i = 0; i < y->count && status == GS_OK; i++) {
    number r = fold_point(&f, &el, i, n->dim[0]);
    y->own_v[i] = r.v;
    y->own_e[i] = r.e;
  }
  for (int k = 0; k < n->nargs; k++) {
    free(kept[k]);
    free(gone[k]);
  }
  gs_arena_free(arena);
  return status;
}
