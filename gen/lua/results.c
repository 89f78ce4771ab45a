/* results.c: what forward and backward return: typed, laid out, held against the declaration.
 * Called by lua/gradsmith/build.lua through core.
 *
 * Keeps: every result's dims are dims of the declaration in their order, only the first may be
 * outer; every storage type is decided here, by the choice, the declaration or the layer's dtype.
 */
#include "lua/internal.h"

#include "derive/derive.h"

#include <stdio.h>
#include <string.h>

/* ---- storage types ---- */

gs_type build_type(build *b, const char *name, gs_type otherwise) {
  for (int k = 0; k < b->choice->ntypes; k++)
    if (strcmp(b->choice->type_names[k], name) == 0) {
      b->type_used[k] = true;
      return b->choice->types[k];
    }
  return otherwise;
}

static const char *with_d(build *b, const char *name) {
  return gs_arena_printf(b->inst->arena, "d%s", name);
}

/* The type of an output: by choice, as declared, or generic. */
static gs_type output_type(lua_State *L, build *b, const char *name, int declared) {
  const char *type = lua_type(L, declared) == LUA_TSTRING ? lua_tostring(L, declared) : NULL;
  return build_type(b, name, type ? gs_type_from_name(type) : b->inst->dtype);
}

bool holds_reals(gs_type t) {
  return t == GS_F32 || t == GS_BF16 || t == GS_F16 || t == GS_E4M3 || t == GS_E5M2 || t == GS_E8M0;
}

static build *building(lua_State *L) {
  build *b = author_of(L)->b;
  if (!b) luaL_error(L, "no layer is being built");
  return b;
}

/* ---- results ---- */

/* Converts r->expr to what its storage type holds: an integer may go to a float, not back. */
static bool fit_type(lua_State *L, build *b, gs_result *r, const char *place) {
  gs_type have = gs_graph_node(b->g, r->expr)->type;
  if (have == GS_BOOL && holds_reals(r->type)) {
    author_report(L, place,
                  "'%s' is a truth value, which cannot be stored as %s: use gs.real or gs.where, "
                  "or store it as \"u8\"",
                  r->name, gs_type_name(r->type));
    return false;
  }
  if (have == GS_F32 && !holds_reals(r->type)) {
    author_report(L, place,
                  "'%s' is a real number, but its storage type is %s: use gs.integer or gs.bucket",
                  r->name, gs_type_name(r->type));
    return false;
  }
  if (have == GS_BOOL)
    r->expr = gs_op1(b->g, GS_OP_INTEGER, gs_op1(b->g, GS_OP_REAL, r->expr));
  else if (have == GS_I64 && holds_reals(r->type))
    r->expr = gs_op1(b->g, GS_OP_REAL, r->expr);
  return true;
}

/* ---- what the dims of a mistake come from ---- */

/* The expression, shortened; left on the stack. */
static const char *short_text(lua_State *L, build *b, gs_id id) {
  gs_text t = {0};
  gs_print_expr(b->g, id, &t);
  char cut[64];
  snprintf(cut, sizeof cut, "%s", t.s ? t.s : "");
  if (t.len >= sizeof cut) memcpy(cut + sizeof cut - 4, "...", 4);
  gs_text_free(&t); /* before Lua may raise */
  return lua_pushstring(L, cut);
}

/* The innermost part of an expression that has all of `extra`, as "dy [T, H] * x [T, H]"; left on
 * the stack. */
