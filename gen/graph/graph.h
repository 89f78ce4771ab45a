/* graph.h: the hash-consed expression graph, the one table of operations, and what reads it.
 *
 * A node is a value over a set of named dims; arithmetic broadcasts by name. Nodes are made only
 * through gs_apply and friends, which check dims and types, simplify locally and share equal nodes:
 * equal ids mean equal values, and arguments always have smaller ids than the node.
 *
 * Arithmetic values are reals (type GS_F32), integers (GS_I64) or truth values (GS_BOOL). Storage
 * types belong to tensors (below), and enter the arithmetic only through GS_OP_ROUND. */
#ifndef GS_GRAPH_H
#define GS_GRAPH_H

#include "base/arena.h"
#include "base/text.h"
#include "gradsmith.h"

#include <stdbool.h>

typedef int32_t gs_id;    /* a node; 0 is "no node" */
typedef uint64_t gs_dims; /* a set of dims: bit d is dim d */
typedef struct gs_graph gs_graph;

#define GS_MAX_DIMS 64
#define GS_MAX_ARGS 8

typedef struct gs_dim {
  const char *name;
  int64_t size; /* inner dim: a constant of the text; -1 for an outer dim: a launch argument */
  int same_as;  /* an outer dim whose size follows from this dim's (gs.rename, gs.split), else -1 */
  int64_t div;  /* with same_as: its size is ceil(size(same_as) / div); 1 for gs.rename */
} gs_dim;

typedef enum gs_op {
  GS_OP_NONE = 0,
  /* leaves */
  GS_OP_CONST,  /* value */
  GS_OP_INPUT,  /* index: tensor; the element of that tensor at the current point */
  GS_OP_SCALAR, /* index: tensor of role SCALAR or STEP_SCALAR (no dims) */
  GS_OP_INDEX,  /* dim[0]: the current index along that dim, an integer */
  GS_OP_SIZE,   /* dim[0]: the size of that dim, an integer; folded to CONST for inner dims */
  /* one argument */
  GS_OP_NEG,
  GS_OP_ABS,
  GS_OP_EXP,
  GS_OP_LOG,
  GS_OP_SQRT,
  GS_OP_RSQRT,
  GS_OP_TANH,
  GS_OP_SIGMOID,
  GS_OP_SIN,
  GS_OP_COS,
  GS_OP_ERF,
  GS_OP_LOG1P, /* log(1 + x) and exp(x) - 1, exact near 0 */
  GS_OP_EXPM1,
  GS_OP_SOFTPLUS, /* log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|)) */
  GS_OP_FLOOR,
  GS_OP_NOT,
  GS_OP_REAL,    /* integer or truth value to real (0 or 1) */
  GS_OP_ROUND,   /* to: rounded to that storage type; the identity for the adjoint and the oracle */
  GS_OP_STOP,    /* no gradient passes */
  GS_OP_INTEGER, /* real to integer, toward minus infinity; no gradient */
  GS_OP_BUCKET,  /* table; how many of its ascending values are below the argument: an integer */
  GS_OP_LOOKUP,  /* table; its element at an integer index from 0; no read outside: clamped */
  /* two arguments; LT..NE give truth values */
  GS_OP_ADD,
  GS_OP_SUB,
  GS_OP_MUL,
  GS_OP_DIV,
  GS_OP_POW,
  GS_OP_MIN,
  GS_OP_MAX,
  GS_OP_LT,
  GS_OP_LE,
  GS_OP_GT,
  GS_OP_GE,
  GS_OP_EQ,
  GS_OP_NE,
  GS_OP_AND,
  GS_OP_OR,
  GS_OP_QUOTIENT,   /* of integers, toward minus infinity; the divisor is above zero */
  GS_OP_REMAINDER,  /* of integers, in [0, divisor) */
  GS_OP_ROUND_RAND, /* to; of x and a random number r in [0, 1): the neighbour of x above it in that
                       type with the probability of its nearness, r deciding; for the adjoint and
                       the oracle the identity */
  /* three */
  GS_OP_WHERE, /* condition, then, else */
  GS_OP_RAND, /* integers: index, site, seed. A real in [0, 1) of 24 bits, the same on every machine
                 and for any schedule: gs_random_at of base/random.h */
  /* reductions over rdims (a set: all of them are removed) */
  GS_OP_SUM,
  GS_OP_RMAX,
  GS_OP_RMIN,
  GS_OP_LOGSUMEXP,
  GS_OP_FOLD,  /* args: elements; index: number of the fold; dim[0]: component of its state. A
                  reduction over inner dims by the author's own step and merge; no derivative */
  GS_OP_STATE, /* leaf of a fold's program: component `index` of the state (in merge: of the first)
                */
  GS_OP_ELEMENT, /* leaf of a fold's program: element `index`; in merge: component of the second */
  /* views: no arithmetic, the index changes */
  GS_OP_SPLIT,  /* dim[0] -> dim[1], dim[2]: i = i1*size(dim[2]) + i2; e.g. D -> {two=2, h}. Where
                   dim[0] is outer so is dim[1] (same_as dim[0], div size(dim[2])), and what lies
                   past  the end is 0 and not read */
  GS_OP_MERGE,  /* dim[1], dim[2] -> dim[0]: the inverse; past the end of an outer dim[0] nothing is
                   written */
  GS_OP_PICK,   /* dim[0] removed: its index is fixed to `index` */
  GS_OP_SLICE,  /* dim[0] -> dim[1]: i0 = i1 + index */
  GS_OP_RENAME, /* dim[0] -> dim[1], of the same size */
  GS_OP_JOIN,   /* nargs = size(dim[0]): value of argument number i where index(dim[0]) == i */
  /* gathers */
  GS_OP_AT,     /* args: e, i [, ok]: e at index i (integer) along dim[0], which is removed;
                   where ok is false nothing is read and the value is 0 */
  GS_OP_SUM_BY, /* args: e, key: result[dim[1]=v] = sum over dim[0], in order, of
                   (key == v ? e : 0) */
  GS_OP_COUNT
} gs_op;

