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

typedef struct build build;

struct gs_author {
  lua_State *L;
  gs_arena *arena;   /* declarations */
  gs_layer *layers;  /* opened so far, by name */
  build *b;          /* the instantiation in progress, or NULL */
  unsigned serial;   /* counts instantiations, so that a symbol kept from an older one is seen */
  int core, library; /* registry references: the C functions; the library's table */
  size_t live, traffic;
  long fuel;      /* instructions left */
  gs_text errors; /* "FILE:LINE: error: ..." lines of this run */
  int nerrors;
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
  int *param_tensor; /* for each parameter: its tensor */
  int *stored;       /* for each forward result: its tensor of role SAVED or OUTPUT, or -1 */
  bool *type_used;   /* for each type of the choice: something has that name */
  int cap_forward;
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
/* Loads and runs an author's file; its one result stays on the stack. */
void author_run_file(lua_State *L, const char *name);

/* ---- value.c ---- */
void push_value(lua_State *L, gs_id id, gs_dims shown, gs_type stored);
void push_nothing(lua_State *L); /* the value of a reported mistake */
/* The operand at i, a value or a number, or false with a report that names `what`. */
bool value_operand(lua_State *L, int i, const char *what, value *out);
/* Applies *n to operands and pushes the result with dims `shown`; nothing when args has a mistake.
 */
int value_apply(lua_State *L, gs_node *n, const value *args, int nargs, gs_dims shown);
void value_open(lua_State *L); /* registers the metatable */
/* The dim at i by its name, or -1 with a report. */
int value_dim(lua_State *L, int i, const char *what);
const char *value_dims(lua_State *L, gs_dims dims); /* "[T, H]", left on the stack */
gs_graph *value_graph(lua_State *L);                /* raises when no forward or backward runs */

/* ---- functions.c ---- */
void core_functions(lua_State *L); /* into the table on top: exp ... */

/* ---- declare.c ---- */
/* The normalised table on top, as C; pops it. Raises only for want of memory. */
gs_layer *declare_layer(lua_State *L, const char *asked);

/* ---- build.c ---- */
typedef struct instance_box { /* what an instance is inside */
  gs_instance pub;
  const char *key; /* "bf16 H=64 gemma=1": for the keys of its passes */
} instance_box;
void build_functions(lua_State *L); /* into the table on top: core.output ... */

/* ---- size.c ---- */
/* The value of an expression such as "2*D/3" over the layer's dims. Division must leave no rest. */
gs_status size_value(const char *text, const gs_layer *l, const int64_t *sizes, int64_t *out,
                     gs_error *err);

#endif