static const char *origin(lua_State *L, build *b, gs_id id, gs_dims extra) {
  const gs_node *n = gs_graph_node(b->g, id);
  for (;;) {
    int with = -1, count = 0;
    for (int k = 0; k < n->nargs; k++)
      if ((gs_graph_node(b->g, n->arg[k])->dims & extra) == extra) with = k, count++;
    if (count != 1 || n->nargs > 2) break;
    if (n->nargs == 2 && gs_graph_node(b->g, n->arg[1 - with])->dims & extra) break;
    id = n->arg[with];
    n = gs_graph_node(b->g, id);
  }
  bool two = n->nargs == 2 && n->op >= GS_OP_ADD && n->op <= GS_OP_POW;
  if (!two)
    return lua_pushfstring(L, "%s has dims %s", short_text(L, b, id), value_dims(L, n->dims));
  static const char sign[] = "+-*/^";
  gs_id x = n->arg[0], y = n->arg[1];
  return lua_pushfstring(L, "%s %s %c %s %s", short_text(L, b, x),
                         value_dims(L, gs_graph_node(b->g, x)->dims), sign[n->op - GS_OP_ADD],
                         short_text(L, b, y), value_dims(L, gs_graph_node(b->g, y)->dims));
}

/* A declared dim of the size of d (or that d is a rename of), which `have` lacks; -1: none. */
static int twin_of(build *b, int d, gs_dims have) {
  const gs_dim *x = gs_graph_dim_at(b->g, d);
  for (int k = 0; k < b->layer->decl.ndims; k++) {
    bool same = x->size > 0 ? gs_graph_dim_at(b->g, k)->size == x->size
                            : gs_graph_dim_root(b->g, d) == gs_graph_dim_root(b->g, k);
    if (k != d && !(have >> k & 1) && same) return k;
  }
  return -1;
}

/* "; did you mean dim H? gs.rename(e, "S", "H")", or ""; left on the stack. */
static const char *twin_hint(lua_State *L, build *b, int d, gs_dims have, gs_dims wanted) {
  int k = twin_of(b, d, have);
  if (k < 0 || !(wanted >> k & 1)) return lua_pushliteral(L, "");
  const char *from = gs_graph_dim_at(b->g, d)->name, *to = gs_graph_dim_at(b->g, k)->name;
  return lua_pushfstring(L, "; did you mean dim %s? gs.rename(e, \"%s\", \"%s\")", to, from, to);
}

static bool undeclared_dim(lua_State *L, build *b, const gs_result *r, int d, gs_dims dims,
                           const char *place) {
  report_note(L, place, origin(L, b, r->expr, (gs_dims)1 << d),
              "'%s' has dim %s, which dims does not declare (its dims are %s)%s", r->name,
              gs_graph_dim_at(b->g, d)->name, value_dims(L, dims),
              twin_hint(L, b, d, dims, ~(gs_dims)0));
  return false;
}

static bool lay_out(lua_State *L, build *b, gs_result *r, gs_dims dims, const char *place) {
  const gs_layer_decl *d = &b->layer->decl;
  for (int k = 0; k < gs_graph_ndims(b->g); k++) {
    if (!(dims >> k & 1)) continue;
    if (k >= d->ndims) return undeclared_dim(L, b, r, k, dims, place);
    if (r->ndims == GS_MAX_RANK) {
      author_report(L, place, "'%s' has dims %s: a tensor may have at most %d", r->name,
                    value_dims(L, dims), GS_MAX_RANK);
      return false;
    }
    if (d->dim_outer[k] && r->ndims > 0) {
      gs_dims both = (gs_dims)1 << k | (gs_dims)1 << r->dim[0];
      report_note(
          L, place, origin(L, b, r->expr, both),
          "'%s' has dims %s: only the first dim of a tensor may be outer, but %s is too: sum "
          "over one of them, or write the one with its inner dims merged",
          r->name, value_dims(L, dims), d->dims[k]);
      return false;
    }
    r->dim[r->ndims++] = k;
  }
  return true;
}

static gs_result *new_forward(build *b) {
  gs_instance *i = b->inst;
  if (i->nforward == b->cap_forward) {
    int cap = b->cap_forward ? 2 * b->cap_forward : 8;
    gs_result *r = GS_NEW_N(i->arena, gs_result, cap);
    int *stored = GS_NEW_N(i->arena, int, cap);
    gs_type *types = GS_NEW_N(i->arena, gs_type, cap);
    if (i->nforward) {
      memcpy(r, i->forward, sizeof *r * (size_t)i->nforward);
      memcpy(stored, b->stored, sizeof *stored * (size_t)i->nforward);
    }
    i->forward = r;
    if (i->nforward) memcpy(types, b->declared_type, sizeof *types * (size_t)i->nforward);
    b->declared_type = types;
    b->stored = stored;
    b->cap_forward = cap;
  }
  b->stored[i->nforward] = -1;
  gs_result *r = &i->forward[i->nforward++];
  memset(r, 0, sizeof *r);
  return r;
}

