/* record.h: the graph of one step: variables, the calls a model script made, and the actions that
 * they became.
 *
 * The forward is recorded call by call (gs_record_layer, gs_record_linear), and ends with the head,
 * which makes loss and first gradient in one (gs_record_head); backward.c walks the
 * calls in reverse and appends the actions of each layer's own closed form; plan.c then gives every
 * variable its place in one arena. A variable is named by its index here. */
#ifndef GS_RECORD_H
#define GS_RECORD_H

#include "step/library.h"
#include "step/params.h"

typedef enum gs_var_kind {
  GS_VAR_VALUE, /* an activation, gradient or temporary: memory of the arena */
  GS_VAR_FIXED, /* memory of its own: weights, trained parameters, batch, step scalars, results */
} gs_var_kind;

typedef struct gs_var {
  const char *name;
  gs_var_kind kind;
  gs_type type;
  int ndims;
  int64_t shape[GS_MAX_RANK];
  int64_t stride;  /* elements between steps of the first dim; 0: packed */
  size_t offset;   /* of a view: bytes from the beginning of its base */
  int base;        /* the variable whose memory this is a view of; itself when it is none */
  bool needs_grad; /* of a base: a trained parameter reaches it */
  bool
      from_linear; /* of a base: a matrix product made it, so its gradient enters matrix products */
  bool narrow;     /* of a base: matrix units of a layer or of the head read or make its gradient,
                      which so has the type of the step, whoever adds to it */
  bool keep;       /* read by the host after the step: its memory is not used again */
  gs_ptr ptr;      /* FIXED: where it lies. VALUE: filled in when the plan is placed */
  /* kept by backward.c, of a base */
  int uses;  /* contributions that its gradient is the sum of */
  int taken; /* of these, made so far */
  int grad;  /* where the gradient is being summed; -1 */
} gs_var;

typedef enum gs_act_kind { GS_ACT_LAUNCH, GS_ACT_GEMM, GS_ACT_COPY, GS_ACT_ZERO } gs_act_kind;

/* What one action does to a variable. */
typedef struct gs_use {
  int var;
  bool is_read, is_written;
  int inplace; /* index of the use whose memory this result shares, or -1 */
} gs_use;

typedef struct gs_act {
  gs_act_kind kind;
  const char *what; /* for messages and listings */
  int nuses;
  gs_use *uses; /* LAUNCH: one for each binding (var -1: a number), then the temporaries.
                   GEMM: a, b, c. COPY: to, from. ZERO: to */
  const gs_routine *routine;
  int had; /* LAUNCH: so many kernels of the list were launched by an earlier action that has the
              same temporaries */
  float *values;  /* LAUNCH: numbers by binding */
  int64_t *sizes; /* LAUNCH: of each dim of the launch list's graph */
  gs_gemm gemm;   /* GEMM: everything but the pointers */
} gs_act;

/* A call of the forward, as backward.c needs it. */
typedef struct gs_call {
  const char *what; /* "rmsnorm" or "model.layers.0.mlp.up_proj" */
  bool is_linear;
  bool needs_grad;
  /* a layer */
  const char *layer;
  const gs_layer_decl *decl;
  const gs_instance *instance;
  gs_choice choice;
  int *param;     /* variable of each parameter, -1 for numbers */
  float *number;  /* of each parameter that is a number */
  int *result;    /* variable of each of instance->forward */
  int64_t *sizes; /* of each dim of the declaration */
  /* a linear */
  int x, y, weight;          /* variables, x as [T, in] */
  const gs_adapter *adapter; /* NULL: none */
  int a, copy_a, copy_b;     /* x·Aᵀ, and the working copies of A and B */
} gs_call;

typedef enum gs_step_mode {
  GS_STEP_TRAIN,    /* forward, loss, backward, clipping, optimizer */
  GS_STEP_GRADIENT, /* forward, loss, backward, norm: the parameters stay as they are */
  GS_STEP_EVAL,     /* forward and loss */
  GS_STEP_INFER,    /* forward, logits of the last token only */
  GS_STEP_SURVEY,   /* shapes only: no kernel is made */
} gs_step_mode;

/* What the head of the model left: gs_record_head. */
typedef struct gs_head_vars {
  bool is_there;
  int logits; /* [T, V], before scale and softcap; -1: not kept */
  int loss;   /* [] f32; -1 in INFER and SURVEY */
  double scale, softcap;
} gs_head_vars;

typedef struct gs_record {
  gs_arena *arena;
  gs_library *library;
  gs_params *params;
  gs_step_mode mode;
  gs_type dtype; /* of activations */
  int64_t tokens;
  int64_t chunk;    /* tokens whose logits are formed at a time; 0: by their size */
  bool keep_logits; /* all of them, in memory of their own, to be read after the step */
  gs_head_vars head;
  int nvars, cap_vars;
  gs_var *vars;
  int ncalls, cap_calls;
  gs_call *calls;
  int nacts, cap_acts;
  gs_act *acts;
} gs_record;

gs_record *gs_record_new(gs_library *l, gs_params *p, gs_step_mode mode, gs_type dtype,
                         int64_t tokens);
