/* functions.c: the functions of the language that make nodes: gs.exp, gs.sum, gs.split ...
 *
 * Elementwise ones follow from the rows of the graph's table of operations. Everything here only
 * reads its arguments and calls value_apply; what is legal is the graph's to say. */
#include "lua/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- elementwise: one closure a row of the table ---- */

static int elementwise(lua_State *L) {
  gs_op op = (gs_op)lua_tointeger(L, lua_upvalueindex(1));
  int arity = (int)lua_tointeger(L, lua_upvalueindex(2));
  const char *name = lua_tostring(L, lua_upvalueindex(3));
  value v[GS_MAX_ARGS];
  gs_dims shown = 0;
  bool ok = true;
  for (int k = 0; k < arity; k++) {
    char what[64];
    snprintf(what, sizeof what, "argument %d of gs.%s", k + 1, name);
    ok &= value_operand(L, k + 1, what, &v[k]);
    shown |= v[k].shown;
  }
  if (lua_gettop(L) > arity) {
    author_report(L, NULL, "gs.%s takes %d argument%s, not %d", name, arity, arity == 1 ? "" : "s",
                  lua_gettop(L));
    ok = false;
  }
  if (!ok) return push_nothing(L), 1;
  gs_node n = {.op = op};
  return value_apply(L, &n, v, arity, shown);
}

static void add_elementwise(lua_State *L, gs_op op, const char *name) {
  lua_pushinteger(L, op);
  lua_pushinteger(L, gs_op_row(op)->arity);
  lua_pushstring(L, name);
  lua_pushcclosure(L, elementwise, 3);
  lua_setfield(L, -2, name);
}

/* ---- reductions ---- */

bool dims_operand(lua_State *L, int i, gs_dims have, const char *what, gs_dims *out) {
  *out = 0;
  if (lua_type(L, i) == LUA_TSTRING && strcmp(lua_tostring(L, i), "all") == 0) {
    *out = have;
    return true;
  }
  int count = lua_type(L, i) == LUA_TTABLE ? (int)lua_rawlen(L, i) : 1;
  for (int k = 1; k <= count; k++) {
    if (lua_type(L, i) == LUA_TTABLE)
      lua_rawgeti(L, i, k);
    else
      lua_pushvalue(L, i);
    int d = value_dim(L, lua_gettop(L), what);
    lua_pop(L, 1);
    if (d < 0) return false;
    if (!(have >> d & 1)) {
      author_report(L, NULL, "%s over %s: the value has dims %s", what,
                    gs_graph_dim_at(value_graph(L), d)->name, value_dims(L, have));
      lua_pop(L, 1);
      return false;
    }
    if (*out >> d & 1) {
      author_report(L, NULL, "%s over '%s' twice", what, gs_graph_dim_at(value_graph(L), d)->name);
      return false;
    }
    *out |= (gs_dims)1 << d;
  }
  return true;
}

/* Reads (value, dims) and pushes the reduction. */
static bool reduction(lua_State *L, gs_op op, const char *what, gs_dims *over) {
  value v;
  char arg[64];
  snprintf(arg, sizeof arg, "argument 1 of %s", what);
  if (!value_operand(L, 1, arg, &v)) return push_nothing(L), false;
  if (!dims_operand(L, 2, v.shown, what, over)) return push_nothing(L), false;
  gs_node n = {.op = op, .rdims = *over};
  value_apply(L, &n, &v, 1, v.shown & ~*over);
  return true;
}

static int fn_sum(lua_State *L) {
  gs_dims over;
  reduction(L, GS_OP_SUM, "gs.sum", &over);
  return 1;
}

static int fn_logsumexp(lua_State *L) {
  gs_dims over;
  reduction(L, GS_OP_LOGSUMEXP, "gs.logsumexp", &over);
  return 1;
}

static int fn_mean(lua_State *L) {
  gs_dims over;
  if (!reduction(L, GS_OP_SUM, "gs.mean", &over)) return 1;
  value sum, size;
  if (!value_operand(L, -1, "the sum of gs.mean", &sum)) return push_nothing(L), 1;
  for (int d = 0; over >> d; d++) {
    if (!(over >> d & 1)) continue;
    gs_node n = {.op = GS_OP_SIZE, .dim = {d}};
    value_apply(L, &n, NULL, 0, 0);
    value_operand(L, -1, "a size", &size);
    gs_node div = {.op = GS_OP_DIV};
    value args[2] = {sum, size};
    value_apply(L, &div, args, 2, sum.shown);
    value_operand(L, -1, "a mean", &sum);
  }
  return 1;
}

