/* script_calls.c: the functions that a model file calls: thin, each reads its arguments from the
 * stack and records. An error of the recorder is raised as a Lua error and kept whole in the
 * script. */
#include "step/script_state.h"

#include <stdio.h>
#include <string.h>

#define MAX_NAMED 32

/* Raises what is in s->error, with the model file's line before it. */
static int raise(lua_State *L) {
  gs_script *s = gs_script_of(L);
  luaL_where(L, 1);
  const char *where = lua_tostring(L, -1); /* "FILE:LINE: ", or nothing */
  size_t n = strlen(where);
  if (n > 2) gs_fail_in(&s->error, "%.*s", (int)n - 2, where);
  s->failed = true;
  lua_pushstring(L, s->error.message);
  return lua_error(L);
}

static gs_record *recording(lua_State *L) {
  gs_script *s = gs_script_of(L);
  if (!s->r) luaL_error(L, "this may only be called inside forward");
  return s->r;
}

/* ---- tensors ---- */

void gs_script_push_tensor(lua_State *L, int var) {
  gs_script_tensor *t = lua_newuserdatauv(L, sizeof *t, 0);
  *t = (gs_script_tensor){var, gs_script_of(L)->serial};
  luaL_setmetatable(L, GS_SCRIPT_TENSOR);
}

int gs_script_check_tensor(lua_State *L, int i) {
  gs_script_tensor *t = luaL_checkudata(L, i, GS_SCRIPT_TENSOR);
  if (t->serial != gs_script_of(L)->serial) luaL_error(L, "a tensor of an earlier forward is used");
  return t->var;
}

