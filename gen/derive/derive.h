/* derive.h: a backward made from the forward alone: the adjoint, made short, and printed as Lua.
 *
 * Knows graphs, not layers. What "short" means is one number, gs_derive_cost: the flops, and for
 * each element of a tensor read or saved what moving it costs beside arithmetic. */
#ifndef GS_DERIVE_H
#define GS_DERIVE_H

#include "graph/graph.h"

/* Flops that a GPU does while it moves one element: tens of Tflop/s against a few TB/s. */
#define GS_DERIVE_READ 32

/* A value that the backward may read from memory instead of computing it. */
typedef struct gs_derive_leaf {
  gs_id leaf, expr;  /* the INPUT node, and the forward's expression that it stands for */
  bool must_be_kept; /* reading it means that the forward saves it: it is paid for twice more */
  bool used;         /* result: the backward reads it */
  bool solved;       /* of y = a/b it reads y and makes a = y*b of it too */
} gs_derive_leaf;

#define GS_DERIVE_MOST_LEAVES 48

typedef struct gs_derive_job {
  gs_graph *g;
  int ny, nx, nleaves;
  const gs_id *y, *dy; /* outputs and their incoming gradients; a dy of 0: none comes in */
  const gs_id *x;      /* INPUT nodes */
  gs_derive_leaf leaves[GS_DERIVE_MOST_LEAVES];
  /* What may be saved beyond the leaves: values over these dims (at most one of them outer) that
   * cost a reduction and are far smaller than what they are made of. 0: nothing. Each that is
   * used becomes a leaf, a new tensor of role SAVED, named after what it is. */
  gs_dims may_save, outer;
  const char *const *taken; /* names that a new saved value must not have, beside the tensors' */
  int ntaken;
  int made_from; /* tensors from this number on are made by the search; the callee fills it */
} gs_derive_job;

/* Fills d[j], the gradient of x[j] (0 where nothing flows), and what of the leaves is used; adds
 * those that it makes. Rounding to f32, bf16 and f16 is passed over, as in the adjoint; rounding to
 * coarser types is part of the mathematics and stays. */
gs_status gs_derive(gs_derive_job *job, gs_id *d, gs_error *err);

/* The same where nothing but outputs may be read: stored[i] is the leaf of output i, or 0. */
gs_status gs_derive_backward(gs_graph *g, const gs_id *y, const gs_id *dy, const gs_id *stored,
                             int ny, const gs_id *x, int nx, gs_id *d, gs_error *err);

/* Flops and reads of simplified roots, an outer dim taken as 1024. */
typedef struct gs_derive_count {
  double flops;
  double elements; /* read of tensors */
  double passes; /* read for a sum over an outer dim, or by key, that other values wait for: such a
                    sum is a pass over memory of its own */
  int tensors;   /* read, scalars not counted */
} gs_derive_count;
gs_derive_count gs_derive_cost(const gs_graph *g, const gs_id *roots, int n);
double gs_derive_points(const gs_graph *g, gs_dims dims); /* an outer dim is taken as 1024 */

/* ---- printing (print.c) ---- */

typedef struct gs_derive_print {
  const gs_graph *g;
  gs_dims declared;        /* dims that the layer declares */
  gs_dims free;            /* of free size: a number that depends on it is written with gs.size */
  const char *const *site; /* names of random sites that the file mentions */
  int nsites;
  const char *indent; /* of the statements */
  gs_type generic;    /* roundings to it are written as the type of that parameter, or 0 */
  const char *generic_name;
} gs_derive_print;

typedef struct gs_derive_result {
  const char *name;
  gs_id id;
  bool is_saved;    /* goes into save = { ... } */
  const char *type; /* of a saved value that is not f32, or NULL */
} gs_derive_result;

/* Locals for what is used twice, then "return { x = ..., w = ... }", each line indented. An
 * operation that the language cannot say here is an error that names it. */
gs_status gs_derive_print_body(const gs_derive_print *p, const gs_derive_result *r, int n,
                               gs_text *out, gs_error *err);
/* One value as one expression. */
gs_status gs_derive_print_value(const gs_derive_print *p, gs_id id, gs_text *out, gs_error *err);
/* A number in the fewest digits that read back to it. */
void gs_derive_number(gs_text *t, double v);

#endif