/* Where a result is written: at its field, else where the value was made, else at the function. */
typedef struct where {
  const char *place;
  bool exact; /* the field was found */
} where;

/* Reads the value at i of a result. Without a field of its own its mistakes are told where it was
 * made; the text stays on Lua's stack. */
static bool result_value(lua_State *L, int i, const char *what, where *w, value *v) {
  gs_author *a = author_of(L);
  a->hint = w->place;
  bool ok = value_operand(L, i, what, v);
  a->hint = NULL;
  if (ok && v->line && !w->exact) w->place = lua_pushfstring(L, "%s:%d", v->file, v->line);
  return ok;
}

static where where_at(lua_State *L, int i) {
  return (where){luaL_checkstring(L, i), lua_toboolean(L, i + 1)};
}

/* What is saved must be more than backward has anyway. */
static bool is_known(lua_State *L, build *b, const gs_result *r, const value *v, bool has_type,
                     const char *place) {
  const gs_node *n = gs_graph_node(b->g, v->id);
  if (v->line == 0 && n->op == GS_OP_INPUT) {
    const char *name = gs_graph_tensor_at(b->g, (int)n->index)->name;
    author_report(L, place, "saved '%s' is p.%s itself: backward can read p.%s", r->name, name,
                  name);
    return true;
  }
  for (int k = 0; k < b->inst->nforward; k++) {
    const gs_result *o = &b->inst->forward[k];
    if (o == r || o->expr != v->id || v->line == 0) continue;
    if (!o->is_saved && (has_type || b->declared_type[k] != GS_F32)) continue;
    author_report(L, place, "saved '%s' is what %s '%s' holds: backward can read s.%s", r->name,
                  o->is_saved ? "saved" : "output", o->name, o->name);
    return true;
  }
  return false;
}

/* output(name, value, type or nil, saved, place, exact): one result of forward. */
static int core_output(lua_State *L) {
  build *b = building(L);
  const char *name = luaL_checkstring(L, 1);
  where w = where_at(L, 5);
  bool saved = lua_toboolean(L, 4), has_type = lua_isstring(L, 3);
  gs_type declared = has_type ? gs_type_from_name(lua_tostring(L, 3)) : GS_TYPE_NONE;
  value v;
  if (!result_value(L, 2, lua_pushfstring(L, "'%s'", name), &w, &v)) return 0;
  gs_result *r = new_forward(b);
  b->declared_type[b->inst->nforward - 1] = declared;
  r->name = gs_arena_strdup(b->inst->arena, name);
  r->expr = v.id;
  r->is_saved = saved;
  if (!saved)
    r->type = output_type(L, b, name, 3);
  else if (!has_type && gs_graph_node(b->g, v.id)->type == GS_I64)
    r->type = build_type(b, name, GS_I32);
  else
    r->type = build_type(b, name, has_type ? declared : GS_F32);
  bool good = !(saved && is_known(L, b, r, &v, has_type, w.place)) && fit_type(L, b, r, w.place) &&
              lay_out(L, b, r, v.shown, w.place);
  if (!good) b->inst->nforward--; /* what is made of it is silent */
  return 0;
}

/* seam(name, value, type or nil): the value as output `name` will hold it. */
static int core_seam(lua_State *L) {
  build *b = building(L);
  value v;
  if (!value_operand(L, 2, luaL_checkstring(L, 1), &v)) return push_nothing(L), 1;
  gs_type t = output_type(L, b, lua_tostring(L, 1), 3);
  if (!holds_reals(t)) { /* an integer: exact as it is */
    lua_pushvalue(L, 2);
    return 1;
  }
  gs_node n = {.op = GS_OP_ROUND, .to = t};
  return value_apply(L, &n, &v, 1, v.shown);
}

