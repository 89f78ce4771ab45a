/* script.c: the sandbox: a Lua state without input, output, loading of code or debugging, with
 * bounded memory and instructions; the config as a table; the choice of a model file. */
#include "step/script_state.h"

#include "base/asset.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_LIMIT ((size_t)64 << 20)
#define INSTRUCTION_LIMIT 100000000
#define MODELS "lua/models/"

gs_script *gs_script_of(lua_State *L) {
  return *(gs_script **)lua_getextraspace(L);
}

static void *allocate(void *context, void *p, size_t old, size_t size) {
  gs_script *s = context;
  if (!p) old = 0;
  if (size == 0) {
    free(p);
    s->live -= old;
    return NULL;
  }
  if (size > old && s->live + (size - old) > MEMORY_LIMIT) return NULL;
  void *q = realloc(p, size);
  if (q) s->live += size - old;
  return q;
}

static void out_of_instructions(lua_State *L, lua_Debug *d) {
  (void)d;
  luaL_error(L, "the model file runs for too long");
}

/* Loads and runs an asset; its result is on the stack. */
static void run_asset(lua_State *L, const char *path) {
  const gs_asset *f = gs_asset_find(path);
  if (!f) {
    luaL_error(L, "there is no module %s", path);
    return; /* not reached */
  }
  lua_pushfstring(L, "@%s", path);
  if (luaL_loadbufferx(L, f->data, f->len, lua_tostring(L, -1), "t") != LUA_OK) lua_error(L);
  lua_call(L, 0, 1);
  lua_remove(L, -2);
}

/* require: gradsmith.step, or "models.x.y" as lua/models/x/y.lua; each is run once. */
static int require_module(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, "gradsmith.loaded");
  if (lua_getfield(L, -1, name) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  if (strncmp(name, "models.", 7) != 0) return luaL_error(L, "there is no module %s", name);
  const char *path = luaL_gsub(L, name, ".", "/");
  run_asset(L, lua_pushfstring(L, "lua/%s.lua", path));
  lua_pushvalue(L, -1);
  lua_setfield(L, 2, name);
  return 1;
}

static void open_libraries(lua_State *L) {
  static const luaL_Reg libraries[] = {{LUA_GNAME, luaopen_base},
                                       {LUA_STRLIBNAME, luaopen_string},
                                       {LUA_TABLIBNAME, luaopen_table},
                                       {LUA_MATHLIBNAME, luaopen_math},
                                       {NULL, NULL}};
  for (const luaL_Reg *l = libraries; l->func; l++) {
    luaL_requiref(L, l->name, l->func, 1);
    lua_pop(L, 1);
  }
  static const char *const removed[] = {"dofile", "loadfile", "load", "collectgarbage",
                                        "print",  "warn",     NULL};
  for (int i = 0; removed[i]; i++) {
    lua_pushnil(L);
    lua_setglobal(L, removed[i]);
  }
  lua_getglobal(L, "string");
  lua_pushnil(L);
  lua_setfield(L, -2, "dump");
  lua_pop(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, "gradsmith.loaded");
  gs_script_push_module(L);
  lua_setfield(L, -2, "gradsmith.step");
  lua_pop(L, 1);
  lua_pushcfunction(L, require_module);
  lua_setglobal(L, "require");
}