/* min and max: of two values elementwise; of a value and dims a reduction. */
static int extremum(lua_State *L, gs_op two, gs_op reduce, const char *what) {
  gs_dims over;
  if (lua_type(L, 2) == LUA_TSTRING || lua_type(L, 2) == LUA_TTABLE) {
    reduction(L, reduce, what, &over);
    return 1;
  }
  value v[2];
  char arg[64];
  snprintf(arg, sizeof arg, "argument 1 of %s", what);
  bool ok = value_operand(L, 1, arg, &v[0]);
  arg[9] = '2';
  ok &= value_operand(L, 2, arg, &v[1]);
  if (!ok) return push_nothing(L), 1;
  gs_node n = {.op = two};
  return value_apply(L, &n, v, 2, v[0].shown | v[1].shown);
}

static int fn_min(lua_State *L) {
  return extremum(L, GS_OP_MIN, GS_OP_RMIN, "gs.min");
}
static int fn_max(lua_State *L) {
  return extremum(L, GS_OP_MAX, GS_OP_RMAX, "gs.max");
}

/* ---- dims as values, rounding ---- */

static int dim_leaf(lua_State *L, gs_op op, const char *what, bool varies) {
  int d = value_dim(L, 1, what);
  if (d < 0) return push_nothing(L), 1;
  gs_node n = {.op = op, .dim = {d}};
  return value_apply(L, &n, NULL, 0, varies ? (gs_dims)1 << d : 0);
}

static int fn_index(lua_State *L) {
  return dim_leaf(L, GS_OP_INDEX, "gs.index", true);
}
static int fn_size(lua_State *L) {
  return dim_leaf(L, GS_OP_SIZE, "gs.size", false);
}

bool read_option(lua_State *L, int i, const char *name, const char *what) {
  bool good = lua_type(L, i) == LUA_TTABLE;
  if (good) {
    lua_pushnil(L);
    while (lua_next(L, i)) {
      lua_pop(L, 1);
      good &= lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), name) == 0;
    }
  }
  if (good && lua_getfield(L, i, name) != LUA_TNIL) return true;
  author_report(L, NULL, "argument %d of %s may be { %s = ... } only", i, what, name);
  return false;
}

static int fn_round(lua_State *L) {
  value v;
  if (!value_operand(L, 1, "argument 1 of gs.round", &v)) return push_nothing(L), 1;
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : NULL;
  gs_type t = name ? gs_type_from_name(name) : GS_TYPE_NONE;
  if (t != GS_F32 && t != GS_BF16 && t != GS_F16 && t != GS_E4M3 && t != GS_E5M2 && t != GS_E8M0) {
    author_report(L, NULL,
                  "gs.round to %s%s%s: a storage type is wanted: \"f32\", \"bf16\", "
                  "\"f16\", \"e4m3\", \"e5m2\", \"e8m0\", or that of an input, p.x.type",
                  name ? "'" : "a ", name ? name : luaL_typename(L, 2), name ? "'" : "");
    return push_nothing(L), 1;
  }
  gs_node n = {.op = GS_OP_ROUND, .to = t};
  if (lua_isnoneornil(L, 3)) return value_apply(L, &n, &v, 1, v.shown);
  value args[2] = {v};
  if (!read_option(L, 3, "rand", "gs.round")) return push_nothing(L), 1;
  if (!value_operand(L, -1, "the random number of gs.round", &args[1])) return push_nothing(L), 1;
  n.op = GS_OP_ROUND_RAND;
  return value_apply(L, &n, args, 2, v.shown | args[1].shown);
}

/* ---- views ---- */

/* Applies a view that takes the dims in `from` away and gives those in `to`. */
static int view(lua_State *L, gs_node *n, const value *v, gs_dims from, gs_dims to,
                const char *what) {
  if (from & ~v->shown) {
    author_report(L, NULL, "%s of %s: the value has dims %s", what, value_dims(L, from),
                  value_dims(L, v->shown));
    return push_nothing(L), 1;
  }
  return value_apply(L, n, v, 1, (v->shown & ~from) | to);
}