typedef struct gs_node {
  gs_op op;
  gs_type type;  /* GS_F32, GS_I64 or GS_BOOL */
  gs_type to;    /* ROUND, ROUND_RAND */
  gs_dims dims;  /* the dims this value depends on */
  gs_dims rdims; /* reductions: the dims removed */
  gs_id arg[GS_MAX_ARGS];
  int nargs;
  int dim[3];    /* views, INDEX, SIZE, AT, SUM_BY */
  int64_t index; /* INPUT, SCALAR, PICK, SLICE; BUCKET, LOOKUP: table; FOLD: fold; STATE, ELEMENT */
  double value;  /* CONST */
  int line;      /* in the author's file; 0: made by the compiler. Not part of equality */
} gs_node;

typedef enum gs_role {
  GS_ROLE_INPUT,       /* gs.input */
  GS_ROLE_WEIGHT,      /* gs.weight: its gradient is f32 */
  GS_ROLE_SCALAR,      /* gs.scalar: a number fixed for the run; an f32 launch argument */
  GS_ROLE_STEP_SCALAR, /* gs.step_scalar: one f32 read from device memory */
  GS_ROLE_OUTPUT,      /* an output of the forward, when the backward reads it */
  GS_ROLE_SAVED,       /* saved by the forward */
  GS_ROLE_UPSTREAM,    /* d.NAME, tensor name "dNAME" */
} gs_role;

/* A tensor in memory: dims in storage order, the last contiguous, all but the first packed; the
 * stride of the first dim is a 64-bit launch argument. Only the first dim may be outer. */
