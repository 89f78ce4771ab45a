/* compile.h: from a pass to a launch list of kernel records: schedule, emit, expand.
 *
 * Knows no CUDA API: a record says what to launch, in terms of tensors by name and sizes as
 * expressions over dims. The runtime fills in pointers (device/launch.h). */
#ifndef GS_COMPILE_H
#define GS_COMPILE_H

#include "lua/layer.h"

/* What a schedule may depend on: a row of the capability table (gen/emit/caps.c). */
typedef struct gs_caps {
  const char *arch;     /* "sm_80", "sm_90a", "sm_100a", "emu" ... */
  int sm_count;         /* blocks of persistent kernels; fixed (8) for emu */
  int shared_per_block; /* bytes */
  int max_threads;      /* a block */
  int row_threads;      /* threads that share a row by default: 1 for emu, 256 else */
  int vector_bytes;     /* widest access */
  int max_cluster;      /* blocks that may share a row; 0: none */
  int row_registers;    /* of a thread, besides those that keep its part of a long row */
  bool is_emulator;
} gs_caps;
/* The row for an architecture name; NULL when unknown. "sm_90" is taken as "sm_90a". */
const gs_caps *gs_caps_find(const char *arch);

/* min(cap, ceil(coef * product of dims / div) + plus * product of plus_dims); dims as a set; cap 0
 * means none. Where `each` is not 0, of the one dim ceil(size / each) takes the place of its size.
 */
typedef struct gs_count {
  int64_t coef, div, cap, each;
  gs_dims dims;
  int64_t plus;
  gs_dims plus_dims;
} gs_count;
int64_t gs_count_value(const gs_count *c, const int64_t *sizes);

typedef enum gs_arg_kind {
  GS_ARG_TENSOR,      /* index: binding. A device pointer */
  GS_ARG_TEMP,        /* index: temporary of the launch list. A device pointer */
  GS_ARG_STRIDE,      /* index: binding. int64: elements between steps of its first dim */
  GS_ARG_DIM,         /* index: dim. int64 */
  GS_ARG_SCALAR,      /* index: binding. float by value */
  GS_ARG_STEP_SCALAR, /* index: binding. const float * in device memory */
  GS_ARG_MAP,         /* index: binding, as [rows, heads, D]. A tensor map for copies of boxes */
} gs_arg_kind;

/* What one copy through a map takes: elements of each dim; a box's row of columns * its type's size
 * is a multiple of 16 bytes and, with a swizzle (32, 64 or 128; 0: none), at most that. */
typedef struct gs_box {
  int rows, heads, columns, swizzle;
} gs_box;

typedef struct gs_arg {
  gs_arg_kind kind;
  int index;
  bool is_read, is_written;
  gs_box box; /* of a map */
} gs_arg;

/* Which further prelude texts a kernel speaks through; each has those before it. */
typedef enum gs_prelude_level {
  GS_PRELUDE_PLAIN,  /* prelude_cuda.cuh, prelude_emu.h */
  GS_PRELUDE_TILES,  /* and ..._tiles: products of tiles by warps */
  GS_PRELUDE_HOPPER, /* and ..._hopper: tensor maps, barriers that count, products by warpgroups */
} gs_prelude_level;
enum { GS_PRELUDES = 3 };

/* A tensor that the launch list reads or writes, by name ("x", "dy", "rstd", "dx").
 *
 * What the caller must hold to: the address is a multiple of 16 bytes; where the packed part (the
 * product of all dims but the first) is a multiple of 2, 4 or 8 elements, so is the stride. */
typedef struct gs_binding {
  const char *name;
  gs_type type;
  int ndims;
  int dim[GS_MAX_RANK];
  gs_role role; /* of what is read; results have GS_ROLE_OUTPUT */
  bool is_result;
  int inplace; /* result: the binding whose memory it shares (its argument is then one), or -1 */
} gs_binding;

typedef struct gs_kernel {
  const char *entry; /* unique: layer, pass and a hash of the specialisation */
  const char *text;  /* CUDA C without the prelude */
  const char *template_name;
  const char *tunables; /* "threads=128 vec=8 rows=1 mode=resident" */
  int nargs;
  gs_arg *args;
  gs_count grid;
  int threads;
  int shared_bytes;  /* of a block, besides what the text declares of fixed size */
  bool barrier_free; /* no barrier, no warp collective, no shared memory */
  bool follows;      /* it waits itself for the kernel before it, which may be running yet */
  bool once; /* reads nothing but integers that a batch brings, and writes temporaries alone: where
                two lists have this kernel for the same integers, the temporaries of one serve both.
                Such kernels come first in their list */
  gs_prelude_level prelude;
} gs_kernel;

typedef struct gs_temp {
  gs_type type;
  gs_count count; /* elements */
} gs_temp;

/* A choice that a tuner may change: "row.threads", of every kernel of that template in the list. */
enum { GS_MAX_TUNABLES = 32, GS_MAX_LEGAL = 24 };
typedef struct gs_tunable {
  const char *name;
  int64_t by_default, chosen;
  int nlegal;
  int64_t legal[GS_MAX_LEGAL]; /* given the values of the tunables before it */
} gs_tunable;

typedef struct gs_launch_list {
  const char *key;
  gs_graph *g; /* for dim numbers and names */
  int nbindings, nkernels, ntemps;
  gs_binding *bindings;
  gs_kernel *kernels;
  gs_temp *temps;
  int ntunables;
  gs_tunable *tunables;
} gs_launch_list;

/* Which passes to print: bits for --dump=graph,schedule,text. */
typedef struct gs_dump_sink {
  const char *passes; /* comma list, or NULL */
  gs_text *out;
} gs_dump_sink;

/* The launch list lives in the arena of the pass's instance. The expanded text is deterministic to
 * the byte. A pass that no schedule covers is an error that names the layer, the line and why. */
gs_status gs_compile(const gs_pass *p, const gs_caps *caps, const gs_dump_sink *dump,
                     gs_launch_list **out, gs_error *err);

/* The same with tunables by name, "row.threads=512,row.chunks=4", where they differ from the
 * default (NULL: nowhere). One that is not legal, or that no kernel of the pass has, is an error
 * that lists what is. */
gs_status gs_compile_tuned(const gs_pass *p, const gs_caps *caps, const char *tuned,
                           const gs_dump_sink *dump, gs_launch_list **out, gs_error *err);

/* The prelude as one text, and the name of its last file ("prelude_cuda_tiles.cuh"). */
const char *gs_prelude(bool emulator, gs_prelude_level level);
const char *gs_prelude_name(bool emulator, gs_prelude_level level);

#endif