static bool is_name(const char *s) {
  size_t n = 0;
  while (isalnum((unsigned char)s[n]) || s[n] == '_') n++;
  return n > 0 && n < 32 && s[n] == 0 && !isdigit((unsigned char)s[0]) && strcmp(s, "all") != 0;
}

/* Adds a dim of a size (or like another), or -1 with a report. */
static int add_dim(lua_State *L, const char *name, int64_t size, int like, const char *what) {
  gs_graph *g = value_graph(L);
  if (!is_name(name)) {
    author_report(L, NULL, "%s: '%s' is not a name that a dim can have", what, name);
    return -1;
  }
  if (like < 0 && size <= 0) {
    author_report(L, NULL,
                  "%s: the size of dim '%s' is not known: declare it in dims, or write '%s=SIZE'",
                  what, name, name);
    return -1;
  }
  int d = like >= 0 ? gs_graph_dim_like(g, name, like) : gs_graph_dim(g, name, size);
  if (d < 0) author_report(L, NULL, "%s: a layer may have at most %d dims", what, GS_MAX_DIMS);
  return d;
}

/* A dim to be made: found, or added with the size. `spec` is "h" or "k=64". */
static int made_dim(lua_State *L, int i, int64_t size, const char *what) {
  gs_graph *g = value_graph(L);
  if (lua_type(L, i) != LUA_TSTRING) return value_dim(L, i, what);
  const char *spec = lua_tostring(L, i), *eq = strchr(spec, '=');
  const char *name = lua_pushlstring(L, spec, eq ? (size_t)(eq - spec) : strlen(spec));
  if (eq) size = strtoll(eq + 1, NULL, 10);
  int d = find_dim(L, name);
  if (d < 0) {
    d = add_dim(L, name, size, -1, what);
  } else if (eq && gs_graph_dim_at(g, d)->size != size) {
    author_report(L, NULL, "%s: dim '%s' has size %d already, not %d", what, name,
                  (int)gs_graph_dim_at(g, d)->size, (int)size);
    d = -1;
  }
  lua_pop(L, 1);
  return d;
}

/* The size that spec at i stands for: of a known dim or "k=64"; 0 when unknown. */
static int64_t spec_size(lua_State *L, int i) {
  const char *spec = lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : "";
  const char *eq = strchr(spec, '=');
  if (eq) return strtoll(eq + 1, NULL, 10);
  int d = find_dim(L, spec);
  return d >= 0 ? gs_graph_dim_at(value_graph(L), d)->size : 0;
}

static gs_dims bit_of(int d) {
  return (gs_dims)1 << d;
}

/* Is { tail = "mask" } given? False with a report where there is something else. */
static bool read_tail(lua_State *L, bool *mask) {
  *mask = false;
  if (lua_isnoneornil(L, 5)) return true;
  if (!read_option(L, 5, "tail", "gs.split")) return false;
  *mask = lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "mask") == 0;
  if (!*mask) author_report(L, NULL, "argument 5 of gs.split may be { tail = \"mask\" } only");
  return *mask;
}

/* The name in the spec at i, "k" of "k=64", left on the stack. */
static const char *spec_name(lua_State *L, int i) {
  const char *spec = lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : "?";
  return lua_pushlstring(L, spec, strcspn(spec, "="));
}

/* A rest must be masked knowingly. */
static bool tail_allowed(lua_State *L, int d, int64_t s1, int64_t s2) {
  const gs_dim *dim = gs_graph_dim_at(value_graph(L), d);
  if (dim->size < 0) {
    author_report(L, NULL,
                  "gs.split of the outer dim '%s' may leave a rest: write { tail = \"mask\" } as "
                  "its fifth argument, and what lies past the end reads as 0",
                  dim->name);
    return false;
  }
  int64_t one = s1 > 0 ? s1 : s2;
  if (one > 0 && (s1 <= 0 || s2 <= 0)) {
    author_report(L, NULL,
                  "gs.split of %s (%d) by %d leaves a rest of %d: write { tail = \"mask\" } as the "
                  "fifth argument, and what lies past the end reads as 0",
                  dim->name, (int)dim->size, (int)one, (int)(dim->size % one));
    return false;
  }
  if (one <= 0 || s1 * s2 == dim->size) return true;
  author_report(L, NULL,
                "split of %s (%d) as %s (%d) times %s (%d): the sizes must multiply to %d; for a "
                "last block that is not full, write { tail = \"mask\" } as the fifth argument",
                dim->name, (int)dim->size, spec_name(L, 3), (int)s1, spec_name(L, 4), (int)s2,
                (int)dim->size);
  return false;
}