/* outside(value, names): the dims of a value when it has one that is not in the list, else nil. */
static int core_outside(lua_State *L) {
  value *v = luaL_testudata(L, 1, "gradsmith.value");
  luaL_checktype(L, 2, LUA_TTABLE);
  if (!v || v->id == 0) return lua_pushnil(L), 1;
  gs_dims rest = v->shown;
  for (int k = 1; k <= (int)lua_rawlen(L, 2); k++) {
    lua_rawgeti(L, 2, k);
    int d = find_dim(L, luaL_checkstring(L, -1));
    if (d >= 0) rest &= ~((gs_dims)1 << d);
    lua_pop(L, 1);
  }
  if (rest)
    value_dims(L, v->shown);
  else
    lua_pushnil(L);
  return 1;
}

static gs_dims dims_of(const gs_result *r) {
  gs_dims s = 0;
  for (int k = 0; k < r->ndims; k++) s |= (gs_dims)1 << r->dim[k];
  return s;
}

static int add_tensor(build *b, const char *name, gs_role role, gs_type type, const gs_result *r) {
  gs_tensor t = {.name = name, .role = role, .type = type, .ndims = r->ndims};
  memcpy(t.dim, r->dim, sizeof t.dim);
  return gs_graph_tensor(b->g, &t);
}

static gs_result *forward_named(build *b, const char *name) {
  for (int k = 0; k < b->inst->nforward; k++)
    if (strcmp(b->inst->forward[k].name, name) == 0) return &b->inst->forward[k];
  return NULL;
}

/* stored(name): what backward reads of a result of forward. */
static int core_stored(lua_State *L) {
  build *b = building(L);
  gs_result *r = forward_named(b, luaL_checkstring(L, 1));
  if (!r) return push_nothing(L), 1;
  int t = add_tensor(b, r->name, r->is_saved ? GS_ROLE_SAVED : GS_ROLE_OUTPUT, r->type, r);
  b->stored[r - b->inst->forward] = t;
  push_value(L, gs_input(b->g, t), dims_of(r), r->type);
  return 1;
}

/* upstream(name): the gradient that comes in for an output. */
static int core_upstream(lua_State *L) {
  build *b = building(L);
  gs_result *r = forward_named(b, luaL_checkstring(L, 1));
  if (!r) return push_nothing(L), 1;
  const char *name = with_d(b, r->name);
  gs_type type = build_type(b, name, r->type);
  int t = add_tensor(b, name, GS_ROLE_UPSTREAM, type, r);
  push_value(L, gs_input(b->g, t), dims_of(r), type);
  return 1;
}

static bool gradient_dims(lua_State *L, build *b, const gs_tensor *t, const value *v,
                          const char *place) {
  gs_dims want = 0;
  for (int k = 0; k < t->ndims; k++) want |= (gs_dims)1 << t->dim[k];
  gs_dims more = v->shown & ~want;
  if (!more) return true;
  int first = 0;
  while (!(more >> first & 1)) first++;
  bool one = (more & (more - 1)) == 0;
  const char *hint = one ? twin_hint(L, b, first, v->shown, want) : "";
  gs_dims has = gs_graph_node(b->g, v->id)->dims & more;
  report_note(L, place, has ? origin(L, b, v->id, has) : NULL,
              "the gradient of '%s' has dims %s, but '%s' has %s%s%s%s", t->name,
              value_dims(L, v->shown), t->name, value_dims(L, want),
              *hint ? hint : ": sum it over ", *hint ? "" : value_dims(L, more),
              *hint ? "" : " with gs.sum");
  return false;
}