/* A JSON value on the stack; null is nil, so that a null field is an absent one. */
static void push_json(lua_State *L, const json_t *v) {
  luaL_checkstack(L, 8, "config.json is nested too deeply");
  const char *key;
  json_t *item;
  size_t i;
  switch (json_typeof(v)) {
  case JSON_OBJECT:
    lua_newtable(L);
    json_object_foreach((json_t *)v, key, item) {
      push_json(L, item);
      lua_setfield(L, -2, key);
    }
    return;
  case JSON_ARRAY:
    lua_newtable(L);
    json_array_foreach((json_t *)v, i, item) {
      push_json(L, item);
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return;
  case JSON_STRING: lua_pushstring(L, json_string_value(v)); return;
  case JSON_INTEGER: lua_pushinteger(L, json_integer_value(v)); return;
  case JSON_REAL: lua_pushnumber(L, json_real_value(v)); return;
  case JSON_TRUE: lua_pushboolean(L, 1); return;
  case JSON_FALSE: lua_pushboolean(L, 0); return;
  case JSON_NULL: break;
  }
  lua_pushnil(L);
}

/* Does the list in field `name` of the table at `table` hold that text? */
static bool list_has(lua_State *L, int table, const char *name, const char *text, bool at_end) {
  bool found = false;
  if (lua_getfield(L, table, name) == LUA_TTABLE)
    for (lua_Integer i = 1; !found && lua_rawgeti(L, -1, i) == LUA_TSTRING; i++) {
      const char *s = lua_tostring(L, -1);
      size_t n = strlen(s), m = strlen(text);
      found = strcmp(text, s) == 0 || (at_end && n < m && strcmp(text + m - n, s) == 0);
      lua_pop(L, 1);
    }
  return found;
}

static bool is_model_file(const char *path) {
  size_t n = strlen(MODELS);
  return strncmp(path, MODELS, n) == 0 && !strchr(path + n, '/');
}

static int unknown_architecture(lua_State *L, const char *name, const char *known) {
  gs_script *s = gs_script_of(L);
  s->failed = true;
  gs_fail(
      &s->error, GS_ERR_INPUT,
      "%s: the architecture \"%s\" is not known; known are %s. A new one is a file in lua/models",
      s->path, name, known);
  return lua_error(L);
}

/* Runs the model files until one knows the architecture; its table goes to the registry. */
static int open_model(lua_State *L) {
  gs_script *s = gs_script_of(L);
  open_libraries(L);
  push_json(L, lua_touserdata(L, 1));
  lua_pushvalue(L, -1);
  s->config = luaL_ref(L, LUA_REGISTRYINDEX);
  const char *name = "(none)";
  if (lua_getfield(L, -1, "architectures") == LUA_TTABLE) lua_rawgeti(L, -1, 1);
  if (lua_type(L, -1) == LUA_TSTRING) name = lua_tostring(L, -1);
  lua_pushliteral(L, "");
  int known = lua_gettop(L);
  const gs_asset *a;
  for (size_t i = 0; (a = gs_asset_at(i)); i++) {
    if (!is_model_file(a->path)) continue;
    lua_settop(L, known);
    run_asset(L, a->path);
    luaL_checktype(L, -1, LUA_TTABLE);
    int table = lua_gettop(L);
    if (list_has(L, table, "architectures", name, false)) {
      lua_pushvalue(L, table);
      s->model = luaL_ref(L, LUA_REGISTRYINDEX);
      return 0;
    }
    lua_settop(L, table);
    lua_getfield(L, table, "architectures");
    for (lua_Integer k = 1; lua_rawgeti(L, table + 1, k) == LUA_TSTRING; k++) {
      lua_pushfstring(L, "%s%s%s", lua_tostring(L, known), *lua_tostring(L, known) ? ", " : "",
                      lua_tostring(L, -1));
      lua_replace(L, known);
      lua_pop(L, 1);
    }
  }
  return unknown_architecture(L, name, lua_tostring(L, known));
}

/* Runs f(argument) protected and bounded; what it raises becomes *err. */
static gs_status run(gs_script *s, lua_CFunction f, void *argument, gs_error *err) {
  lua_State *L = s->L;
  s->failed = false;
  lua_sethook(L, out_of_instructions, LUA_MASKCOUNT, INSTRUCTION_LIMIT);
  lua_pushcfunction(L, f);
  lua_pushlightuserdata(L, argument);
  int rc = lua_pcall(L, 1, 0, 0);
  if (rc == LUA_OK) return GS_OK;
  gs_status st = GS_ERR_INPUT;
  if (s->failed)
    st = gs_fail(err, s->error.status, "%s", s->error.message);
  else if (rc == LUA_ERRMEM)
    st = gs_fail(err, GS_ERR_MEMORY, "%s: the model file used too much memory", s->path);
  else {
    const char *text = luaL_tolstring(L, -1, NULL);
    st = gs_fail(err, GS_ERR_INPUT, "%s: %s", s->path, text);
    lua_pop(L, 1);
  }
  lua_settop(L, 0);
  return st;
}

gs_status gs_script_open(const json_t *config, const char *path, gs_script **out, gs_error *err) {
  gs_script *s = calloc(1, sizeof *s);
  gs_status st = GS_ERR_MEMORY;
  if (!s) return gs_fail(err, st, "out of memory");
  s->path = s->path_copy = malloc(strlen(path) + 1);
  s->L = lua_newstate(allocate, s);
  if (!s->path || !s->L) {
    gs_script_close(s);
    return gs_fail(err, st, "out of memory");
  }
  strcpy(s->path_copy, path);
  *(gs_script **)lua_getextraspace(s->L) = s;
  st = run(s, open_model, (void *)config, err);
  if (st) {
    gs_script_close(s);
    return st;
  }
  *out = s;
  return GS_OK;
}

void gs_script_close(gs_script *s) {
  if (!s) return;
  if (s->L) lua_close(s->L);
  free(s->path_copy);
  free(s);
}

bool gs_script_may_ignore(gs_script *s, const char *tensor) {
  lua_rawgeti(s->L, LUA_REGISTRYINDEX, s->model);
  bool may = list_has(s->L, 1, "unread", tensor, true);
  lua_settop(s->L, 0);
  return may;
}

static int call_forward(lua_State *L) {
  gs_script *s = gs_script_of(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, s->model);
  lua_getfield(L, -1, "forward");
  lua_rawgeti(L, LUA_REGISTRYINDEX, s->config);
  gs_script_push_model(L);
  gs_script_push_batch(L);
  lua_call(L, 3, 0);
  return 0;
}

gs_status gs_script_forward(gs_script *s, gs_record *r, const gs_batch_vars *b, const gs_host *host,
                            gs_error *err) {
  s->r = r;
  s->host = host;
  s->batch = b;
  s->serial++;
  gs_status st = run(s, call_forward, NULL, err);
  s->r = NULL;
  if (st) return st;
  if (!r->head.is_there)
    return gs_fail(err, GS_ERR_USE, "%s: the model file's forward does not call step.head",
                   s->path);
  return GS_OK;
}
