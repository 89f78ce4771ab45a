/* print.h: what the printer's files share. Promises nothing to anyone else. */
#ifndef GS_DERIVE_PRINT_H
#define GS_DERIVE_PRINT_H

#include "derive/internal.h"

enum { MOST_TABLES = 8 };

typedef struct printer {
  const gs_derive_print *opt;
  const gs_graph *g;
  gs_arena *a;
  gs_error *err;
  gs_status st; /* the first failure */
  gs_id count;  /* nodes */
  char *reached;
  int *uses;          /* by how many nodes and results */
  const char **local; /* of each node: the name it has, once its statement is written */
  char *wants_local;
  char *is_pair;        /* SPLIT: two halves or pairs, each with a name */
  const char **half[2]; /* of such a SPLIT */
  const char *names[512];
  int nnames;
  int table[MOST_TABLES];
  int ntables;
} printer;

/* number.c */
typedef struct factor_of_sizes { /* c * size(up) / size(down[0]) / size(down[1]); -1: none */
  double c;
  int up, down[2];
} factor_of_sizes;
factor_of_sizes derive_recognise(const printer *p, double v);

/* expr.c */
void derive_expr(printer *p, gs_text *t, gs_id id, int bind);
void derive_failed(printer *p, const char *what);
const char *derive_dim_name(const printer *p, int d);

/* call.c: everything that is written as a call of a function */
void derive_call(printer *p, gs_text *t, const gs_node *n);

#endif
