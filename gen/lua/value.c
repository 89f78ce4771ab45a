/* value.c: expressions as Lua values: operators, operands, dims by name.
 *
 * A mistake is recorded with its line and gives the nothing-value, on which every operation is
 * silent, so that one run finds many mistakes. */
#include "lua/internal.h"

#include <string.h>

#define VALUE "gradsmith.value"

gs_graph *value_graph(lua_State *L) {
  build *b = author_of(L)->b;
  if (b) return b->g;
  luaL_error(L, "values exist only inside forward and backward");
  return NULL; /* not reached */
}

void push_value(lua_State *L, gs_id id, gs_dims shown, gs_type stored) {
  value *v = lua_newuserdatauv(L, sizeof *v, 0);
  *v = (value){.id = id, .shown = shown, .stored = stored, .serial = author_of(L)->serial};
  luaL_setmetatable(L, VALUE);
}

void push_nothing(lua_State *L) {
  push_value(L, 0, 0, GS_TYPE_NONE);
}

bool value_operand(lua_State *L, int i, const char *what, value *out) {
  gs_author *a = author_of(L);
  memset(out, 0, sizeof *out);
  value *v = luaL_testudata(L, i, VALUE);
  if (v && (v->id == 0 || v->serial == a->serial)) {
    *out = *v;
    return v->id != 0;
  }
  if (v) {
    author_report(L, NULL,
                  "%s is a value of an earlier run of forward or backward; values must not "
                  "be kept outside of them",
                  what);
  } else if (lua_type(L, i) == LUA_TNUMBER) {
    out->id = gs_const(value_graph(L), lua_tonumber(L, i));
    return true;
  } else {
    const char *have = lua_isnone(L, i)  ? "missing"
                       : lua_isnil(L, i) ? "nil"
                                         : lua_pushfstring(L, "a %s", luaL_typename(L, i));
    author_report(L, NULL, "%s is %s; a value or a number is wanted", what, have);
  }
  return false;
}

/* How deep the expression of a node is; -1 without a build. Nodes do not change: each is seen once.
 */
static int depth_of(build *b, gs_id id) {
  if (!b) return -1;
  if (id >= b->cap_depth) {
    gs_id cap = 2 * id + 256;
    int *more = GS_NEW_N(b->inst->arena, int, cap);
    if (b->ndepth) memcpy(more, b->depth, sizeof *more * (size_t)b->ndepth);
    b->depth = more;
    b->cap_depth = cap;
  }
  for (; b->ndepth <= id; b->ndepth++) {
    const gs_node *n = b->ndepth ? gs_graph_node(b->g, b->ndepth) : NULL;
    int most = 0;
    for (int k = 0; n && k < n->nargs; k++)
      if (b->depth[n->arg[k]] > most) most = b->depth[n->arg[k]];
    b->depth[b->ndepth] = most + 1;
  }
  return b->depth[id];
}

int value_apply(lua_State *L, gs_node *n, const value *args, int nargs, gs_dims shown) {
  gs_graph *g = value_graph(L);
  if (gs_graph_size(g) > MAX_NODES)
    luaL_error(L, "forward and backward make more than %d values: is a loop too long?", MAX_NODES);
  gs_error err;
  n->nargs = nargs;
  for (int k = 0; k < nargs; k++) n->arg[k] = args[k].id;
  const char *file = NULL;
  n->line = author_line(L, &file);
  gs_id id = gs_apply(g, n, &err);
  if (!id) {
    author_report(L, NULL, "%s", err.message);
    push_nothing(L);
    return 1;
  }
  if (depth_of(author_of(L)->b, id) > MAX_DEPTH)
    luaL_error(L, "an expression is nested more than %d deep: is a loop too long?", MAX_DEPTH);
  push_value(L, id, shown, n->op == GS_OP_ROUND ? n->to : GS_TYPE_NONE);
  value *v = lua_touserdata(L, -1);
  v->line = n->line;
  v->file = file;
  return 1;
}

const char *value_dims(lua_State *L, gs_dims dims) {
  gs_graph *g = value_graph(L);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addchar(&b, '[');
  for (int d = 0, n = 0; d < gs_graph_ndims(g); d++) {
    if (!(dims >> d & 1)) continue;
    if (n++) luaL_addstring(&b, ", ");
    luaL_addstring(&b, gs_graph_dim_at(g, d)->name);
  }
  luaL_addchar(&b, ']');
  luaL_pushresult(&b);
  return lua_tostring(L, -1);
}

/* "; did you mean 'H'?", from library.nearest(name, list on top), or "". Replaces the list. */
static const char *push_hint(lua_State *L, const char *name) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, author_of(L)->library);
  lua_getfield(L, -1, "hint");
  lua_pushstring(L, name);
  lua_pushvalue(L, -4);
  lua_call(L, 2, 1);
  return lua_tostring(L, -1);
}

/* A part of a composed layer has its own names of dims: author->alias, a table. */
int find_dim(lua_State *L, const char *name) {
  gs_author *a = author_of(L);
  gs_graph *g = value_graph(L);
  if (a->alias == LUA_NOREF) return gs_graph_find_dim(g, name);
  lua_rawgeti(L, LUA_REGISTRYINDEX, a->alias);
  lua_pushstring(L, name);
  if (lua_rawget(L, -2) == LUA_TSTRING) name = lua_tostring(L, -1); /* the table holds it */
  int d = gs_graph_find_dim(g, name);
  lua_pop(L, 2);
  return d;
}