/* gradient(number of the parameter, value, place, exact) */
static int core_gradient(lua_State *L) {
  build *b = building(L);
  int p = (int)luaL_checkinteger(L, 1) - 1;
  where w = where_at(L, 3);
  const gs_tensor *t = gs_graph_tensor_at(b->g, b->param_tensor[p]);
  value v;
  const char *what = lua_pushfstring(L, "the gradient of '%s'", t->name);
  if (!result_value(L, 2, what, &w, &v)) return 0;
  gs_result *r = &b->inst->backward[b->inst->nbackward];
  memset(r, 0, sizeof *r);
  r->name = with_d(b, t->name);
  r->expr = v.id;
  r->ndims = t->ndims;
  memcpy(r->dim, t->dim, sizeof r->dim);
  r->type = build_type(b, r->name, t->role == GS_ROLE_WEIGHT ? GS_F32 : t->type);
  if (gradient_dims(L, b, t, &v, w.place) && fit_type(L, b, r, w.place)) b->inst->nbackward++;
  return 0;
}

static bool reads_output(build *b, gs_id id, const char *name) {
  gs_id n = gs_graph_size(b->g);
  bool *seen = GS_NEW_N(b->inst->arena, bool, n + 1);
  seen[id] = true;
  for (; id > 0; id--) { /* arguments have smaller ids */
    const gs_node *x = gs_graph_node(b->g, id);
    if (!seen[id]) continue;
    if (x->op == GS_OP_INPUT) {
      const gs_tensor *t = gs_graph_tensor_at(b->g, (int)x->index);
      if (t->role == GS_ROLE_OUTPUT && strcmp(t->name, name) == 0) return true;
    }
    for (int k = 0; k < x->nargs; k++) seen[x->arg[k]] = true;
  }
  return false;
}

/* recomputed(name, value, place, exact): an output that backward makes again. */
static int core_recomputed(lua_State *L) {
  build *b = building(L);
  const char *name = luaL_checkstring(L, 1);
  where w = where_at(L, 3);
  gs_instance *i = b->inst;
  gs_result *out = forward_named(b, name);
  value v;
  if (!out || !result_value(L, 2, lua_pushfstring(L, "recomputed '%s'", name), &w, &v)) return 0;
  gs_dims more = v.shown & ~dims_of(out);
  if (more) {
    report_note(L, w.place, origin(L, b, v.id, more),
                "recomputed '%s' has dims %s, but the output has %s", name, value_dims(L, v.shown),
                value_dims(L, dims_of(out)));
    return 0;
  }
  if (reads_output(b, v.id, name)) {
    author_report(L, w.place, "recomputed '%s' is made from s.%s, whose place it is to take", name,
                  name);
    return 0;
  }
  if (!i->recomputed) i->recomputed = GS_NEW_N(i->arena, gs_result, i->nforward);
  gs_result *r = &i->recomputed[i->nrecomputed];
  *r = *out;
  r->expr = v.id;
  r->inplace = NULL;
  if (fit_type(L, b, r, w.place)) i->nrecomputed++;
  return 0;
}

/* ---- the compiler's own backward ---- */

enum { MAX_DERIVED = 48 };

/* The node of the value t[name], t at index i; 0: none. */
static gs_id id_in(lua_State *L, int i, const char *name) {
  lua_pushstring(L, name);
  lua_rawget(L, i);
  value *v = luaL_testudata(L, -1, "gradsmith.value");
  lua_pop(L, 1);
  return v ? v->id : 0;
}

/* derive(outputs, d, s, inputs, place): tables of values by name; gives the gradients of the
 * inputs, or nil after a report. */