typedef struct gs_tensor {
  const char *name;
  gs_role role;
  gs_type type;
  int ndims;
  int dim[GS_MAX_RANK];
  double value;        /* SCALAR: the default */
  bool is_generic;     /* the author gave no type: it follows the layer's dtype */
  bool is_nonnegative; /* the author says that no element is below zero (a second moment) */
} gs_tensor;

/* A table of constants of the text (codes, cuts), f32 when read. */
typedef struct gs_table {
  int count;
  const double *value;
} gs_table;

/* A reduction by the author's program: state' = step(state, element), state = merge(state, other).
 * The programs are scalar expressions without dims over STATE and ELEMENT leaves and constants. A
 * component is a real or an integer (that of init). The order of elements is the machine's, the
 * same in every run: merge must be associative and commutative but for rounding. */
#define GS_MAX_FOLD 4
typedef struct gs_fold {
  int nelements, nstate;
  gs_type type[GS_MAX_FOLD]; /* of each component: GS_F32 or GS_I64 */
  double init[GS_MAX_FOLD];
  gs_id step[GS_MAX_FOLD], merge[GS_MAX_FOLD];
} gs_fold;

/* ---- building ---- */
gs_graph *gs_graph_new(gs_arena *a);
int gs_graph_table(gs_graph *g, const double *value, int count); /* equal tables are one; index */
int gs_graph_ntables(const gs_graph *g);
const gs_table *gs_graph_table_at(const gs_graph *g, int t);
int gs_graph_fold(gs_graph *g, const gs_fold *f); /* equal folds are one; index */
const gs_fold *gs_graph_fold_at(const gs_graph *g, int f);
/* Adds an outer dim of size ceil(size(like)/div); index. */
int gs_graph_dim_blocks(gs_graph *g, const char *name, int like, int64_t div);
/* Fills the sizes of inner dims and of those that follow from others; the caller has filled in the
 * rest. */
void gs_graph_sizes(const gs_graph *g, int64_t *sizes);
int gs_graph_dim(gs_graph *g, const char *name, int64_t size); /* adds one; index */
/* Adds a dim of the same size as another (the target of gs.rename), outer or inner; index. */
int gs_graph_dim_like(gs_graph *g, const char *name, int like);
/* The dim whose size this one has: follows same_as. Sizes of outer dims are looked up there. */
int gs_graph_dim_root(const gs_graph *g, int d);
int gs_graph_find_dim(const gs_graph *g, const char *name); /* -1 when unknown */
const gs_dim *gs_graph_dim_at(const gs_graph *g, int d);
int gs_graph_ndims(const gs_graph *g);
int gs_graph_tensor(gs_graph *g, const gs_tensor *t); /* adds one; index */
const gs_tensor *gs_graph_tensor_at(const gs_graph *g, int t);
int gs_graph_ntensors(const gs_graph *g);
const gs_node *gs_graph_node(const gs_graph *g, gs_id id); /* nodes do not move */
gs_id gs_graph_size(const gs_graph *g);                    /* ids are 1 .. size-1 */

gs_id gs_const(gs_graph *g, double v);
gs_id gs_input(gs_graph *g, int tensor); /* INPUT or SCALAR by its role */
/* The general constructor: fill op, args, attributes and line of *n; type and dims are computed.
 * Mixed arithmetic promotes integers and truth values to reals (REAL is inserted); an integral
 * constant beside an integer is an integer. A view or reduction over a dim that the value does not
 * depend on treats it as broadcast along that dim (sum: times the size). Local simplification is
 * bit-exact in f32; what is only equal in the reals waits for gs_simplify.
 * On a mistake returns 0 and fills err with what is wrong and what would be legal, without file
 * and line (the caller knows the file). */
gs_id gs_apply(gs_graph *g, const gs_node *n, gs_error *err);
/* Shorthands for compiler-made nodes, which cannot be wrong: a failure is an internal error. */
gs_id gs_op1(gs_graph *g, gs_op op, gs_id a);
gs_id gs_op2(gs_graph *g, gs_op op, gs_id a, gs_id b);
gs_id gs_where(gs_graph *g, gs_id c, gs_id a, gs_id b);
gs_id gs_reduce(gs_graph *g, gs_op op, gs_id a, gs_dims rdims); /* rdims & dims(a) only */

