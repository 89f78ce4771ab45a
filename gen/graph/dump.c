/* dump.c: a graph as text: one line a node for --dump, or one line of mathematics for comments.
 * Deterministic to the byte. */
#include "graph/internal.h"
#include "graph/ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shortest digits that read back as the same double, or the same float. */
static void add_number(gs_text *t, double v, bool as_float) {
  char buf[40];
  bool whole = v == floor(v) && fabs(v) < 1e7;
  for (int digits = whole ? 8 : 1; digits <= 17; digits++) {
    snprintf(buf, sizeof buf, "%.*g", digits, v);
    bool same = as_float ? strtof(buf, NULL) == (float)v : strtod(buf, NULL) == v;
    if (same || isnan(v)) break;
  }
  gs_text_add(t, buf);
}

static const char *dim_name(const gs_graph *g, int d) {
  return g->dims[d].name;
}

static void add_dim_list(gs_text *t, const gs_graph *g, gs_dims s) {
  const char *sep = "";
  for (int d = 0; d < g->ndims; d++) {
    if (!has(s, d)) continue;
    gs_text_printf(t, "%s%s", sep, dim_name(g, d));
    sep = ", ";
  }
}

/* ---- one line a node ---- */

static void add_attributes(gs_text *t, const gs_graph *g, const gs_node *n) {
  switch (n->op) {
  case GS_OP_CONST:
    gs_text_add(t, " ");
    add_number(t, n->value, false);
    break;
  case GS_OP_INPUT:
  case GS_OP_SCALAR: gs_text_printf(t, " %s", g->tensors[n->index].name); break;
  case GS_OP_INDEX:
  case GS_OP_SIZE: gs_text_printf(t, " %s", dim_name(g, n->dim[0])); break;
  case GS_OP_BUCKET:
  case GS_OP_LOOKUP: gs_text_printf(t, " in table %" PRId64, n->index); break;
  case GS_OP_FOLD: gs_text_printf(t, " %" PRId64 " part %d", n->index, n->dim[0]); break;
  case GS_OP_STATE:
  case GS_OP_ELEMENT: gs_text_printf(t, " %" PRId64, n->index); break;
  case GS_OP_ROUND:
  case GS_OP_ROUND_RAND: gs_text_printf(t, " to %s", gs_type_name(n->to)); break;
  case GS_OP_SPLIT:
    gs_text_printf(t, " %s -> %s, %s", dim_name(g, n->dim[0]), dim_name(g, n->dim[1]),
                   dim_name(g, n->dim[2]));
    break;
  case GS_OP_MERGE:
    gs_text_printf(t, " %s, %s -> %s", dim_name(g, n->dim[1]), dim_name(g, n->dim[2]),
                   dim_name(g, n->dim[0]));
    break;
  case GS_OP_PICK: gs_text_printf(t, " %s=%" PRId64, dim_name(g, n->dim[0]), n->index); break;
  case GS_OP_SLICE:
    gs_text_printf(t, " %s -> %s from %" PRId64, dim_name(g, n->dim[0]), dim_name(g, n->dim[1]),
                   n->index);
    break;
  case GS_OP_RENAME:
  case GS_OP_SUM_BY:
    gs_text_printf(t, " %s -> %s", dim_name(g, n->dim[0]), dim_name(g, n->dim[1]));
    break;
  case GS_OP_JOIN:
  case GS_OP_AT: gs_text_printf(t, " along %s", dim_name(g, n->dim[0])); break;
  default: break;
  }
  if (!n->rdims) return;
  gs_text_add(t, " over ");
  add_dim_list(t, g, n->rdims);
}