void gs_record_free(gs_record *r);

/* ---- variables ---- */
int gs_record_var(gs_record *r, const char *name, gs_type type, int ndims, const int64_t *shape);
int gs_record_fixed(gs_record *r, const char *name, gs_type type, int ndims, const int64_t *shape,
                    gs_ptr ptr);
/* The same memory under another shape of as many elements. */
int gs_record_view(gs_record *r, int var, int ndims, const int64_t *shape);
/* Rows from, from + 1, ... of a variable, n of them. */
int gs_record_rows(gs_record *r, int var, int64_t from, int64_t n);
/* The same of columns, of a matrix; only matrix products take such a view. */
int gs_record_columns(gs_record *r, int var, int64_t from, int64_t n);
int64_t gs_var_count(const gs_var *v);  /* elements */
int64_t gs_var_stride(const gs_var *v); /* elements between steps of the first dim */
size_t gs_var_bytes(const gs_var *v);
gs_var *gs_record_base(gs_record *r, int var);
/* "[37, 24] f32" into out. */
const char *gs_var_text(const gs_var *v, char *out, size_t cap);

/* ---- the forward ---- */
/* One argument of a layer by name: a variable (var >= 0) or a number. */
typedef struct gs_named {
  const char *name;
  int var;
  double number;
} gs_named;

/* Calls a layer. Its outputs are the first *nout of call->result, in the order of the instance. */
gs_status gs_record_layer(gs_record *r, const char *layer, const gs_named *args, int nargs,
                          const gs_named *options, int noptions, gs_call **out, gs_error *err);
/* A layer with one output, which goes to the variable `result`. */
typedef struct gs_terminal {
  const char *layer;
  const gs_named *args, *options;
  int nargs, noptions;
  int result;
  int input;    /* the variable whose gradient is made in the same pass; -1: none */
  int upstream; /* then: the step scalar that is the upstream of the output */
} gs_terminal;
/* Calls it. The gradient has the type of the input and may take its memory. */
gs_status gs_record_terminal(gs_record *r, const gs_terminal *t, int *grad, gs_error *err);
/* Says the storage type of one more tensor in a choice. */
void gs_choice_add(gs_arena *a, gs_choice *c, const char *name, gs_type type);
/* y[T, out] = x[T, in]·Wᵀ, plus the adapter of that module when there is one. */
gs_status gs_record_linear(gs_record *r, const char *module, int x, int weight, int *y,
                           gs_error *err);

/* The working copy of an adapter's A or B, or its gradient in the flat buffer. */
int gs_record_adapter(gs_record *r, const gs_adapter *a, bool is_b, bool is_grad);

/* ---- head.c ---- */
/* The end of a language model: a linear and the mean of its cross entropy, as one block. */
typedef struct gs_head {
  const char *module;
  int x, weight;           /* [T, H], [V, H] */
  int label;               /* [T] i32 */
  int last;                /* [1] i32, INFER: the row whose logits are wanted */
  int upstream;            /* step scalar: what each token's loss counts, 1 / (number of labels) */
  const gs_named *options; /* of layer cross_entropy: scale, softcap, smoothing, z_loss */
  int noptions;
} gs_head;
/* Fills in r->head. Logits exist for r->chunk tokens at a time, unless r->keep_logits. Where a
 * gradient is wanted it is made in the same pass: of x, of the adapter of that module, and of the
 * weight (f32) when it needs one; gs_record_backward goes on from there. */
gs_status gs_record_head(gs_record *r, const gs_head *h, gs_error *err);
/* How many tokens' logits [., V] are formed at a time. */
int64_t gs_head_chunk(int64_t tokens, int64_t V, gs_type type);

/* ---- actions ---- */
gs_act *gs_record_act(gs_record *r, gs_act_kind kind, const char *what, int nuses);
/* C = alpha·op(A)·op(B) (+ C when add). Variables are taken as matrices [rows, the rest]. */
void gs_record_gemm(gs_record *r, const char *what, int a, bool ta, int b, bool tb, int c,
                    double alpha, bool add);
void gs_record_zero(gs_record *r, const char *what, int var);
/* Binds a routine's names through `find` and appends its launch. sizes: of the declaration's dims.
 * Results bound to a variable that is already written are added to it when their pass says so. */
typedef int (*gs_find_var)(void *context, const gs_binding *b, double *number);
gs_status gs_record_launch(gs_record *r, const char *what, gs_routine *routine,
                           const int64_t *sizes, int ndims, gs_find_var find, void *context,
                           gs_error *err);

/* ---- backward.c ---- */
/* Where the next contribution to var's gradient goes, in var's shape; *add: it is not the first. */
int gs_record_grad(gs_record *r, int var, bool *add);
/* x in another type, for a matrix product; nobody asks for its gradient. */
gs_status gs_record_cast(gs_record *r, int x, gs_type type, int *out, gs_error *err);
/* Appends the backward from where gs_record_head started it, down to the adapters' gradients. */
gs_status gs_record_backward(gs_record *r, gs_error *err);

#endif
