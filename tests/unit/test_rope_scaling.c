/* uses: gs_model gs_lua gs_assets */
/* lua/models/lib/rope.lua against transformers, every type of scaling
 * (tests/golden/layers/make_rope_scaling.py): frequencies in f32 within an ulp or two of its own,
 * those in float64 to the last of the 48 bits of a turn. An unknown type or field is refused. */
#include "base/asset.h"
#include "model/json.h"

#include <criterion/criterion.h>
#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <string.h>

static int refuse(lua_State *L) { /* as step.refuse: an error of the message alone */
  int n = lua_gettop(L);
  lua_getglobal(L, "string");
  lua_getfield(L, -1, "format");
  lua_insert(L, 1);
  lua_settop(L, n + 1);
  lua_call(L, n, 1);
  return lua_error(L);
}

static int load_lib(lua_State *L) { /* require "models.lib.NAME" */
  char path[128];
  const char *name = luaL_checkstring(L, 1);
  snprintf(path, sizeof path, "lua/models/lib/%s.lua", name + strlen("models.lib."));
  const gs_asset *a = gs_asset_find(path);
  cr_assert(a, "no %s", path);
  if (luaL_loadbuffer(L, a->data, a->len, path) || lua_pcall(L, 0, 1, 0)) return lua_error(L);
  return 1;
}

static void preload(lua_State *L, const char *name, lua_CFunction f) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, f);
  lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

static int step_library(lua_State *L) {
  lua_newtable(L);
  lua_pushcfunction(L, refuse);
  lua_setfield(L, -2, "refuse");
  return 1;
}

static lua_State *open_lua(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  preload(L, "gradsmith.step", step_library);
  preload(L, "models.lib.config", load_lib);
  preload(L, "models.lib.rope", load_lib);
  return L;
}

static void push_json(lua_State *L, const json_t *j) {
  const char *name;
  size_t i;
  json_t *v;
  if (json_is_object(j)) {
    lua_newtable(L);
    json_object_foreach((json_t *)j, name, v) {
      push_json(L, v);
      lua_setfield(L, -2, name);
    }
  } else if (json_is_array(j)) {
    lua_newtable(L);
    json_array_foreach(j, i, v) {
      push_json(L, v);
      lua_seti(L, -2, (lua_Integer)i + 1);
    }
  } else if (json_is_string(j)) {
    lua_pushstring(L, json_string_value(j));
  } else if (json_is_boolean(j)) {
    lua_pushboolean(L, json_is_true(j));
  } else if (json_is_integer(j)) {
    lua_pushinteger(L, json_integer_value(j));
  } else {
    json_is_real(j) ? lua_pushnumber(L, json_real_value(j)) : lua_pushnil(L);
  }
}

/* rope.read(config, head, longest): its table is left on the stack; false: an error text is. */
static bool read_rope(lua_State *L, const json_t *config, int64_t head, const json_t *longest) {
  lua_getglobal(L, "require");
  lua_pushstring(L, "models.lib.rope");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "read");
  push_json(L, config);
  lua_pushinteger(L, head);
  push_json(L, longest);
  return lua_pcall(L, 3, 1, 0) == LUA_OK;
}

static double item(lua_State *L, const char *list, int i) {
  lua_getfield(L, -1, list);
  lua_geti(L, -1, i + 1);
  double v = lua_tonumber(L, -1);
  lua_pop(L, 2);
  return v;
}

static void check_case(lua_State *L, const json_t *c) {
  const char *name = json_string_value(json_object_get(c, "name"));
  const json_t *want = json_object_get(c, "inv_freq"), *exact = json_object_get(c, "exact");
  int n = (int)json_array_size(want);
  bool ok =
      read_rope(L, json_object_get(c, "config"), json_integer_value(json_object_get(c, "head")),
                json_object_get(c, "longest"));
  cr_assert(ok, "%s: %s", name, lua_tostring(L, -1));
  lua_getfield(L, -1, "scale");
  cr_expect(fabs(lua_tonumber(L, -1) - json_real_value(json_object_get(c, "scale"))) < 1e-12,
            "%s: scale %.17g", name, lua_tonumber(L, -1));
  lua_pop(L, 1);
  lua_getfield(L, -1, "R");
  cr_expect_eq(lua_tointeger(L, -1), 2 * n, "%s: R", name);
  lua_pop(L, 1);
  for (int i = 0; i < n; i++) {
    double f = json_number_value(json_array_get(want, i));
    double x = json_number_value(json_array_get(exact, i));
    double turns = (item(L, "turns", i) + item(L, "turns", n + i) * 0x1p-24) * 0x1p-24;
    cr_expect(fabs(item(L, "inv_freq", i) - f) <= 4e-7 * f, "%s: inv_freq[%d] %.9g, %.9g", name, i,
              item(L, "inv_freq", i), f);
    cr_expect(fabs(turns - x / (2 * acos(-1.0))) <= 0x1p-48, "%s: turns[%d] %.17g, %.17g", name, i,
              turns, x / (2 * acos(-1.0)));
  }
  lua_settop(L, 0);
}

Test(rope_scaling, every_type_against_transformers) {
  json_t *cases, *c;
  gs_error err = {0};
  size_t i;
  gs_status st = gs_json_read(GS_TEST_DIR "/golden/layers/rope_scaling.json", &cases, &err);
  cr_assert(st == GS_OK, "%s", err.message);
  lua_State *L = open_lua();
  json_array_foreach(cases, i, c) check_case(L, c);
  cr_assert(i >= 12);
  lua_close(L);
  json_decref(cases);
}

static void refused(const char *config, const char *says) {
  gs_error err = {0};
  json_t *j, *none = json_null();
  lua_State *L = open_lua();
  cr_assert(gs_json_parse(config, strlen(config), "config", &j, &err) == GS_OK, "%s", err.message);
  cr_assert(!read_rope(L, j, 64, none), "%s was read", config);
  cr_assert(strstr(lua_tostring(L, -1), says), "\"%s\" is not in: %s", says, lua_tostring(L, -1));
  lua_close(L);
  json_decref(j);
}

Test(rope_scaling, what_is_unknown_is_refused) {
  refused("{\"rope_scaling\": {\"type\": \"su\"}}", "\"su\"");
  refused("{\"rope_scaling\": {\"rope_type\": \"linear\"}}", "factor");
  refused("{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2, \"mscale\": 1}}",
          "mscale");
  refused("{\"rope_parameters\": {\"rope_type\": \"dynamic\", \"factor\": 2},"
          "\"max_position_embeddings\": 2048}",
          "longest");
  refused("{\"rope_parameters\": {\"rope_type\": \"longrope\", \"short_factor\": [1],"
          "\"long_factor\": [1], \"original_max_position_embeddings\": 5}, "
          "\"max_position_embeddings\": 9}",
          "list of 32");
  refused("{\"rope_parameters\": {}, \"rope_scaling\": {}}", "keep one");
  refused("{\"partial_rotary_factor\": 0.05}", "no halves");
}