void gs_dump(const gs_graph *g, const gs_id *roots, const char *const *names, int n, gs_text *out) {
  gs_arena *a = gs_arena_new();
  id_list list = reachable(g, roots, n, a);
  for (int i = 0; i < list.n; i++) {
    const gs_node *node = node_at(g, list.id[i]);
    gs_text_printf(out, "%%%d [", (int)list.id[i]);
    add_dim_list(out, g, node->dims);
    gs_text_printf(out, "] = %s", row_of(node->op)->info.name);
    for (int k = 0; k < node->nargs; k++)
      gs_text_printf(out, "%s %%%d", k ? "," : "", (int)node->arg[k]);
    add_attributes(out, g, node);
    gs_text_printf(out, " : %s", gs_type_name(node->type));
    if (node->line) gs_text_printf(out, "  -- line %d", node->line);
    gs_text_add(out, "\n");
  }
  for (int i = 0; i < n; i++) {
    if (names && names[i])
      gs_text_printf(out, "%s = %%%d\n", names[i], (int)roots[i]);
    else
      gs_text_printf(out, "root = %%%d\n", (int)roots[i]);
  }
  gs_arena_free(a);
}

/* ---- one line of mathematics ---- */

/* How tightly an operator binds; an operand that binds less is put in parentheses. */
enum { BIND_OR = 1, BIND_AND, BIND_COMPARE, BIND_ADD, BIND_MUL, BIND_NEG, BIND_POWER, BIND_ATOM };

#define LONGEST 4000 /* characters, after which the rest is left out */

static void expr(gs_text *t, const gs_graph *g, gs_id id, int bind);

static void infix(gs_text *t, const gs_graph *g, const gs_node *n, const char *sign, int own) {
  bool chain = n->op == GS_OP_ADD || n->op == GS_OP_MUL || n->op == GS_OP_AND || n->op == GS_OP_OR;
  expr(t, g, n->arg[0], own + (own == BIND_COMPARE));
  gs_text_add(t, sign);
  expr(t, g, n->arg[1], chain ? own : own + 1);
}

/* The dims over which n is a mean of *of, or 0: a sum divided by, or multiplied with one over,
 * the number of its terms. */
static gs_dims mean_of(const gs_graph *g, const gs_node *n, gs_id *of) {
  if (n->op != GS_OP_DIV && n->op != GS_OP_MUL) return 0;
  const gs_node *s = node_at(g, n->arg[0]), *c = node_at(g, n->arg[1]);
  if (s->op != GS_OP_SUM) return 0;
  double size = 1;
  int d = -1, ndims = 0;
  for (int k = 0; k < g->ndims; k++) {
    if (!has(s->rdims, k)) continue;
    size *= (double)inner_size(g, k);
    d = k;
    ndims++;
  }
  bool inner = c->op == GS_OP_CONST && size > 0 &&
               (n->op == GS_OP_DIV ? c->value == size : c->value == 1 / size);
  const gs_node *sz = c->op == GS_OP_REAL ? node_at(g, c->arg[0]) : NULL;
  bool outer = n->op == GS_OP_DIV && ndims == 1 && sz && sz->op == GS_OP_SIZE &&
               sz->dim[0] == gs_graph_dim_root(g, d);
  *of = s->arg[0];
  return inner || outer ? s->rdims : 0;
}

#define MOST_FACTORS 16

typedef struct factors {
  gs_id id[MOST_FACTORS];
  int power[MOST_FACTORS], n, met;
} factors;

static void add_power(factors *f, gs_id id, int power) {
  for (int i = 0; i < f->n; i++)
    if (f->id[i] == id) {
      f->power[i] += power;
      return;
    }
  f->id[f->n] = id;
  f->power[f->n++] = power;
}

static void collect(const gs_graph *g, gs_id id, factors *f) {
  const gs_node *n = node_at(g, id);
  gs_id of;
  bool room = f->n < MOST_FACTORS - 2 && ++f->met < 2 * MOST_FACTORS;
  const gs_node *a = n->nargs ? node_at(g, n->arg[0]) : NULL;
  bool square = n->op == GS_OP_MUL && n->arg[0] == n->arg[1] && a->op == GS_OP_MUL &&
                a->arg[0] != a->arg[1]; /* (x*y)^2 as it is computed */
  if (square && room) {
    add_power(f, n->arg[0], 2);
    return;
  }
  if (n->op == GS_OP_MUL && !mean_of(g, n, &of) && room) {
    collect(g, n->arg[0], f);
    collect(g, n->arg[1], f);
    return;
  }
  add_power(f, id, 1);
}

