/* call.c: values written as calls: functions, comparisons, views, gathers, tables, random numbers.
 */
#include "derive/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const gs_node *node(const printer *p, gs_id id) {
  return gs_graph_node(p->g, id);
}

/* A dim that a view makes: "two=2" where its size is a fixed number and not declared. */
static void print_new_dim(const printer *p, gs_text *t, int d) {
  const gs_dim *dim = gs_graph_dim_at(p->g, d);
  bool fixed = dim->size >= 0 && !(p->opt->free >> d & 1) && !(p->opt->declared >> d & 1);
  if (fixed)
    gs_text_printf(t, "\"%s=%" PRId64 "\"", dim->name, dim->size);
  else
    gs_text_printf(t, "\"%s\"", dim->name);
}

static void print_args(printer *p, gs_text *t, const gs_node *n, const char *name) {
  gs_text_printf(t, "gs.%s(", name);
  for (int k = 0; k < n->nargs; k++) {
    if (k) gs_text_add(t, ", ");
    derive_expr(p, t, n->arg[k], 0);
  }
  gs_text_add(t, ")");
}

static bool is_two(const printer *p, int d) {
  const gs_dim *dim = gs_graph_dim_at(p->g, d);
  return dim->size == 2 && strcmp(dim->name, "two") == 0;
}

static void print_split(printer *p, gs_text *t, const gs_node *n) {
  const gs_dim *from = gs_graph_dim_at(p->g, n->dim[0]), *high = gs_graph_dim_at(p->g, n->dim[1]);
  const gs_dim *low = gs_graph_dim_at(p->g, n->dim[2]);
  gs_text_add(t, "gs.split(");
  derive_expr(p, t, n->arg[0], 0);
  gs_text_printf(t, ", \"%s\", ", from->name);
  print_new_dim(p, t, n->dim[1]);
  gs_text_add(t, ", ");
  print_new_dim(p, t, n->dim[2]);
  bool rest = from->size < 0 || from->size != high->size * low->size;
  gs_text_add(t, rest ? ", { tail = \"mask\" })" : ")");
}

/* from_halves and from_pairs, or the merge as it is. */
static void print_merge(printer *p, gs_text *t, const gs_node *n) {
  const gs_node *j = node(p, n->arg[0]);
  const char *whole = derive_dim_name(p, n->dim[0]);
  bool joined =
      j->op == GS_OP_JOIN && !p->local[n->arg[0]] && j->nargs == 2 && is_two(p, j->dim[0]);
  for (int k = 1; k <= 2 && joined; k++) {
    if (j->dim[0] != n->dim[k]) continue;
    gs_text_printf(t, "gs.from_%s(", k == 1 ? "halves" : "pairs");
    derive_expr(p, t, j->arg[0], 0);
    gs_text_add(t, ", ");
    derive_expr(p, t, j->arg[1], 0);
    gs_text_printf(t, ", \"%s\", \"%s\")", whole, derive_dim_name(p, n->dim[3 - k]));
    return;
  }
  gs_text_add(t, "gs.merge(");
  derive_expr(p, t, n->arg[0], 0);
  gs_text_printf(t, ", \"%s\", \"%s\", \"%s\")", derive_dim_name(p, n->dim[1]),
                 derive_dim_name(p, n->dim[2]), whole);
}

static void print_join(printer *p, gs_text *t, const gs_node *n) {
  gs_text_add(t, "gs.join({ ");
  for (int k = 0; k < n->nargs; k++) {
    if (k) gs_text_add(t, ", ");
    derive_expr(p, t, n->arg[k], 0);
  }
  gs_text_add(t, " }, ");
  print_new_dim(p, t, n->dim[0]);
  gs_text_add(t, ")");
}

static void print_pick(printer *p, gs_text *t, const gs_node *n) {
  gs_id e = n->arg[0];
  if (p->is_pair[e] && p->half[n->index][e]) {
    gs_text_add(t, p->half[n->index][e]);
    return;
  }
  gs_text_add(t, "gs.pick(");
  derive_expr(p, t, e, 0);
  gs_text_printf(t, ", \"%s\", %" PRId64 ")", derive_dim_name(p, n->dim[0]), n->index);
}

