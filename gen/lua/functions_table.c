/* functions_table.c: tables of constants (gs.table, gs.bucket) and random numbers (gs.rand).
 *
 * A table is made anywhere in a file, also outside of forward; it enters a graph where it is read.
 */
#include "lua/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TABLE "gradsmith.table"
#define MOST_ELEMENTS 4096 /* 16 KiB of constants */

typedef struct table {
  int count;
  double value[];
} table;

/* ---- gs.table ---- */

static int fn_table(lua_State *L) {
  if (lua_type(L, 1) != LUA_TTABLE || lua_gettop(L) != 1) {
    author_report(L, NULL, "gs.table wants its numbers in braces: gs.table { 0, 0.5, 1 }");
    return push_nothing(L), 1;
  }
  lua_Unsigned n = lua_rawlen(L, 1);
  if (n < 1 || n > MOST_ELEMENTS) {
    author_report(L, NULL, "gs.table of %d numbers: 1 to %d are legal", (int)n, MOST_ELEMENTS);
    return push_nothing(L), 1;
  }
  table *t = lua_newuserdatauv(L, sizeof *t + sizeof(double) * (size_t)n, 0);
  t->count = (int)n;
  for (int k = 0; k < t->count; k++) {
    bool number = lua_rawgeti(L, 1, k + 1) == LUA_TNUMBER;
    t->value[k] = number ? (double)(float)lua_tonumber(L, -1) : NAN;
    if (!isfinite(t->value[k])) {
      author_report(L, NULL,
                    "element %d of gs.table, counted from 1, is %s: finite numbers of f32 "
                    "are wanted",
                    k + 1, luaL_tolstring(L, -1, NULL));
      return push_nothing(L), 1;
    }
    lua_pop(L, 1);
  }
  luaL_setmetatable(L, TABLE);
  return 1;
}

static int table_number(lua_State *L, const table *t) {
  int whole;
  lua_Integer i = lua_tointegerx(L, 2, &whole);
  if (whole && i >= 0 && i < t->count) {
    lua_pushnumber(L, t->value[i]);
    return 1;
  }
  author_report(L, NULL, "element %s of a table: a whole number from 0 to %d is legal",
                luaL_tolstring(L, 2, NULL), t->count - 1);
  return push_nothing(L), 1;
}

/* t[i]: a number for a number, a value for an integer value. */
static int table_index(lua_State *L) {
  const table *t = luaL_checkudata(L, 1, TABLE);
  if (lua_type(L, 2) == LUA_TNUMBER) return table_number(L, t);
  value v;
  if (lua_type(L, 2) == LUA_TSTRING) {
    author_report(L, NULL, "a table of constants has no field '%s': index it from 0",
                  lua_tostring(L, 2));
    return push_nothing(L), 1;
  }
  if (!value_operand(L, 2, "the index of a table", &v)) return push_nothing(L), 1;
  gs_node n = {.op = GS_OP_LOOKUP, .index = gs_graph_table(value_graph(L), t->value, t->count)};
  return value_apply(L, &n, &v, 1, v.shown);
}

static int table_length(lua_State *L) {
  const table *t = luaL_checkudata(L, 1, TABLE);
  lua_pushinteger(L, t->count);
  return 1;
}

static int table_set(lua_State *L) {
  author_report(L, NULL, "a table of constants cannot be changed");
  return 0;
}

/* bucket(e, t): how many of the ascending numbers of t are below e. */
static int fn_bucket(lua_State *L) {
  value v;
  if (!value_operand(L, 1, "argument 1 of gs.bucket", &v)) return push_nothing(L), 1;
  const table *t = luaL_testudata(L, 2, TABLE);
  if (!t) {
    author_report(L, NULL, "argument 2 of gs.bucket is a %s: gs.table { ... } is wanted",
                  luaL_typename(L, 2));
    return push_nothing(L), 1;
  }
  gs_node n = {.op = GS_OP_BUCKET, .index = gs_graph_table(value_graph(L), t->value, t->count)};
  return value_apply(L, &n, &v, 1, v.shown);
}