static int core_alias(lua_State *L) {
  gs_author *a = author_of(L);
  luaL_unref(L, LUA_REGISTRYINDEX, a->alias);
  a->alias = LUA_NOREF;
  lua_settop(L, 1);
  if (lua_istable(L, 1)) a->alias = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

int value_dim(lua_State *L, int i, const char *what) {
  gs_graph *g = value_graph(L);
  if (lua_type(L, i) != LUA_TSTRING) {
    author_report(L, NULL, "%s: a dim's name is wanted, not %s", what, luaL_typename(L, i));
    return -1;
  }
  const char *name = lua_tostring(L, i);
  int d = find_dim(L, name), top = lua_gettop(L);
  if (d >= 0 || author_of(L)->dims_unknown) return d;
  lua_newtable(L);
  for (int k = 0; k < gs_graph_ndims(g); k++) {
    lua_pushstring(L, gs_graph_dim_at(g, k)->name);
    lua_rawseti(L, -2, k + 1);
  }
  author_report(L, NULL, "%s: unknown dim '%.64s'%s", what, name, push_hint(L, name));
  lua_settop(L, top);
  return -1;
}

/* ---- operators ---- */

static int binary(lua_State *L, gs_op op, const char *what) {
  value v[2];
  const char *left = lua_pushfstring(L, "the left side of %s", what);
  const char *right = lua_pushfstring(L, "the right side of %s", what);
  bool ok = value_operand(L, 1, left, &v[0]);
  ok &= value_operand(L, 2, right, &v[1]);
  if (!ok) return push_nothing(L), 1;
  gs_node n = {.op = op};
  return value_apply(L, &n, v, 2, v[0].shown | v[1].shown);
}

static int mm_add(lua_State *L) {
  return binary(L, GS_OP_ADD, "+");
}
static int mm_sub(lua_State *L) {
  return binary(L, GS_OP_SUB, "-");
}
static int mm_mul(lua_State *L) {
  return binary(L, GS_OP_MUL, "*");
}
static int mm_div(lua_State *L) {
  return binary(L, GS_OP_DIV, "/");
}
static int mm_pow(lua_State *L) {
  return binary(L, GS_OP_POW, "^");
}

static int mm_unm(lua_State *L) {
  value v;
  if (!value_operand(L, 1, "the operand of -", &v)) return push_nothing(L), 1;
  gs_node n = {.op = GS_OP_NEG};
  return value_apply(L, &n, &v, 1, v.shown);
}

/* Operators that Lua forces to a truth value or a string, so that they cannot build expressions. */
static int mm_order(lua_State *L) {
  author_report(L, NULL, "Lua's < and <= cannot compare values: use gs.lt, gs.le, gs.gt or gs.ge");
  lua_pushboolean(L, 0);
  return 1;
}

static int mm_equal(lua_State *L) {
  value *a = luaL_testudata(L, 1, VALUE), *b = luaL_testudata(L, 2, VALUE);
  if (a && b && a->id && b->id)
    author_report(L, NULL, "Lua's == cannot compare values, it is always false: use gs.eq");
  lua_pushboolean(L, 0);
  return 1;
}

static int mm_none(lua_State *L) {
  author_report(L, NULL,
                "values have the operators + - * / ^ and unary - only; see gs.floor, "
                "gs.and_, gs.or_, gs.not_, gs.eq");
  return push_nothing(L), 1;
}

static int mm_call(lua_State *L) {
  value *v = lua_touserdata(L, 1);
  if (v->id) author_report(L, NULL, "a value is called as if it were a function");
  return push_nothing(L), 1;
}

/* e.type: the storage type of an input or of a rounded value. */
static int mm_index(lua_State *L) {
  value *v = lua_touserdata(L, 1);
  const char *key = lua_tostring(L, 2);
  if (v->id == 0) return push_nothing(L), 1;
  if (!key || strcmp(key, "type") != 0)
    author_report(L, NULL, "a value has no field '%s', only 'type'", key ? key : "?");
  else if (v->stored == GS_TYPE_NONE)
    author_report(L, NULL, "only inputs and rounded values have a storage type");
  else
    return lua_pushstring(L, gs_type_name(v->stored)), 1;
  return push_nothing(L), 1;
}

static int mm_newindex(lua_State *L) {
  author_report(L, NULL, "a value has no fields that could be set");
  return 0;
}

static int mm_tostring(lua_State *L) {
  value *v = lua_touserdata(L, 1);
  build *b = author_of(L)->b;
  if (v->id == 0 || !b || v->serial != author_of(L)->serial)
    return lua_pushliteral(L, "(no value)"), 1;
  gs_text text = {0};
  gs_print_expr(b->g, v->id, &text);
  char line[256];
  size_t len = text.len < sizeof line ? text.len : sizeof line - 1;
  memcpy(line, text.s ? text.s : "", len);
  gs_text_free(&text); /* before Lua may raise */
  lua_pushlstring(L, line, len);
  return 1;
}

void value_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"__add", mm_add},           {"__sub", mm_sub},           {"__mul", mm_mul},
      {"__div", mm_div},           {"__pow", mm_pow},           {"__unm", mm_unm},
      {"__lt", mm_order},          {"__le", mm_order},          {"__eq", mm_equal},
      {"__mod", mm_none},          {"__idiv", mm_none},         {"__concat", mm_none},
      {"__len", mm_none},          {"__band", mm_none},         {"__bor", mm_none},
      {"__bxor", mm_none},         {"__bnot", mm_none},         {"__shl", mm_none},
      {"__shr", mm_none},          {"__call", mm_call},         {"__index", mm_index},
      {"__newindex", mm_newindex}, {"__tostring", mm_tostring}, {NULL, NULL}};
  luaL_newmetatable(L, VALUE);
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
  lua_pushcfunction(L, core_alias);
  lua_setfield(L, -2, "alias");
  fold_open(L);
}