static int core_derive(lua_State *L) {
  build *b = building(L);
  gs_id y[MAX_DERIVED], dy[MAX_DERIVED], stored[MAX_DERIVED], x[MAX_DERIVED], d[MAX_DERIVED] = {0};
  const char *names[MAX_DERIVED];
  int ny = 0, nx = 0;
  const char *place = luaL_optstring(L, 5, NULL); /* text of the declaration, which outlives this */
  lua_settop(L, 4);
  for (lua_pushnil(L); lua_next(L, 2) && ny < MAX_DERIVED; lua_pop(L, 1)) {
    const char *name = lua_tostring(L, -2);
    y[ny] = id_in(L, 1, name);
    dy[ny] = id_in(L, 2, name);
    stored[ny] = id_in(L, 3, name);
    if (y[ny] && dy[ny]) ny++;
  }
  lua_settop(L, 4);
  for (lua_pushnil(L); lua_next(L, 4) && nx < MAX_DERIVED; lua_pop(L, 1)) {
    names[nx] = lua_tostring(L, -2);
    x[nx] = id_in(L, 4, names[nx]);
    if (x[nx] && gs_graph_node(b->g, x[nx])->op == GS_OP_INPUT) nx++;
  }
  lua_settop(L, 4);
  lua_newtable(L);
  gs_error err;
  if (gs_derive_backward(b->g, y, dy, stored, ny, x, nx, d, &err)) {
    author_report(L, place, "gs.derived: %s", err.message);
    lua_pushnil(L);
    return 1;
  }
  for (int k = 0; k < nx; k++) {
    gs_id id = d[k] ? d[k] : gs_const(b->g, 0);
    push_value(L, id, gs_graph_node(b->g, id)->dims, GS_TYPE_NONE);
    lua_setfield(L, -2, names[k]);
  }
  return 1;
}

/* ---- what is read ---- */

/* unread(backward only): a table {name = true} of the tensors that no result reads. */
static int core_unread(lua_State *L) {
  build *b = building(L);
  gs_instance *i = b->inst;
  gs_id n = gs_graph_size(b->g);
  int ntensors = gs_graph_ntensors(b->g);
  bool *seen = GS_NEW_N(i->arena, bool, n + 1), *read = GS_NEW_N(i->arena, bool, ntensors + 1);
  if (!lua_toboolean(L, 1))
    for (int k = 0; k < i->nforward; k++) seen[i->forward[k].expr] = true;
  for (int k = 0; k < i->nbackward; k++) seen[i->backward[k].expr] = true;
  for (gs_id id = n - 1; id > 0; id--) { /* arguments have smaller ids */
    if (!seen[id]) continue;
    const gs_node *node = gs_graph_node(b->g, id);
    if (node->op == GS_OP_INPUT || node->op == GS_OP_SCALAR) read[node->index] = true;
    for (int k = 0; k < node->nargs; k++) seen[node->arg[k]] = true;
  }
  lua_newtable(L);
  for (int t = 0; t < ntensors; t++) {
    if (read[t]) continue;
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, gs_graph_tensor_at(b->g, t)->name);
  }
  return 1;
}

static bool is_tensor(const build *b, const char *name) {
  for (int t = 0; t < gs_graph_ntensors(b->g); t++)
    if (strcmp(gs_graph_tensor_at(b->g, t)->name, name) == 0) return true;
  return false;
}

/* inplace(result, tensor): a result may share memory with a tensor that is read. Whether there is
 * such a result, and such a tensor. */
static int core_inplace(lua_State *L) {
  build *b = building(L);
  const char *name = luaL_checkstring(L, 1);
  const char *with = gs_arena_strdup(b->inst->arena, luaL_checkstring(L, 2));
  gs_result *r = forward_named(b, name);
  for (int k = 0; !r && k < b->inst->nbackward; k++)
    if (strcmp(b->inst->backward[k].name, name) == 0) r = &b->inst->backward[k];
  if (r) r->inplace = with;
  lua_pushboolean(L, r != NULL);
  lua_pushboolean(L, is_tensor(b, with));
  return 2;
}

void build_functions(lua_State *L) {
  static const luaL_Reg functions[] = {{"output", core_output},
                                       {"seam", core_seam},
                                       {"stored", core_stored},
                                       {"upstream", core_upstream},
                                       {"unread", core_unread},
                                       {"gradient", core_gradient},
                                       {"inplace", core_inplace},
                                       {"recomputed", core_recomputed},
                                       {"outside", core_outside},
                                       {"derive", core_derive},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  program_functions(L);
}