/* Numbers first, then names, then what is longer; else in the order of the graph. */
static int place(const gs_graph *g, gs_id id) {
  gs_op op = node_at(g, id)->op;
  return op == GS_OP_CONST ? 0 : op == GS_OP_INPUT || op == GS_OP_SCALAR ? 1 : 2;
}

static void product(gs_text *t, const gs_graph *g, gs_id id) {
  factors f = {.n = 0};
  const char *sep = "";
  collect(g, id, &f);
  for (int now = 0; now < 3; now++)
    for (int i = 0; i < f.n; i++) {
      if (place(g, f.id[i]) != now) continue;
      gs_text_add(t, sep);
      expr(t, g, f.id[i], f.power[i] > 1 ? BIND_POWER + 1 : BIND_MUL);
      if (f.power[i] > 1) gs_text_printf(t, "^%d", f.power[i]);
      sep = "*";
    }
}

static void sum_of_two(gs_text *t, const gs_graph *g, const gs_node *n) {
  const gs_node *b = node_at(g, n->arg[1]);
  if (b->op == GS_OP_CONST && b->value < 0) {
    expr(t, g, n->arg[0], BIND_ADD);
    gs_text_add(t, " - ");
    add_number(t, -b->value, true);
  } else {
    infix(t, g, n, " + ", BIND_ADD);
  }
}

static void call(gs_text *t, const gs_graph *g, const gs_node *n, const char *name) {
  gs_text_printf(t, "%s(%s", name, n->op == GS_OP_JOIN ? "{" : "");
  for (int k = 0; k < n->nargs; k++) {
    if (k) gs_text_add(t, ", ");
    expr(t, g, n->arg[k], 0);
    if (n->op == GS_OP_AT && k == 0) gs_text_printf(t, ", %s", dim_name(g, n->dim[0]));
  }
  if (n->op == GS_OP_JOIN) gs_text_printf(t, "}, %s", dim_name(g, n->dim[0]));
  if (n->op == GS_OP_ROUND || n->op == GS_OP_ROUND_RAND)
    gs_text_printf(t, ", %s", gs_type_name(n->to));
  int ndims = n->op == GS_OP_JOIN || n->op == GS_OP_AT ? 0 : row_of(n->op)->ndims;
  for (int k = 0; k < ndims; k++)
    gs_text_printf(t, "%s%s", n->nargs || k ? ", " : "", dim_name(g, n->dim[k]));
  if (n->op == GS_OP_SLICE) gs_text_printf(t, ", %" PRId64, n->index);
  bool table = n->op == GS_OP_BUCKET || n->op == GS_OP_LOOKUP;
  if (table) gs_text_printf(t, ", table %" PRId64, n->index);
  if (n->rdims) {
    gs_text_add(t, ", ");
    add_dim_list(t, g, n->rdims);
  }
  gs_text_add(t, ")");
  if (n->op == GS_OP_FOLD) gs_text_printf(t, "[%d]", n->dim[0]);
}

static void leaf(gs_text *t, const gs_graph *g, const gs_node *n) {
  if (n->op == GS_OP_STATE || n->op == GS_OP_ELEMENT) {
    gs_text_printf(t, "%s%" PRId64, n->op == GS_OP_STATE ? "s" : "e", n->index);
    return;
  }
  if (n->op == GS_OP_CONST) {
    add_number(t, n->value, true);
    return;
  }
  const gs_tensor *x = &g->tensors[n->index];
  gs_text_printf(t, "%s%s", x->role == GS_ROLE_SAVED ? "s." : "", x->name);
}

static const char *compare_sign(gs_op op) {
  static const char *const signs[] = {" < ", " <= ", " > ", " >= ", " == ", " != "};
  return signs[op - GS_OP_LT];
}

