/* algebra.h: products and sums in flat form, for simplify.c. All rules hold in the reals. */
#ifndef GS_GRAPH_ALGEBRA_H
#define GS_GRAPH_ALGEBRA_H

#include "graph/internal.h"

/* Each takes a node of the op it is named after; returns a simpler equal node, or 0. */
gs_id rewrite_product(gs_graph *g, gs_id id);   /* MUL, DIV */
gs_id rewrite_sum(gs_graph *g, gs_id id);       /* ADD, SUB */
gs_id rewrite_reduction(gs_graph *g, gs_id id); /* SUM, RMAX, RMIN, LOGSUMEXP */

#endif
