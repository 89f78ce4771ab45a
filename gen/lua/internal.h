/* internal.h: what the files of gen/lua share: the sandboxed state, the build in progress, and how
 * a mistake is recorded. Not for other folders. */
#ifndef GS_LUA_INTERNAL_H
#define GS_LUA_INTERNAL_H

#include "lua/layer.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

/* Limits of one run of author's code. */
#define MEMORY_LIMIT ((size_t)256 << 20) /* bytes alive */
#define TRAFFIC_LIMIT                                                                              \
  ((size_t)2 << 30) /* bytes asked for in all: bounds loops over big strings                       \
                     */
#define INSTRUCTION_LIMIT 50000000L
#define HOOK_EVERY 10000
#define MAX_ERRORS 40
#define MAX_NODES 50000 /* values of one graph */
#define MAX_DEPTH 1000  /* of one expression: what walks it recursively has a stack */

typedef struct build build;

/* The text of a file that was run. */
typedef struct source {
  struct source *next;
  const char *path, *text;
  size_t len;
} source;

struct gs_author {
  lua_State *L;
  gs_arena *arena;   /* declarations */
  gs_layer *layers;  /* opened so far, by name */
  source *sources;   /* files run so far */
  build *b;          /* the instantiation in progress, or NULL */
  unsigned serial;   /* counts instantiations, so that a symbol kept from an older one is seen */
  bool dims_unknown; /* a mistake in dims, told already: names that are not known are silent */
  int alias;         /* registry reference: names of dims of the part that runs; or LUA_NOREF */
  int core, library; /* registry references: the C functions; the library's table */
  size_t live, traffic;
  long fuel;      /* instructions left */
  gs_text errors; /* of this run: "FILE:LINE: error: ..." and the line meant */
  size_t error_at[MAX_ERRORS];
  int nerrors;      /* of which the first MAX_ERRORS are in errors */
  const char *file; /* being run: names mistakes that have no line of their own */
  const char *hint; /* "FILE:LINE" for those while results are read, or NULL */
  char place[512];  /* where memory ran out */
};

struct gs_layer {
  gs_layer *next;
  gs_author *author;
  const char *asked; /* the name it was opened by */
  gs_layer_decl decl;
  int ref; /* registry: the normalised declaration table */
};

/* One instantiation in progress. Arrays live in the instance's arena. */
struct build {
  gs_layer *layer;
  const gs_choice *choice;
  gs_instance *inst;
  gs_graph *g;
  int *param_tensor;      /* for each parameter: its tensor */
  int *stored;            /* for each forward result: its tensor of role SAVED or OUTPUT, or -1 */
  bool *type_used;        /* for each type of the choice: something has that name */
  gs_type *declared_type; /* for each forward result: as the file says, NONE when generic */
  int cap_forward;
  int *depth; /* of the nodes 1 .. ndepth-1 */
  gs_id ndepth, cap_depth;
};

/* A value in Lua. id 0 is the value of a mistake that has been reported: what is made of it is
 * silently the same. */
typedef struct value {
  gs_id id;
  gs_dims shown;  /* the dims as written: simplification may have removed some from the node */
  gs_type stored; /* of an input or a rounded value: its storage type, for `.type` */
  unsigned serial;
  int line; /* where it was made, 0 for symbols and numbers */
  const char *file;
} value;

/* ---- sandbox.c ---- */
gs_author *author_of(lua_State *L);
/* Runs f(arg) protected, with fresh limits. Mistakes recorded or raised become *err. */
gs_status author_run(gs_author *a, lua_CFunction f, void *arg, gs_error *err);
/* The innermost line of an author's file on the stack and that file, a text that Lua holds; 0 when
 * there is none. */
int author_line(lua_State *L, const char **file);
/* The same as "FILE:LINE", or what comes nearest; whether there was a line. */
bool author_place(lua_State *L, char *out, size_t cap);
/* Records a mistake at place (NULL: where the author's code is now). */
void author_report(lua_State *L, const char *place, const char *fmt, ...) GS_PRINTF(3, 4);
/* Loads and runs an author's file; its one result stays on the stack. shipped: name is one of ours
 * ("lib/codes") and no path. */