/* The blocks of an outer dim d, s2 long: the dim named at 3. */
static int blocks_dim(lua_State *L, int d, int64_t s2) {
  gs_graph *g = value_graph(L);
  const char *name = lua_type(L, 3) == LUA_TSTRING ? lua_tostring(L, 3) : "";
  if (!is_name(name) || s2 < 1 || find_dim(L, name) >= 0) return made_dim(L, 3, 0, "gs.split");
  int made = gs_graph_dim_blocks(g, name, d, s2);
  if (made < 0) author_report(L, NULL, "gs.split: a layer may have at most %d dims", GS_MAX_DIMS);
  return made;
}

/* split(e, "D", "two=2", "h"): D -> (two, h), h the faster; one of the sizes may be left out.
 * { tail = "mask" }: the last block may be shorter, and past the end reads as 0. */
static int fn_split(lua_State *L) {
  value v;
  bool mask;
  if (!value_operand(L, 1, "argument 1 of gs.split", &v)) return push_nothing(L), 1;
  int d = value_dim(L, 2, "gs.split");
  if (d < 0 || !read_tail(L, &mask)) return push_nothing(L), 1;
  int64_t whole = gs_graph_dim_at(value_graph(L), d)->size;
  int64_t s1 = spec_size(L, 3), s2 = spec_size(L, 4);
  bool known = whole >= 0;
  if (known && s1 <= 0 && s2 > 0 && (mask || whole % s2 == 0)) s1 = (whole - 1) / s2 + 1;
  if (known && s2 <= 0 && s1 > 0 && (mask || whole % s1 == 0)) s2 = (whole - 1) / s1 + 1;
  if (!mask && !tail_allowed(L, d, s1, s2)) return push_nothing(L), 1;
  int d1 = known ? made_dim(L, 3, s1, "gs.split") : blocks_dim(L, d, s2);
  int d2 = d1 < 0 ? -1 : made_dim(L, 4, s2, "gs.split");
  if (d2 < 0) return push_nothing(L), 1;
  gs_node n = {.op = GS_OP_SPLIT, .dim = {d, d1, d2}};
  return view(L, &n, &v, bit_of(d), bit_of(d1) | bit_of(d2), "gs.split");
}

/* merge(e, "two", "h", "D"): the inverse. */
static int fn_merge(lua_State *L) {
  value v;
  if (!value_operand(L, 1, "argument 1 of gs.merge", &v)) return push_nothing(L), 1;
  int d1 = value_dim(L, 2, "gs.merge"), d2 = d1 < 0 ? -1 : value_dim(L, 3, "gs.merge");
  if (d2 < 0) return push_nothing(L), 1;
  gs_graph *g = value_graph(L);
  int64_t size = gs_graph_dim_at(g, d1)->size * gs_graph_dim_at(g, d2)->size;
  int d = made_dim(L, 4, size, "gs.merge");
  if (d < 0) return push_nothing(L), 1;
  gs_node n = {.op = GS_OP_MERGE, .dim = {d, d1, d2}};
  return view(L, &n, &v, bit_of(d1) | bit_of(d2), bit_of(d), "gs.merge");
}

/* pick(e, "two", 0) */
static int fn_pick(lua_State *L) {
  value v;
  if (!value_operand(L, 1, "argument 1 of gs.pick", &v)) return push_nothing(L), 1;
  int d = value_dim(L, 2, "gs.pick"), whole;
  if (d < 0) return push_nothing(L), 1;
  gs_node n = {.op = GS_OP_PICK, .dim = {d}, .index = lua_tointegerx(L, 3, &whole)};
  if (!whole) {
    author_report(L, NULL,
                  "argument 3 of gs.pick is a fixed index from 0, a whole number; for an "
                  "index that is a value use gs.at");
    return push_nothing(L), 1;
  }
  return view(L, &n, &v, bit_of(d), 0, "gs.pick");
}