static int binding_of(const gs_graph *g, const gs_node *n) {
  gs_id of;
  switch (n->op) {
  case GS_OP_OR: return BIND_OR;
  case GS_OP_AND: return BIND_AND;
  case GS_OP_LT:
  case GS_OP_LE:
  case GS_OP_GT:
  case GS_OP_GE:
  case GS_OP_EQ:
  case GS_OP_NE: return BIND_COMPARE;
  case GS_OP_ADD:
  case GS_OP_SUB: return BIND_ADD;
  case GS_OP_MUL:
  case GS_OP_DIV:
    if (mean_of(g, n, &of)) return BIND_ATOM;
    return n->op == GS_OP_MUL && n->arg[0] == n->arg[1] ? BIND_POWER : BIND_MUL;
  case GS_OP_NEG: return BIND_NEG;
  case GS_OP_POW: return BIND_POWER;
  case GS_OP_CONST: return n->value < 0 ? BIND_NEG : BIND_ATOM;
  default: return BIND_ATOM;
  }
}

static void power(gs_text *t, const gs_graph *g, const gs_node *n) {
  expr(t, g, n->arg[0], BIND_POWER + 1);
  gs_text_add(t, "^");
  expr(t, g, n->arg[1], BIND_POWER + 1);
}

static void body(gs_text *t, const gs_graph *g, gs_id id) {
  const gs_node *n = node_at(g, id);
  gs_id of = 0;
  gs_dims mean = mean_of(g, n, &of);
  if (mean) {
    gs_text_add(t, "mean(");
    expr(t, g, of, 0);
    gs_text_add(t, ", ");
    add_dim_list(t, g, mean);
    gs_text_add(t, ")");
    return;
  }
  switch (n->op) {
  case GS_OP_CONST:
  case GS_OP_INPUT:
  case GS_OP_STATE:
  case GS_OP_ELEMENT:
  case GS_OP_SCALAR: leaf(t, g, n); break;
  case GS_OP_NEG:
    gs_text_add(t, "-");
    expr(t, g, n->arg[0], BIND_MUL);
    break;
  case GS_OP_ADD: sum_of_two(t, g, n); break;
  case GS_OP_SUB: infix(t, g, n, " - ", BIND_ADD); break;
  case GS_OP_MUL: product(t, g, id); break;
  case GS_OP_DIV: infix(t, g, n, "/", BIND_MUL); break;
  case GS_OP_POW: power(t, g, n); break;
  case GS_OP_LT:
  case GS_OP_LE:
  case GS_OP_GT:
  case GS_OP_GE:
  case GS_OP_EQ:
  case GS_OP_NE: infix(t, g, n, compare_sign(n->op), BIND_COMPARE); break;
  case GS_OP_AND: infix(t, g, n, " and ", BIND_AND); break;
  case GS_OP_OR: infix(t, g, n, " or ", BIND_OR); break;
  case GS_OP_NOT: call(t, g, n, "not"); break;
  case GS_OP_RMAX: call(t, g, n, "max"); break;
  case GS_OP_RMIN: call(t, g, n, "min"); break;
  case GS_OP_PICK:
    expr(t, g, n->arg[0], BIND_ATOM);
    gs_text_printf(t, "[%s=%" PRId64 "]", dim_name(g, n->dim[0]), n->index);
    break;
  default: call(t, g, n, row_of(n->op)->info.name); break;
  }
}

static void expr(gs_text *t, const gs_graph *g, gs_id id, int bind) {
  const gs_node *n = node_at(g, id);
  if (t->len > LONGEST) {
    gs_text_add(t, "...");
    return;
  }
  if (n->op == GS_OP_REAL) {
    expr(t, g, n->arg[0], bind);
    return;
  }
  bool paren = binding_of(g, n) < bind;
  if (paren) gs_text_add(t, "(");
  body(t, g, id);
  if (paren) gs_text_add(t, ")");
}

void gs_print_expr(const gs_graph *g, gs_id root, gs_text *out) {
  gs_text one = {0};
  expr(&one, g, root, 0);
  if (one.s) gs_text_add(out, one.s);
  gs_text_free(&one);
}