void author_run_file(lua_State *L, const char *name, bool shipped);

/* ---- report.c ---- */
void report_keep_source(gs_author *a, const char *path, const char *data, size_t len);
/* The line at "FILE:LINE" of a file that has been run, and its length; NULL: unknown. */
const char *report_source_line(const gs_author *a, const char *place, size_t *len);
/* note: a further line, or NULL. */
void report_add(gs_author *a, const char *place, const char *message, const char *note);
void report_note(lua_State *L, const char *place, const char *note, const char *fmt, ...)
    GS_PRINTF(4, 5);
gs_status report_fail(gs_author *a, gs_error *err); /* all of this run, as one message */
void report_open(lua_State *L);                     /* into the table on top, core: field ... */

/* ---- value.c ---- */
void push_value(lua_State *L, gs_id id, gs_dims shown, gs_type stored);
void push_nothing(lua_State *L); /* the value of a reported mistake */
/* The operand at i, a value or a number, or false with a report that names `what`. */
bool value_operand(lua_State *L, int i, const char *what, value *out);
/* Applies *n to operands and pushes the result with dims `shown`; nothing when args has a mistake.
 */
int value_apply(lua_State *L, gs_node *n, const value *args, int nargs, gs_dims shown);
void value_open(lua_State *L); /* registers the metatable; core's functions on values */
/* A dim by its name in the file that is running; -1: unknown. */
int find_dim(lua_State *L, const char *name);
/* The dim at i by its name, or -1 with a report. */
int value_dim(lua_State *L, int i, const char *what);
const char *value_dims(lua_State *L, gs_dims dims); /* "[T, H]", left on the stack */
gs_graph *value_graph(lua_State *L);                /* raises when no forward or backward runs */

/* ---- functions.c ---- */
void core_functions(lua_State *L); /* into the table on top: exp ... */
/* The dims at i: a name, a list of names, or "all" (those of `have`, which must have them). */
bool dims_operand(lua_State *L, int i, gs_dims have, const char *what, gs_dims *out);
/* Pushes the one field that the table at i may have; false with a report. */
bool read_option(lua_State *L, int i, const char *name, const char *what);

/* ---- functions_table.c, functions_fold.c ---- */
void table_functions(lua_State *L);   /* into the table on top: table, bucket, rand */
void fold_open(lua_State *L);         /* into the table on top, core: value, state, fold ... */
void program_functions(lua_State *L); /* functions_program.c: into the same: leaf, program */

/* ---- declare.c ---- */
/* The normalised table on top, as C; pops it. Raises only for want of memory. */
gs_layer *declare_layer(lua_State *L, const char *asked);

/* ---- build.c ---- */
/* The value of an option as c chooses it; its default where c is NULL or says nothing. */
double option_value(const gs_layer_decl *d, const gs_choice *c, int option);
typedef struct instance_box { /* what an instance is inside */
  gs_instance pub;
  const char *key; /* "bf16 H=64 gemma=1": for the keys of its passes */
} instance_box;
/* Runs forward and backward of a layer whose declaration has mistakes, with sizes and types that
 * are guessed, for the mistakes in them alone. */
void build_trial(lua_State *L, gs_layer *l);

/* ---- results.c ---- */
/* The type chosen for a tensor by name, else `otherwise`. */
gs_type build_type(build *b, const char *name, gs_type otherwise);
bool holds_reals(gs_type t);        /* floats, and the codes of FP8 and of scales */
void build_functions(lua_State *L); /* into the table on top: core.output ... */

/* ---- size.c ---- */
gs_status size_inner(const gs_layer *l, int dim, const gs_choice *c, const int64_t *sizes,
                     int64_t *out, gs_error *err);
/* An outer dim whose size follows from another's: ceil(size of *like / *div). */
gs_status size_blocks(const gs_layer *l, int dim, const gs_choice *c, const int64_t *sizes,
                      int *like, int64_t *div, gs_error *err);

#endif