/* slice(e, "D", "r=32" [, from]) */
static int fn_slice(lua_State *L) {
  value v;
  if (!value_operand(L, 1, "argument 1 of gs.slice", &v)) return push_nothing(L), 1;
  int d = value_dim(L, 2, "gs.slice");
  int d1 = d < 0 ? -1 : made_dim(L, 3, 0, "gs.slice");
  if (d1 < 0) return push_nothing(L), 1;
  gs_node n = {.op = GS_OP_SLICE, .dim = {d, d1}, .index = luaL_optinteger(L, 4, 0)};
  return view(L, &n, &v, bit_of(d), bit_of(d1), "gs.slice");
}

/* rename(e, "T", "S"): S is made, of T's size, when it is not known. */
static int fn_rename(lua_State *L) {
  value v;
  if (!value_operand(L, 1, "argument 1 of gs.rename", &v)) return push_nothing(L), 1;
  int d = value_dim(L, 2, "gs.rename"), d1;
  if (d < 0) return push_nothing(L), 1;
  if (lua_type(L, 3) == LUA_TSTRING && find_dim(L, lua_tostring(L, 3)) < 0)
    d1 = add_dim(L, lua_tostring(L, 3), 0, d, "gs.rename");
  else
    d1 = value_dim(L, 3, "gs.rename");
  if (d1 < 0) return push_nothing(L), 1;
  gs_node n = {.op = GS_OP_RENAME, .dim = {d, d1}};
  return view(L, &n, &v, bit_of(d), bit_of(d1), "gs.rename");
}

#define MOST_JOINED 64

/* More than a node takes: where(index == 0, a, where(index == 1, b, ...)). */
static int join_many(lua_State *L, const value *v, int count, int d, gs_dims shown) {
  gs_graph *g = value_graph(L);
  value all = v[count - 1];
  gs_id at = gs_apply(g, &(gs_node){.op = GS_OP_INDEX, .dim = {d}}, NULL);
  for (int k = count - 2; k >= 0; k--) {
    gs_node n = {.op = GS_OP_WHERE};
    value args[3] = {{.id = gs_op2(g, GS_OP_EQ, at, gs_const(g, k))}, v[k], all};
    value_apply(L, &n, args, 3, shown);
    if (!value_operand(L, -1, "a value of gs.join", &all)) return push_nothing(L), 1;
    lua_pop(L, 1);
  }
  push_value(L, all.id, shown, GS_TYPE_NONE);
  return 1;
}

/* join({a, b}, "two") */
static int fn_join(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  int count = (int)lua_rawlen(L, 1);
  value v[MOST_JOINED];
  gs_dims shown = 0;
  bool ok = true;
  if (count < 1 || count > MOST_JOINED) {
    author_report(L, NULL, "gs.join takes 1 to %d values, not %d", MOST_JOINED, count);
    return push_nothing(L), 1;
  }
  for (int k = 0; k < count; k++) {
    char what[64];
    snprintf(what, sizeof what, "value %d of gs.join", k + 1);
    lua_rawgeti(L, 1, k + 1);
    ok &= value_operand(L, -1, what, &v[k]);
    shown |= v[k].shown;
    lua_pop(L, 1);
  }
  int d = ok ? made_dim(L, 2, count, "gs.join") : -1;
  if (d < 0) return push_nothing(L), 1;
  int64_t size = gs_graph_dim_at(value_graph(L), d)->size;
  if (count > GS_MAX_ARGS && size == count) return join_many(L, v, count, d, shown | bit_of(d));
  if (count > GS_MAX_ARGS) {
    author_report(L, NULL, "gs.join of %d values along %s, whose size is %d: they must agree",
                  count, gs_graph_dim_at(value_graph(L), d)->name, (int)size);
    return push_nothing(L), 1;
  }
  gs_node n = {.op = GS_OP_JOIN, .dim = {d}};
  return value_apply(L, &n, v, count, shown | bit_of(d));
}

/* ---- gathers ---- */