static void print_slice(printer *p, gs_text *t, const gs_node *n) {
  const gs_dim *to = gs_graph_dim_at(p->g, n->dim[1]);
  gs_text_add(t, "gs.slice(");
  derive_expr(p, t, n->arg[0], 0);
  gs_text_printf(t, ", \"%s\", \"%s", derive_dim_name(p, n->dim[0]), to->name);
  if (!(p->opt->declared >> n->dim[1] & 1)) gs_text_printf(t, "=%" PRId64, to->size);
  gs_text_printf(t, "\", %" PRId64 ")", n->index);
}

static void print_at(printer *p, gs_text *t, const gs_node *n) {
  gs_text_add(t, "gs.at(");
  derive_expr(p, t, n->arg[0], 0);
  gs_text_printf(t, ", \"%s\"", derive_dim_name(p, n->dim[0]));
  for (int k = 1; k < n->nargs; k++) {
    gs_text_add(t, ", ");
    derive_expr(p, t, n->arg[k], 0);
  }
  gs_text_add(t, ")");
}

static void print_sum_by(printer *p, gs_text *t, const gs_node *n) {
  gs_text_add(t, "gs.sum_by(");
  derive_expr(p, t, n->arg[0], 0);
  gs_text_add(t, ", ");
  derive_expr(p, t, n->arg[1], 0);
  gs_text_printf(t, ", \"%s\", \"%s\")", derive_dim_name(p, n->dim[0]),
                 derive_dim_name(p, n->dim[1]));
}

static void print_round(printer *p, gs_text *t, const gs_node *n) {
  gs_text_add(t, "gs.round(");
  derive_expr(p, t, n->arg[0], 0);
  if (p->opt->generic_name && n->to == p->opt->generic)
    gs_text_printf(t, ", p.%s.type", p->opt->generic_name);
  else
    gs_text_printf(t, ", \"%s\"", gs_type_name(n->to));
  if (n->op == GS_OP_ROUND_RAND) {
    gs_text_add(t, ", { rand = ");
    derive_expr(p, t, n->arg[1], 0);
    gs_text_add(t, " }");
  }
  gs_text_add(t, ")");
}

/* ---- tables ---- */

static int table_name(printer *p, int table) {
  for (int k = 0; k < p->ntables; k++)
    if (p->table[k] == table) return k + 1;
  derive_failed(p, "more tables of constants than can be written");
  return 0;
}

static void print_table(printer *p, gs_text *t, const gs_node *n) {
  int name = table_name(p, (int)n->index);
  if (n->op == GS_OP_BUCKET) {
    gs_text_add(t, "gs.bucket(");
    derive_expr(p, t, n->arg[0], 0);
    gs_text_printf(t, ", table%d)", name);
    return;
  }
  gs_text_printf(t, "table%d[", name);
  derive_expr(p, t, n->arg[0], 0);
  gs_text_add(t, "]");
}

/* ---- random numbers: gs.rand(seed, "site", { dims }, { offset = n }) ---- */

enum { MOST_PLACES = 8 };

/* The flat index as a sum of coef * INDEX(dim), and of coef * offset. */
typedef struct flat {
  int dim[MOST_PLACES], n;
  double coef[MOST_PLACES], offset_coef;
  gs_id offset;
  bool other;
} flat;

/* FNV-1a, as gs.rand takes it. */
static uint32_t hash_of(const char *s) {
  uint32_t h = 2166136261u;
  for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
  return h;
}

static double whole(const printer *p, gs_id id) {
  const gs_node *n = node(p, id);
  return n->op == GS_OP_CONST ? n->value : 0;
}

static void flatten(const printer *p, gs_id id, double coef, flat *f) {
  const gs_node *n = node(p, id);
  if (n->op == GS_OP_INDEX && f->n < MOST_PLACES) {
    f->dim[f->n] = n->dim[0];
    f->coef[f->n++] = coef;
  } else if (n->op == GS_OP_ADD) {
    flatten(p, n->arg[0], coef, f);
    flatten(p, n->arg[1], coef, f);
  } else if (n->op == GS_OP_MUL && whole(p, n->arg[1]) != 0) {
    flatten(p, n->arg[0], coef * whole(p, n->arg[1]), f);
  } else {
    f->other |= f->offset != 0;
    f->offset = id;
    f->offset_coef = coef;
  }
}

