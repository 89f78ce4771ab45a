/* ops.h: the row of an operation. The public part (name, arity, text, cost, ulps) is gs_op_info;
 * beside it stand the rule for types, the float64 value, the propagated error and the derivative,
 * so that adding an operation is adding one row of ops.c. */
#ifndef GS_GRAPH_OPS_H
#define GS_GRAPH_OPS_H

#include "graph/internal.h"

typedef enum op_kind {
  KIND_LEAF,
  KIND_MAP,    /* element by element; value and error are given */
  KIND_REDUCE, /* over rdims */
  KIND_VIEW,   /* the index changes; exact */
  KIND_GATHER,
} op_kind;

typedef enum type_rule {
  RULE_OWN,     /* leaves and gathers: types.c knows */
  RULE_REAL,    /* arguments are made real; real */
  RULE_NUMBER,  /* integers stay integers, anything else is made real */
  RULE_COMPARE, /* as NUMBER; gives a truth value */
  RULE_LOGIC,   /* truth values */
  RULE_INTEGER, /* integers; an integer */
  RULE_COUNT,   /* arguments are made real; an integer */
  RULE_PLACE,   /* integers; real */
  RULE_SELECT,  /* WHERE: a truth value, then as NUMBER or two truth values */
  RULE_SAME,    /* that of the argument */
} type_rule;

typedef struct op_row {
  gs_op_info info;
  op_kind kind;
  type_rule rule;
  bool commutes;
  int ndims;                        /* how many of dim[] it uses */
  double (*value)(const double *x); /* map_value, for those that need no more */
  /* Bound on |value(x') - value(x)| over |x'[k] - x[k]| <= e[k], not all e zero; y is value(x).
   * Without the operation's own rounding. NULL: the value is exact whatever e (no such row has
   * uncertain arguments). */
  double (*error)(const double *x, const double *e, double y);
  /* dy times the derivative by argument k at node y; 0 when there is none. The result may be
   * broadcast along dims of y. NULL: no gradient passes. */
  gs_id (*derive)(gs_graph *g, gs_id y, int k, gs_id dy);
} op_row;

const op_row *row_of(gs_op op);

/* The float64 value of a KIND_MAP node, and the row's error, also of those that read a table. */
double map_value(const gs_graph *g, const gs_node *n, const double *x);
double map_error(const gs_graph *g, const gs_node *n, const double *x, const double *e, double y);

/* The dim that the gradient of an AT sums by key (its index alone depends on it), or -1. */
int key_dim(const gs_graph *g, const gs_node *at);

#endif