/* at(e, "V", i [, ok]) */
static int fn_at(lua_State *L) {
  value v[3];
  int nargs = lua_isnoneornil(L, 4) ? 2 : 3;
  bool ok = value_operand(L, 1, "argument 1 of gs.at", &v[0]);
  int d = value_dim(L, 2, "gs.at");
  ok &= value_operand(L, 3, "the index of gs.at", &v[1]);
  if (nargs == 3) ok &= value_operand(L, 4, "the guard of gs.at", &v[2]);
  if (!ok || d < 0) return push_nothing(L), 1;
  if (!(v[0].shown >> d & 1)) {
    author_report(L, NULL, "gs.at along %s: the value has dims %s",
                  gs_graph_dim_at(value_graph(L), d)->name, value_dims(L, v[0].shown));
    return push_nothing(L), 1;
  }
  gs_dims shown = (v[0].shown & ~bit_of(d)) | v[1].shown | (nargs == 3 ? v[2].shown : 0);
  gs_node n = {.op = GS_OP_AT, .dim = {d}};
  return value_apply(L, &n, v, nargs, shown);
}

/* sum_by(e, key, "T", "V") */
static int fn_sum_by(lua_State *L) {
  value v[2];
  bool ok = value_operand(L, 1, "argument 1 of gs.sum_by", &v[0]);
  ok &= value_operand(L, 2, "the key of gs.sum_by", &v[1]);
  int d = value_dim(L, 3, "gs.sum_by"), to = value_dim(L, 4, "gs.sum_by");
  if (!ok || d < 0 || to < 0) return push_nothing(L), 1;
  gs_dims shown = v[0].shown | v[1].shown;
  if (!(shown >> d & 1)) {
    author_report(L, NULL, "gs.sum_by over %s: the value has dims %s",
                  gs_graph_dim_at(value_graph(L), d)->name, value_dims(L, shown));
    return push_nothing(L), 1;
  }
  gs_node n = {.op = GS_OP_SUM_BY, .dim = {d, to}};
  return value_apply(L, &n, v, 2, (shown & ~bit_of(d)) | bit_of(to));
}

void core_functions(lua_State *L) {
  static const struct {
    gs_op op;
    const char *name;
  } rows[] = {{GS_OP_ABS, "abs"},
              {GS_OP_EXP, "exp"},
              {GS_OP_LOG, "log"},
              {GS_OP_SQRT, "sqrt"},
              {GS_OP_RSQRT, "rsqrt"},
              {GS_OP_TANH, "tanh"},
              {GS_OP_SIN, "sin"},
              {GS_OP_SIGMOID, "sigmoid"},
              {GS_OP_COS, "cos"},
              {GS_OP_ERF, "erf"},
              {GS_OP_FLOOR, "floor"},
              {GS_OP_NOT, "not_"},
              {GS_OP_LOG1P, "log1p"},
              {GS_OP_EXPM1, "expm1"},
              {GS_OP_SOFTPLUS, "softplus"},
              {GS_OP_INTEGER, "integer"},
              {GS_OP_QUOTIENT, "quotient"},
              {GS_OP_REMAINDER, "remainder"},
              {GS_OP_REAL, "real"},
              {GS_OP_STOP, "stop"},
              {GS_OP_LT, "lt"},
              {GS_OP_LE, "le"},
              {GS_OP_GT, "gt"},
              {GS_OP_GE, "ge"},
              {GS_OP_EQ, "eq"},
              {GS_OP_NE, "ne"},
              {GS_OP_AND, "and_"},
              {GS_OP_OR, "or_"},
              {GS_OP_WHERE, "where"}};
  static const luaL_Reg others[] = {
      {"sum", fn_sum},       {"mean", fn_mean},   {"logsumexp", fn_logsumexp},
      {"min", fn_min},       {"max", fn_max},     {"index", fn_index},
      {"size", fn_size},     {"round", fn_round}, {"split", fn_split},
      {"merge", fn_merge},   {"pick", fn_pick},   {"slice", fn_slice},
      {"rename", fn_rename}, {"join", fn_join},   {"at", fn_at},
      {"sum_by", fn_sum_by}, {NULL, NULL}};
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
    add_elementwise(L, rows[k].op, rows[k].name);
  luaL_setfuncs(L, others, 0);
  table_functions(L);
}