static void print_rand(printer *p, gs_text *t, const gs_node *n) {
  flat f = {.n = 0};
  const char *site = NULL;
  flatten(p, n->arg[0], 1, &f);
  for (int k = 0; k < p->opt->nsites; k++) {
    if ((double)hash_of(p->opt->site[k]) == whole(p, n->arg[1])) site = p->opt->site[k];
  }
  if (!site || f.other || f.n == 0) {
    derive_failed(p, "a random number whose place cannot be told: save it in forward");
    return;
  }
  const gs_node *seed = node(p, n->arg[2]);
  gs_text_add(t, "gs.rand(");
  derive_expr(p, t, seed->op == GS_OP_INTEGER ? seed->arg[0] : n->arg[2], 0);
  gs_text_printf(t, ", \"%s\", {", site);
  for (int done = 0; done < f.n; done++) { /* the slowest first */
    int slowest = 0;
    for (int k = 1; k < f.n; k++)
      if (f.coef[k] > f.coef[slowest]) slowest = k;
    if (done == 0 && f.offset && f.offset_coef != f.coef[slowest])
      derive_failed(p, "a random number with an offset of its own: save it in forward");
    gs_text_printf(t, "%s \"%s\"", done ? "," : "", derive_dim_name(p, f.dim[slowest]));
    f.coef[slowest] = 0;
  }
  gs_text_add(t, " }");
  if (f.offset) {
    gs_text_add(t, ", { offset = ");
    derive_expr(p, t, f.offset, 0);
    gs_text_add(t, " }");
  }
  gs_text_add(t, ")");
}

void derive_call(printer *p, gs_text *t, const gs_node *n) {
  switch (n->op) {
  case GS_OP_INDEX: gs_text_printf(t, "gs.index \"%s\"", derive_dim_name(p, n->dim[0])); break;
  case GS_OP_SIZE: gs_text_printf(t, "gs.size \"%s\"", derive_dim_name(p, n->dim[0])); break;
  case GS_OP_REAL:
    if (node(p, n->arg[0])->op == GS_OP_SIZE && !p->local[n->arg[0]])
      derive_expr(p, t, n->arg[0], 0);
    else
      print_args(p, t, n, "real");
    break;
  case GS_OP_AND: print_args(p, t, n, "and_"); break;
  case GS_OP_OR: print_args(p, t, n, "or_"); break;
  case GS_OP_NOT: print_args(p, t, n, "not_"); break;
  case GS_OP_ROUND:
  case GS_OP_ROUND_RAND: print_round(p, t, n); break;
  case GS_OP_BUCKET:
  case GS_OP_LOOKUP: print_table(p, t, n); break;
  case GS_OP_RAND: print_rand(p, t, n); break;
  case GS_OP_SPLIT: print_split(p, t, n); break;
  case GS_OP_MERGE: print_merge(p, t, n); break;
  case GS_OP_JOIN: print_join(p, t, n); break;
  case GS_OP_PICK: print_pick(p, t, n); break;
  case GS_OP_SLICE: print_slice(p, t, n); break;
  case GS_OP_AT: print_at(p, t, n); break;
  case GS_OP_SUM_BY: print_sum_by(p, t, n); break;
  case GS_OP_RENAME:
    gs_text_add(t, "gs.rename(");
    derive_expr(p, t, n->arg[0], 0);
    gs_text_printf(t, ", \"%s\", \"%s\")", derive_dim_name(p, n->dim[0]),
                   derive_dim_name(p, n->dim[1]));
    break;
  case GS_OP_FOLD:
  case GS_OP_STATE:
  case GS_OP_ELEMENT:
    derive_failed(p, "the backward needs the result of a reduction by the author's own step "
                     "(gs.reduce, gs.argmax): return it, or save it in forward");
    break;
  default: print_args(p, t, n, gs_op_row(n->op)->name); break;
  }
}
