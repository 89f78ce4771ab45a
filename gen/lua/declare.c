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
  return lua_getfield(L, -1, key) == LUA_TTABLE ? (int)lua_rawlen(L, -1) : 0;
}

static const double *numbers_field(lua_State *L, gs_arena *a, const char *key, int *n) {
  *n = push_list(L, key);
  double *v = GS_NEW_N(a, double, *n + 1);
  for (int k = 0; k < *n; k++) {
    lua_rawgeti(L, -1, k + 1);
    v[k] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return v;
}

static void read_declared_dims(lua_State *L, gs_arena *a, gs_layer_decl *d) {
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

/* One end of a range: a number, or a dim's number. */
static bool read_end(lua_State *L, const char *key, const char *dim_key, double *v, int *dim) {
  lua_getfield(L, -1, dim_key);
  *dim = lua_isinteger(L, -1) ? (int)lua_tointeger(L, -1) - 1 : -1;
  lua_getfield(L, -2, key);
  bool given = lua_type(L, -1) == LUA_TNUMBER || *dim >= 0;
  *v = lua_tonumber(L, -1);
  lua_pop(L, 2);
  return given;
}

static gs_drawn read_drawn(lua_State *L) {
  gs_drawn d = {0};
  lua_getfield(L, -1, "drawn");
  d.has_low = read_end(L, "low", "low_dim", &d.low, &d.low_dim);
  d.has_high = read_end(L, "high", "high_dim", &d.high, &d.high_dim);
  d.ascending = bool_field(L, "ascending");
  lua_getfield(L, -1, "offsets_dim");
  d.offsets_dim = lua_isinteger(L, -1) ? (int)lua_tointeger(L, -1) - 1 : -1;
  lua_pop(L, 1);
  d.nalso = push_list(L, "also");
  if (d.nalso > GS_MAX_ALSO) d.nalso = GS_MAX_ALSO;
  for (int k = 0; k < d.nalso; k++) {
    lua_rawgeti(L, -1, k + 1);
    d.also[k] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
  return d;
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
  bool *optional = GS_NEW_N(a, bool, n + 1);
  gs_drawn *drawn = GS_NEW_N(a, gs_drawn, n + 1);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, -1, k + 1);
    params[k] = read_param(L, a);
    grad[k] = bool_field(L, "grad");
    optional[k] = bool_field(L, "optional");
    drawn[k] = read_drawn(L);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  d->params = params;
  d->differentiable = grad;
  d->drawn = drawn;
  d->optional = optional;
}

static void read_options(lua_State *L, gs_arena *a, gs_layer_decl *d) {
  int n = d->noptions = push_list(L, "options");
  const char **names = GS_NEW_N(a, const char *, n + 1);
  double *values = GS_NEW_N(a, double, n + 1);
  const double **allowed = GS_NEW_N(a, const double *, n + 1);
  const double **tries = GS_NEW_N(a, const double *, n + 1);
  int *count = GS_NEW_N(a, int, n + 1), *ntries = GS_NEW_N(a, int, n + 1);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, -1, k + 1);
    names[k] = text_field(L, a, "name");
    values[k] = number_field(L, "value");
    allowed[k] = numbers_field(L, a, "values", &count[k]);
    tries[k] = numbers_field(L, a, "tries", &ntries[k]);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  d->option_values = allowed;
  d->option_nvalues = count;
  d->option_tries = tries;
  d->option_ntries = ntries;
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
  l->decl.cuda = text_field(L, a, "cuda");
  l->decl.cuda_line = (int)number_field(L, "cuda_line");
  l->decl.is_kernel = bool_field(L, "kernel");
  l->decl.is_derived = bool_field(L, "derived");
  read_declared_dims(L, a, &l->decl);
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
  author_run_file(L, o->name, false);
  lua_rawgeti(L, LUA_REGISTRYINDEX, a->library);
  lua_getfield(L, -1, "finish");
  lua_pushvalue(L, -3);
  push_stem(L, o->name);
  lua_pushstring(L, a->file);
  lua_call(L, 3, 1);
  if (!lua_istable(L, -1)) return 0;
  gs_layer *l = declare_layer(L, o->name);
  if (a->nerrors == 0)
    o->layer = l;
  else
    build_trial(L, l); /* what else is wrong */
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
