/* layer.h: a layer file run in Lua, for one choice of options, inner sizes and types.
 *
 * gs_author owns a sandboxed Lua state (no os, io, debug, load; bounded memory and instructions)
 * with the authoring library lua/gradsmith. gs_layer_open runs a layer file and keeps its
 * declaration; gs_layer_instantiate calls its forward and backward on symbols and keeps the graph
 * of both. */
#ifndef GS_LAYER_H
#define GS_LAYER_H

#include "graph/graph.h"

typedef struct gs_author gs_author;
typedef struct gs_layer gs_layer;       /* a declaration; lives as long as its gs_author */
typedef struct gs_instance gs_instance; /* one specialisation */

/* Not thread-safe: one author a thread. Its layers go with it; instances have their own memory, but
 * point to their layer. */
gs_status gs_author_new(gs_author **out, gs_error *err);
void gs_author_free(gs_author *a);

/* name: a shipped layer ("rmsnorm") or a path to a Lua file (contains '/' or ends in ".lua").
 * Errors: every mistake of the file in one message, one line each: "FILE:LINE: error: ...". */
gs_status gs_layer_open(gs_author *a, const char *name, gs_layer **out, gs_error *err);

/* Which values of a parameter a check draws, as the author says: from [low, high), now and then one
 * of `also`. */
#define GS_MAX_ALSO 8
typedef struct gs_drawn {
  bool has_low, has_high;
  double low, high;
  int low_dim, high_dim; /* the size of that dim of the declaration instead, or -1 */
  int nalso;
  double also[GS_MAX_ALSO];
  bool ascending;  /* sorted in storage order */
  int offsets_dim; /* where pieces of that dim begin, from 0 on, and where the last ends; or -1 */
} gs_drawn;

/* What the declaration says, before any instantiation. */
typedef struct gs_layer_decl {
  const char *name, *file, *doc;
  int ndims;
  const char *const *dims; /* names in declaration order */
  const bool *dim_outer;   /* true: its size is a launch argument. The first dim of a layer is
                              outer, unless the layer says `outer = {...}` */
  int nparams;             /* inputs, weights, scalars, step_scalars, in the order written */
  const gs_tensor *params; /* .dim[] index `dims` above; .type NONE when generic */
  int noptions;
  const char *const *options;
  const double *option_defaults;
  const int *option_nvalues; /* how many values an option may have; 0: any number */
  const double *const *option_values;
  const int *option_ntries; /* how many values a check draws from; 0: only the default */
  const double *const *option_tries;
  const char *const *dim_size; /* for each dim: the expression that gives its size ("D/2", "64"),
                                  or NULL where the caller chooses it; of an outer dim
                                  "ceil(N/64)" of another outer one, or its name */
  const bool *differentiable;  /* for each param: backward must give its gradient */
  const gs_drawn *drawn;       /* for each param */
  const bool *optional;        /* for each param: an option may leave it unread */
  bool is_kernel;              /* gs.kernel: no backward */
  bool is_derived;             /* backward = gs.derived */
  const char *body;            /* "attention", "cuda", or NULL */
  const char *cuda;            /* gs.cuda: the author's own kernels, or NULL */
  int cuda_line;               /* in the file: of the first line of that text */
} gs_layer_decl;
const gs_layer_decl *gs_layer_declaration(const gs_layer *l);

typedef struct gs_choice gs_choice;

/* Fills the sizes of derived dims from those of the others, and from options, as c chooses them (c
 * may be NULL: their defaults; only its options count). An outer dim that the caller chooses
 * stays as it is; one derived from an outer dim of unknown size (< 0) is unknown too. An inner size
 * that is missing (< 1) or does not divide is an error that names the dim. */
gs_status gs_layer_sizes(const gs_layer *l, const gs_choice *c, int64_t *sizes, gs_error *err);

