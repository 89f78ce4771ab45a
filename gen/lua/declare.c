/* declare.c: the table that lua/gradsmith/declare.lua makes of a layer, as C data in the author's
 * arena; and opening a layer by name. The table has been checked by then: this only reads. */
#include "lua/internal.h"

#include <string.h>

/* ---- reading the normalised table ---- */

static const char *text_field(lua_State *L, gs_arena *a, const char *key) {
  lua_getfield(L, -1, key);
  const char *s = lua_type(L, -1) == LUA_TSTRING ? gs_arena_strdup(a, lua_tostring(L, -1)) : NULL;
  lua_pop(L, 1);
  return s;
}

static bool bool_field(lua_State *L, const char *key) {
  lua_getfield(L, -1, key);
  bool b = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return b;
}

static double number_field(lua_State *L, const char *key) {
  lua_getfield(L, -1, key);
  double v = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return v;
}

/* Pushes the list under key; its length. */
static int push_list(lua_State *L, const char *key) {
  lua_getfield(L, -1, key);
  return (int)lua_rawlen(L, -1);
}

static void read_dims(lua_State *L, gs_arena *a, gs_layer_decl *d) {
  int n = d->ndims = push_list(L, "dims");
  const char **names = GS_NEW_N(a, const char *, n + 1), **sizes = GS_NEW_N(a, const char *, n + 1);
  bool *outer = GS_NEW_N(a, bool, n + 1);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, -1, k + 1);
    names[k] = text_field(L, a, "name");
    sizes[k] = text_field(L, a, "size");
    outer[k] = bool_field(L, "outer");
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  d->dims = names;
  d->dim_size = sizes;
  d->dim_outer = outer;
}

static gs_role role_of(const char *name) {
  if (strcmp(name, "weight") == 0) return GS_ROLE_WEIGHT;
  if (strcmp(name, "scalar") == 0) return GS_ROLE_SCALAR;
  return strcmp(name, "step_scalar") == 0 ? GS_ROLE_STEP_SCALAR : GS_ROLE_INPUT;
}

static gs_tensor read_param(lua_State *L, gs_arena *a) {
  gs_tensor t = {.name = text_field(L, a, "name"), .value = number_field(L, "value")};
  const char *type = text_field(L, a, "type");
  t.role = role_of(text_field(L, a, "role"));
  bool number = t.role == GS_ROLE_SCALAR || t.role == GS_ROLE_STEP_SCALAR;
  t.type = type ? gs_type_from_name(type) : number ? GS_F32 : GS_TYPE_NONE;
  t.is_generic = t.type == GS_TYPE_NONE;
  t.is_nonnegative = bool_field(L, "nonnegative");
  t.ndims = push_list(L, "dims");
  for (int k = 0; k < t.ndims && k < GS_MAX_RANK; k++) {
    lua_rawgeti(L, -1, k + 1);
    t.dim[k] = (int)lua_tointeger(L, -1) - 1;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return t;
}

static void read_params(lua_State *L, gs_arena *a, gs_layer_decl *d) {
  int n = d->nparams = push_list(L, "params");
  gs_tensor *params = GS_NEW_N(a, gs_tensor, n + 1);
  bool *grad = GS_NEW_N(a, bool, n + 1);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, -1, k + 1);
    params[k] = read_param(L, a);
    grad[k] = bool_field(L, "grad");
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  d->params = params;
  d->differentiable = grad;
}

static void read_options(lua_State *L, gs_arena *a, gs_layer_decl *d) {
  int n = d->noptions = push_list(L, "options");
  const char **names = GS_NEW_N(a, const char *, n + 1);
  double *values = GS_NEW_N(a, double, n + 1);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, -1, k + 1);
    names[k] = text_field(L, a, "name");
    values[k] = number_field(L, "value");
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  d->options = names;
  d->option_defaults = values;
}

gs_layer *declare_layer(lua_State *L, const char *asked) {
  gs_author *author = author_of(L);
  gs_arena *a = author->arena;
  gs_layer *l = GS_NEW(a, gs_layer);
  l->author = author;
  l->asked = gs_arena_strdup(a, asked);
  l->decl.name = text_field(L, a, "name");
  l->decl.doc = text_field(L, a, "doc");
  l->decl.file = text_field(L, a, "file");
  l->decl.body = text_field(L, a, "body");
  l->decl.is_kernel = bool_field(L, "kernel");
  read_dims(L, a, &l->decl);
  read_params(L, a, &l->decl);
  read_options(L, a, &l->decl);
  l->ref = luaL_ref(L, LUA_REGISTRYINDEX);
  return l;
}

/* ---- opening ---- */

typedef struct opening {
  const char *name;
  gs_layer *layer;
} opening;

/* "wrong/x.lua" -> "x": what a layer without a name of its own is called. */
static void push_stem(lua_State *L, const char *file) {
  const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
  const char *dot = strrchr(base, '.');
  lua_pushlstring(L, base, dot ? (size_t)(dot - base) : strlen(base));
}

static int open_layer(lua_State *L) {
  opening *o = lua_touserdata(L, 1);
  gs_author *a = author_of(L);
  author_run_file(L, o->name);
  lua_rawgeti(L, LUA_REGISTRYINDEX, a->library);
  lua_getfield(L, -1, "finish");
  lua_pushvalue(L, -3);
  push_stem(L, o->name);
  lua_pushstring(L, a->file);
  lua_call(L, 3, 1);
  if (a->nerrors == 0) o->layer = declare_layer(L, o->name);
  return 0;
}

gs_status gs_layer_open(gs_author *a, const char *name, gs_layer **out, gs_error *err) {
  *out = NULL;
  for (gs_layer *l = a->layers; l; l = l->next)
    if (strcmp(l->asked, name) == 0) return *out = l, GS_OK;
  opening o = {name, NULL};
  a->file = gs_arena_strdup(a->arena, name);
  gs_status st = author_run(a, open_layer, &o, err);
  a->file = NULL;
  if (st) return st;
  o.layer->next = a->layers;
  *out = a->layers = o.layer;
  return GS_OK;
}

const gs_layer_decl *gs_layer_declaration(const gs_layer *l) {
  return &l->decl;
}