/* ---- gs.rand ---- */

/* FNV-1a. */
static uint32_t hash_of(const char *s) {
  uint32_t h = 2166136261u;
  for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
  return h;
}

static gs_id integer_of(gs_graph *g, gs_id id) {
  return gs_graph_node(g, id)->type == GS_I64 ? id : gs_op1(g, GS_OP_INTEGER, id);
}

/* The offset of gs.rand in the table at i; 0 where none is given. False with a report. */
static bool read_offset(lua_State *L, int i, gs_id *offset) {
  value v;
  *offset = 0;
  if (lua_isnoneornil(L, i)) return true;
  if (!read_option(L, i, "offset", "gs.rand")) return false;
  if (!value_operand(L, lua_gettop(L), "the offset of gs.rand", &v)) return false;
  const gs_node *n = gs_graph_node(value_graph(L), v.id);
  if (n->type != GS_I64 && n->op != GS_OP_CONST) {
    author_report(L, NULL, "the offset of gs.rand must be an integer: see gs.integer");
    return false;
  }
  if (v.shown) {
    author_report(L, NULL, "the offset of gs.rand has dims %s, but it must be one number",
                  value_dims(L, v.shown));
    return false;
  }
  *offset = integer_of(value_graph(L), v.id);
  return true;
}

/* rand(seed, "site", { "T", "H" } [, { offset = n }]): in [0, 1), by the flat index over the dims;
 * the offset is added to the index along the first. */
static int fn_rand(lua_State *L) {
  lua_settop(L, 4);
  value seed;
  if (!value_operand(L, 1, "the seed of gs.rand", &seed)) return push_nothing(L), 1;
  if (lua_type(L, 2) != LUA_TSTRING || lua_type(L, 3) != LUA_TTABLE || lua_rawlen(L, 3) < 1) {
    author_report(L, NULL,
                  "gs.rand wants a seed, the name of its site and a list of dims: "
                  "gs.rand(p.seed, \"dropout\", { \"T\", \"H\" })");
    return push_nothing(L), 1;
  }
  gs_graph *g = value_graph(L);
  gs_id flat = 0, offset;
  if (!read_offset(L, 4, &offset)) return push_nothing(L), 1;
  gs_dims dims = 0;
  for (int k = 1; k <= (int)lua_rawlen(L, 3); k++) {
    lua_rawgeti(L, 3, k);
    int d = value_dim(L, lua_gettop(L), "gs.rand");
    if (d < 0) return push_nothing(L), 1;
    if (dims >> d & 1) {
      author_report(L, NULL, "gs.rand over '%s' twice", lua_tostring(L, -1));
      return push_nothing(L), 1;
    }
    dims |= (gs_dims)1 << d;
    gs_id at = gs_apply(g, &(gs_node){.op = GS_OP_INDEX, .dim = {d}}, NULL);
    gs_id size = gs_apply(g, &(gs_node){.op = GS_OP_SIZE, .dim = {d}}, NULL);
    if (!flat)
      flat = offset ? gs_op2(g, GS_OP_ADD, at, offset) : at;
    else
      flat = gs_op2(g, GS_OP_ADD, gs_op2(g, GS_OP_MUL, flat, size), at);
  }
  value args[3] = {{.id = flat},
                   {.id = integer_of(g, gs_const(g, hash_of(lua_tostring(L, 2))))},
                   {.id = integer_of(g, seed.id)}};
  gs_node n = {.op = GS_OP_RAND};
  return value_apply(L, &n, args, 3, dims | seed.shown);
}

void table_functions(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"__index", table_index}, {"__len", table_length}, {"__newindex", table_set}, {NULL, NULL}};
  static const luaL_Reg functions[] = {
      {"table", fn_table}, {"bucket", fn_bucket}, {"rand", fn_rand}, {NULL, NULL}};
  luaL_newmetatable(L, TABLE);
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