/* ---- the table of operations: one row, from which everything about an operation follows ---- */
typedef struct gs_op_info {
  const char *name;   /* as in --dump and in Lua (gs.NAME) */
  int arity;          /* -1: varies */
  const char *c_text; /* emitted CUDA with $0 $1 $2 for arguments, e.g. "gs_exp($0)", and $t for the
                         name of the type `to` of ROUND; NULL for leaves, reductions, views and
                         gathers, which the emitter handles */
  int cost;           /* flops, for the cost table; transcendental = 8 */
  double ulps;        /* error of the emitted f32 operation in units of 2^-24 relative */
} gs_op_info;
const gs_op_info *gs_op_row(gs_op op);

/* ---- passes ---- */
/* Rebuilds roots[0..n) with every rule of simplify.c applied bottom-up until nothing changes;
 * roots are replaced. Keeps: values (as reals), dims (a value may come to depend on fewer), STOP,
 * ROUND. Not kept: bits in f32. */
void gs_simplify(gs_graph *g, gs_id *roots, int n);
/* For outputs y[i] with upstream dy[i] (the same dims, or more: the output is constant along
 * these) gives d[j] = sum_i dy[i]·∂y[i]/∂x[j], summed
 * down to the dims of x[j] (an INPUT node). Not simplified. */
gs_status gs_adjoint(gs_graph *g, const gs_id *y, const gs_id *dy, int ny, const gs_id *x, int nx,
                     gs_id *d, gs_error *err);
/* Replaces from[i] by to[i] in roots (capture-free, by value); to[i] has no dims that from[i]
 * lacks. What is put in is not simplified again beyond gs_apply's rules. */
void gs_substitute(gs_graph *g, const gs_id *from, const gs_id *to, int n, gs_id *roots,
                   int nroots);
/* Holds a graph against its own rules; an error names the node. Run between passes. */
gs_status gs_verify(const gs_graph *g, const gs_id *roots, int n, gs_error *err);
/* One line a node, arguments first: "%7 [T] = rsqrt %6 : f32". */
void gs_dump(const gs_graph *g, const gs_id *roots, const char *const *names, int n, gs_text *out);
/* The expression as one line of mathematics for comments: "s.rstd*(g - x*rstd^2*mean(x*g, H))". */
void gs_print_expr(const gs_graph *g, gs_id root, gs_text *out);
/* Flops for all dims of size from sizes[d] (each shared node once). */
double gs_flops(const gs_graph *g, const gs_id *roots, int n, const int64_t *sizes);

/* ---- float64 evaluation with an error bound ---- */
/* An array over dims in ascending dim number (first slowest): shape from `sizes`. */
typedef struct gs_array {
  gs_dims dims;
  size_t count;
  double *v;   /* values: exact reals, ROUND is the identity */
  double *err; /* bound on |f32 kernel - v| for the emitted arithmetic: each operation contributes
                  ulps·2^-24·|v|, ROUND half an ulp of its type (subnormals included), reductions of
                  n terms (ceil(log2 n)+n/256+8)·2^-24·sum|terms|; first-order propagation plus the
                  larger branch difference where a comparison is uncertain. May be inf. */
} gs_array;

typedef struct gs_env {
  const int64_t *sizes;        /* of each dim of the graph */
  const double *const *tensor; /* of each tensor: elements in storage order, packed; NULL: unused */
} gs_env;

/* Evaluates roots; out[i].v and .err are malloc'ed: free with gs_array_free. */
gs_status gs_eval(const gs_graph *g, const gs_id *roots, int n, const gs_env *env, gs_array *out,
                  gs_error *err);
void gs_array_free(gs_array *a);

#endif
