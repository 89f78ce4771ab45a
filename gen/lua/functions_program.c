/* functions_program.c: closed forms that a layer gives its template besides forward and backward,
 * over leaves of their own: what lua/gradsmith/attention.lua tells of a pair's score. A leaf is a
 * tensor without dims under a name that no parameter can have, "@s": nobody binds it. */
#include "lua/internal.h"

#include <string.h>

static gs_instance *building(lua_State *L) {
  build *b = author_of(L)->b;
  if (!b) luaL_error(L, "no layer is being built");
  return b->inst;
}

/* leaf(name, is_integer) */
static int core_leaf(lua_State *L) {
  gs_instance *i = building(L);
  const char *name = gs_arena_printf(i->arena, "@%s", luaL_checkstring(L, 1));
  gs_tensor t = {.name = name, .role = GS_ROLE_INPUT};
  t.type = lua_toboolean(L, 2) ? GS_I32 : GS_F32;
  for (int k = 0; k < gs_graph_ntensors(i->g); k++)
    if (strcmp(gs_graph_tensor_at(i->g, k)->name, name) == 0)
      return push_value(L, gs_input(i->g, k), 0, t.type), 1;
  push_value(L, gs_input(i->g, gs_graph_tensor(i->g, &t)), 0, t.type);
  return 1;
}

/* program(name, value, dims that it may have ...): kept for the template. */
static int core_program(lua_State *L) {
  gs_instance *i = building(L);
  const char *name = luaL_checkstring(L, 1);
  value v;
  gs_dims may = 0;
  if (!value_operand(L, 2, lua_pushfstring(L, "the %s", name), &v)) return 0;
  for (int k = 3; k <= lua_gettop(L); k++) {
    int d = lua_type(L, k) == LUA_TSTRING ? find_dim(L, lua_tostring(L, k)) : -1;
    if (d >= 0) may |= (gs_dims)1 << d;
  }
  if (v.shown & ~may) {
    const char *place = v.line ? lua_pushfstring(L, "%s:%d", v.file, v.line) : NULL;
    author_report(L, place, "the %s of a pair depends on %s; it may depend on %s", name,
                  value_dims(L, v.shown), value_dims(L, may));
    return 0;
  }
  if (!i->programs) i->programs = GS_NEW_N(i->arena, gs_program, GS_MAX_PROGRAMS);
  int k = 0;
  while (k < i->nprograms && strcmp(i->programs[k].name, name) != 0) k++;
  if (k == GS_MAX_PROGRAMS) luaL_error(L, "too many programs");
  if (k == i->nprograms) i->nprograms++;
  i->programs[k] = (gs_program){gs_arena_strdup(i->arena, name), v.id};
  return 0;
}

void program_functions(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"leaf", core_leaf}, {"program", core_program}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
