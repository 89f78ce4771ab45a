/* functions_fold.c: what lua/gradsmith/reduce.lua is made of: leaves of a fold's program, and the
 * fold itself. Parts come as lists in a fixed order; names are Lua's matter. */
#include "lua/internal.h"

#include <stdio.h>

/* value(x, what): x as a value, or nothing after a report. The second result says which. */
static int core_value(lua_State *L) {
  value v;
  bool ok = value_operand(L, 1, luaL_checkstring(L, 2), &v);
  if (ok && lua_type(L, 1) == LUA_TNUMBER)
    push_value(L, v.id, 0, GS_TYPE_NONE);
  else if (ok)
    lua_pushvalue(L, 1);
  else
    push_nothing(L);
  lua_pushboolean(L, ok);
  return 2;
}

/* is_integer(x): is the value, known to be one, an integer? */
static int core_is_integer(lua_State *L) {
  value v;
  bool ok = value_operand(L, 1, "a value", &v);
  lua_pushboolean(L, ok && gs_graph_node(value_graph(L), v.id)->type == GS_I64);
  return 1;
}

/* outer(dim): is its size known only at launch? False for an unknown one, without a report. */
static int core_outer(lua_State *L) {
  gs_graph *g = value_graph(L);
  int d = lua_type(L, 1) == LUA_TSTRING ? find_dim(L, lua_tostring(L, 1)) : -1;
  lua_pushboolean(L, d >= 0 && gs_graph_dim_at(g, d)->size < 0);
  return 1;
}

/* size(dim): of an inner dim; nil of an outer or an unknown one, without a report. */
static int core_size(lua_State *L) {
  gs_graph *g = value_graph(L);
  int d = lua_type(L, 1) == LUA_TSTRING ? find_dim(L, lua_tostring(L, 1)) : -1;
  if (d < 0 || gs_graph_dim_at(g, d)->size < 0) return lua_pushnil(L), 1;
  lua_pushinteger(L, gs_graph_dim_at(g, d)->size);
  return 1;
}

static int leaf(lua_State *L, gs_op op) {
  gs_node n = {.op = op, .index = luaL_checkinteger(L, 1)};
  n.type = lua_toboolean(L, 2) ? GS_I64 : GS_F32;
  return value_apply(L, &n, NULL, 0, 0);
}

/* state(k, is_integer), element(k, is_integer) */
static int core_state(lua_State *L) {
  return leaf(L, GS_OP_STATE);
}
static int core_element(lua_State *L) {
  return leaf(L, GS_OP_ELEMENT);
}

/* Component k of list `list` of the arguments, brought to the component's type. */
static bool read_component(lua_State *L, int list, int k, gs_type type, const char *what,
                           gs_id *out) {
  gs_graph *g = value_graph(L);
  value v;
  char name[80];
  lua_rawgeti(L, 6, k + 1);
  snprintf(name, sizeof name, "what %s gives for '%s'", what, lua_tostring(L, -1));
  lua_rawgeti(L, list, k + 1);
  bool ok = value_operand(L, -1, name, &v);
  lua_pop(L, 2);
  if (!ok) return false;
  const gs_node *n = gs_graph_node(g, v.id);
  *out = type == GS_F32 ? gs_op1(g, GS_OP_REAL, v.id) : v.id;
  if (type == GS_F32 || n->type == GS_I64) return true;
  *out = n->op == GS_OP_CONST && n->type == GS_F32 ? gs_op1(g, GS_OP_INTEGER, v.id) : 0;
  if (*out && gs_graph_node(g, *out)->value == n->value) return true;
  author_report(L, NULL,
                "%s is not an integer, but its start is one: start at 0.0 for a real "
                "number, or see gs.integer",
                name);
  return false;
}

/* fold(elements, dims, init, step, merge, names): lists; the components as so many results. */
static int core_fold(lua_State *L) {
  lua_settop(L, 6);
  gs_fold f = {.nelements = (int)lua_rawlen(L, 1), .nstate = (int)lua_rawlen(L, 3)};
  value v[GS_MAX_ARGS];
  gs_dims shown = 0, over;
  bool ok = true;
  for (int k = 0; k < f.nelements; k++) {
    lua_rawgeti(L, 1, k + 1);
    ok &= value_operand(L, -1, "an element of gs.reduce", &v[k]);
    shown |= v[k].shown;
  }
  for (int k = 0; k < f.nstate; k++) {
    lua_rawgeti(L, 3, k + 1);
    f.type[k] = lua_isinteger(L, -1) ? GS_I64 : GS_F32;
    f.init[k] = lua_tonumber(L, -1);
    ok &= read_component(L, 4, k, f.type[k], "step", &f.step[k]);
    ok &= read_component(L, 5, k, f.type[k], "merge", &f.merge[k]);
  }
  ok = ok && dims_operand(L, 2, shown, "gs.reduce", &over);
  luaL_checkstack(L, GS_MAX_FOLD + 8, "results of gs.reduce");
  int index = ok ? gs_graph_fold(value_graph(L), &f) : -1;
  for (int k = 0; k < f.nstate; k++) {
    gs_node n = {.op = GS_OP_FOLD, .index = index, .rdims = over, .dim = {k}};
    if (ok)
      value_apply(L, &n, v, f.nelements, shown & ~over);
    else
      push_nothing(L);
  }
  return f.nstate;
}

void fold_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"value", core_value}, {"is_integer", core_is_integer},
                                       {"outer", core_outer}, {"size", core_size},
                                       {"state", core_state}, {"element", core_element},
                                       {"fold", core_fold},   {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