/* The list of whole numbers at i, after the n that are there; how many there are then. */
static int read_sizes(lua_State *L, int i, int64_t *out, int n) {
  luaL_checktype(L, i, LUA_TTABLE);
  for (lua_Integer k = 1; lua_rawgeti(L, i, k) != LUA_TNIL; k++) {
    int is_int;
    lua_Integer v = lua_tointegerx(L, -1, &is_int);
    if (!is_int || v < 1) return luaL_error(L, "size %d is not a positive whole number", (int)k);
    if (n == GS_MAX_RANK) return luaL_error(L, "a tensor has at most %d dims", GS_MAX_RANK);
    out[n++] = v;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return n;
}

/* x:view{sizes}: the first dim stays. */
static int tensor_view(lua_State *L) {
  gs_record *r = recording(L);
  int var = gs_script_check_tensor(L, 1);
  int64_t shape[GS_MAX_RANK] = {r->vars[var].ndims ? r->vars[var].shape[0] : 1}, count = shape[0];
  int n = read_sizes(L, 2, shape, 1);
  for (int i = 1; i < n; i++) count *= shape[i];
  if (count != gs_var_count(&r->vars[var])) {
    char text[160];
    return luaL_error(L, "a view of %s must keep the number of elements",
                      gs_var_text(&r->vars[var], text, sizeof text));
  }
  gs_script_push_tensor(L, gs_record_view(r, var, n, shape));
  return 1;
}

/* ---- gradsmith.step ---- */

/* The table at i as names with tensors or numbers. The names stay on the stack's table. */
static int read_named(lua_State *L, int i, gs_named *out, bool only_numbers) {
  int n = 0;
  if (lua_isnoneornil(L, i)) return 0;
  luaL_checktype(L, i, LUA_TTABLE);
  lua_pushnil(L);
  while (lua_next(L, i)) {
    if (n == MAX_NAMED) return luaL_error(L, "too many arguments");
    if (lua_type(L, -2) != LUA_TSTRING) return luaL_error(L, "arguments of a layer have names");
    out[n] = (gs_named){lua_tostring(L, -2), -1, 0};
    if (lua_type(L, -1) == LUA_TNUMBER)
      out[n].number = lua_tonumber(L, -1);
    else if (!only_numbers && luaL_testudata(L, -1, GS_SCRIPT_TENSOR))
      out[n].var = gs_script_check_tensor(L, -1);
    else
      return luaL_error(L, "\"%s\" is neither a tensor nor a number", out[n].name);
    n++;
    lua_pop(L, 1);
  }
  return n;
}

/* Sorted by name, so that what is recorded does not depend on the order of a Lua table. */
static void sort_named(gs_named *v, int n) {
  for (int i = 1; i < n; i++)
    for (int k = i; k > 0 && strcmp(v[k - 1].name, v[k].name) > 0; k--) {
      gs_named t = v[k];
      v[k] = v[k - 1];
      v[k - 1] = t;
    }
}

static int step_layer(lua_State *L) {
  gs_script *s = gs_script_of(L);
  gs_record *r = recording(L);
  const char *name = luaL_checkstring(L, 1);
  gs_named args[MAX_NAMED] = {0}, options[MAX_NAMED] = {0};
  int nargs = read_named(L, 2, args, false), noptions = read_named(L, 3, options, true);
  sort_named(options, noptions);
  gs_call *c;
  if (gs_record_layer(r, name, args, nargs, options, noptions, &c, &s->error)) return raise(L);
  int noutputs = 0;
  for (int i = 0; i < c->instance->nforward; i++) noutputs += !c->instance->forward[i].is_saved;
  if (noutputs != 1) lua_newtable(L);
  for (int i = 0; i < c->instance->nforward; i++) {
    if (c->instance->forward[i].is_saved) continue;
    gs_script_push_tensor(L, c->result[i]);
    if (noutputs == 1) return 1;
    lua_setfield(L, -2, c->instance->forward[i].name);
  }
  return 1;
}

/* A weight of the model. */
static int find_weight(lua_State *L, const char *name, int ndims, const int64_t *shape) {
  gs_script *s = gs_script_of(L);
  int var;
  if (s->host->weight(s->host->context, s->r, name, ndims, shape, &var, &s->error)) raise(L);
  return var;
}

/* The arguments (x, module, out) of a linear, and its weight: `given`, or by the module's name when
 * that is -1. */
typedef struct linear_args {
  int x, weight;
  const char *module;
} linear_args;

static linear_args read_linear(lua_State *L, int given) {
  gs_script *s = gs_script_of(L);
  const gs_record *r = recording(L);
  linear_args a = {gs_script_check_tensor(L, 1), given, luaL_checkstring(L, 2)};
  int64_t rows = r->vars[a.x].ndims ? r->vars[a.x].shape[0] : 1;
  int64_t shape[2] = {luaL_checkinteger(L, 3), gs_var_count(&r->vars[a.x]) / (rows ? rows : 1)};
  if (given < 0) a.weight = find_weight(L, lua_pushfstring(L, "%s.weight", a.module), 2, shape);
  s->host->linear(s->host->context, a.module, shape[1], shape[0]);
  return a;
}

static int step_linear(lua_State *L) {
  gs_script *s = gs_script_of(L);
  int y, given = lua_isnoneornil(L, 4) ? -1 : gs_script_check_tensor(L, 4);
  linear_args a = read_linear(L, given);
  if (gs_record_linear(s->r, a.module, a.x, a.weight, &y, &s->error)) return raise(L);
  gs_script_push_tensor(L, y);
  return 1;
}

/* head(x, module, V, options): the end of the model. */
static int step_head(lua_State *L) {
  gs_script *s = gs_script_of(L);
  gs_named named[MAX_NAMED] = {0};
  int n = 0, given = -1, all = read_named(L, 4, named, false);
  for (int i = 0; i < all; i++) {
    if (strcmp(named[i].name, "weight") == 0)
      given = named[i].var;
    else if (named[i].var >= 0)
      return luaL_error(L, "\"%s\" is a number", named[i].name);
    else
      named[n++] = named[i];
  }
  sort_named(named, n);
  linear_args a = read_linear(L, given);
  gs_head h = {.module = a.module,
               .x = a.x,
               .weight = a.weight,
               .label = s->batch->label,
               .last = s->batch->last,
               .upstream = s->batch->upstream,
               .options = named,
               .noptions = n};
  return gs_record_head(s->r, &h, &s->error) ? raise(L) : 0;
}

/* refuse(format, ...): config.json asks for what is not there. */
static int step_refuse(lua_State *L) {
  gs_script *s = gs_script_of(L);
  lua_getglobal(L, "string");
  lua_getfield(L, -1, "format");
  lua_insert(L, 1);
  lua_pop(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  s->failed = true;
  gs_fail(&s->error, GS_ERR_INPUT, "%s: %s", s->path, lua_tostring(L, -1));
  return lua_error(L);
}

void gs_script_push_module(lua_State *L) {
  static const luaL_Reg functions[] = {{"layer", step_layer},
                                       {"linear", step_linear},
                                       {"head", step_head},
                                       {"refuse", step_refuse},
                                       {NULL, NULL}};
  luaL_newmetatable(L, GS_SCRIPT_TENSOR);
  lua_newtable(L);
  lua_pushcfunction(L, tensor_view);
  lua_setfield(L, -2, "view");
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "tensor");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
  luaL_newlib(L, functions);
}

/* ---- m and b ---- */

static int model_weight(lua_State *L) {
  recording(L);
  const char *name = luaL_checkstring(L, 1);
  int64_t shape[GS_MAX_RANK];
  int n = read_sizes(L, 2, shape, 0);
  gs_script_push_tensor(L, find_weight(L, name, n, shape));
  return 1;
}

static int model_constant(lua_State *L) {
  gs_script *s = gs_script_of(L);
  gs_record *r = recording(L);
  const char *name = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer n = luaL_len(L, 2);
  float *v = GS_NEW_N(r->arena, float, n + 1);
  for (lua_Integer i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    v[i] = (float)luaL_checknumber(L, -1);
    lua_pop(L, 1);
  }
  int var;
  if (s->host->constant(s->host->context, r, name, v, n, &var, &s->error)) return raise(L);
  gs_script_push_tensor(L, var);
  return 1;
}

void gs_script_push_model(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"weight", model_weight}, {"constant", model_constant}, {NULL, NULL}};
  luaL_newlib(L, functions);
}

void gs_script_push_batch(lua_State *L) {
  const gs_batch_vars *b = gs_script_of(L)->batch;
  lua_newtable(L);
  gs_script_push_tensor(L, b->id);
  lua_setfield(L, -2, "id");
  gs_script_push_tensor(L, b->position);
  lua_setfield(L, -2, "position");
  gs_script_push_tensor(L, b->cu);
  lua_setfield(L, -2, "cu");
  lua_pushinteger(L, gs_script_of(L)->r->tokens); /* no sequence is longer */
  lua_setfield(L, -2, "tokens");
}