struct gs_choice {
  gs_type dtype;        /* what generic tensors are stored as: GS_F32, GS_BF16, GS_F16 */
  const int64_t *sizes; /* for each dim of the declaration; ignored for outer and derived */
  int ntypes;           /* storage types of single tensors, by name ("x", "dy", "dx") */
  const char *const *type_names;
  const gs_type *types;
  int noptions;
  const char *const *option_names;
  const double *option_values;
};

/* One result of a pass. */
typedef struct gs_result {
  const char *name; /* output "y", saved "rstd", gradient "dx" */
  gs_id expr;
  gs_type type; /* storage type */
  int ndims;
  int dim[GS_MAX_RANK]; /* storage order, dims of the graph */
  bool is_saved;        /* forward: only the backward wants it */
  bool add;             /* added to what is there instead of written (f32 only) */
  const char *inplace;  /* may share memory with this tensor of the pass, or NULL */
  const char *same;     /* written once, with this earlier result, whose value it is; or NULL */
} gs_result;

/* A closed form that the layer gives its template besides forward and backward, over leaves of its
 * own: tensors without dims named "@s", which nobody binds. */
enum { GS_MAX_PROGRAMS = 8 };
typedef struct gs_program {
  const char *name; /* "score" */
  gs_id expr;
} gs_program;

struct gs_instance {
  const gs_layer *layer;
  gs_arena *arena;
  gs_graph *g; /* dims 0..ndims-1 are the declaration's */
  gs_type dtype;
  int nforward, nbackward;
  gs_result *forward;  /* outputs in order, then saved values */
  gs_result *backward; /* gradients "dNAME", one for each differentiable input the author gave.
                          Their leaves: inputs, saved, outputs, upstream "dNAME" tensors */
  int nrecomputed;
  gs_result *recomputed; /* outputs that backward can make again, by the name of the output */
  gs_id *saved_expr;     /* for each tensor of g with role SAVED or OUTPUT: the forward expression
                            that it stands for (indexed by tensor; 0 for others) */
  const char *body; /* "attention": the kernels come from templates/attention_*.cu; "cuda"; NULL:
                       the scheduler makes them */
  int nprograms;    /* above 0: matrix units read and make its gradients, in the layer's own type */
  gs_program *programs;
  const char *cuda; /* gs.cuda: the kernels are the author's own text; NULL for others */
  int cuda_line;
  const double *options; /* as chosen, for each of the declaration */
  bool is_kernel;        /* gs.kernel: no backward */
};

gs_status gs_layer_instantiate(gs_layer *l, const gs_choice *c, gs_instance **out, gs_error *err);
void gs_instance_free(gs_instance *i);

/* A pass: what one launch list computes. */
typedef enum gs_pass_kind {
  GS_PASS_FORWARD,  /* outputs and saved values */
  GS_PASS_INFER,    /* outputs only */
  GS_PASS_BACKWARD, /* the wanted gradients, from saved values */
  GS_PASS_TERMINAL, /* outputs and wanted gradients in one go: saved values are substituted by their
                       expressions and upstreams are step scalars (named "dNAME") */
} gs_pass_kind;

typedef struct gs_pass {
  gs_pass_kind kind;
  const gs_instance *instance;
  gs_graph *g;
  int nresults;
  gs_result *results;
  int nleaves;
  int *leaves;     /* tensors of g that the results read, ascending */
  const char *key; /* "rmsnorm.backward bf16 H=4096 ...": printable, identifies the pass */
} gs_pass;

/* wanted: names of gradients ("dx"), and of recomputed outputs ("y"), which come in a BACKWARD pass
 * only; NULL means all gradients; "dr=dx": dr, which lies in the memory of dx. add: names of
 * results to be added to memory. Simplified and verified. Lives in the instance's arena. A TERMINAL
 * pass may leave saved values out, since nobody reads them. */
gs_status gs_layer_pass(gs_instance *i, gs_pass_kind kind, const char *const *wanted, int nwanted,
                        const char *const *add, int nadd, gs_pass **out, gs_error *err);

#endif
