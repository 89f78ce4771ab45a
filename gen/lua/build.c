/* build.c: one instantiation: symbols for the parameters, forward and backward called on them
 * (lua/gradsmith/build.lua drives), and their results typed and laid out.
 *
 * Keeps: every result's dims are dims of the declaration in their order, only the first may be
 * outer; every storage type is decided here, by the choice, the declaration or the layer's dtype.
 */
#include "lua/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- storage types ---- */

static gs_type chosen_type(build *b, const char *name, gs_type otherwise) {
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
  return chosen_type(b, name, type ? gs_type_from_name(type) : b->inst->dtype);
}

static bool is_float(gs_type t) {
  return t == GS_F32 || t == GS_BF16 || t == GS_F16;
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
  if (have == GS_BOOL) {
    author_report(L, place,
                  "'%s' is a truth value, which cannot be stored: use gs.real or gs.where",
                  r->name);
    return false;
  }
  if (have == GS_F32 && !is_float(r->type)) {
    author_report(L, place, "'%s' is a real number, but its storage type is %s", r->name,
                  gs_type_name(r->type));
    return false;
  }
  if (have == GS_I64 && is_float(r->type)) r->expr = gs_op1(b->g, GS_OP_REAL, r->expr);
  return true;
}

static void lay_out(lua_State *L, build *b, gs_result *r, gs_dims dims, const char *place) {
  const gs_layer_decl *d = &b->layer->decl;
  for (int k = 0; k < gs_graph_ndims(b->g); k++) {
    if (!(dims >> k & 1)) continue;
    if (k >= d->ndims || r->ndims == GS_MAX_RANK) {
      author_report(L, place,
                    k >= d->ndims ? "'%s' has dim %s, which dims does not declare (its dims are %s)"
                                  : "'%s' has more dims than a tensor may have, at %s: %s",
                    r->name, gs_graph_dim_at(b->g, k)->name, value_dims(L, dims));
      return;
    }
    if (d->dim_outer[k] && r->ndims > 0) {
      author_report(L, place,
                    "'%s' has dims %s: only the first dim of a tensor may be outer, but %s "
                    "is",
                    r->name, value_dims(L, dims), d->dims[k]);
      return;
    }
    r->dim[r->ndims++] = k;
  }
}

static gs_result *new_forward(build *b) {
  gs_instance *i = b->inst;
  if (i->nforward == b->cap_forward) {
    int cap = b->cap_forward ? 2 * b->cap_forward : 8;
    gs_result *r = GS_NEW_N(i->arena, gs_result, cap);
    int *stored = GS_NEW_N(i->arena, int, cap);
    if (i->nforward) {
      memcpy(r, i->forward, sizeof *r * (size_t)i->nforward);
      memcpy(stored, b->stored, sizeof *stored * (size_t)i->nforward);
    }
    i->forward = r;
    b->stored = stored;
    b->cap_forward = cap;
  }
  b->stored[i->nforward] = -1;
  gs_result *r = &i->forward[i->nforward++];
  memset(r, 0, sizeof *r);
  return r;
}

/* Reads the value at i of a result. Mistakes in it are told at the line that made it, else at
 * *place; the text stays on Lua's stack. */
static bool result_value(lua_State *L, int i, const char *what, const char **place, value *v) {
  gs_author *a = author_of(L);
  a->hint = *place;
  bool ok = value_operand(L, i, what, v);
  a->hint = NULL;
  if (ok && v->line) *place = lua_pushfstring(L, "%s:%d", v->file, v->line);
  return ok;
}

/* output(name, value, type or nil, saved, place): one result of forward. */
static int core_output(lua_State *L) {
  build *b = building(L);
  const char *name = luaL_checkstring(L, 1), *place = luaL_checkstring(L, 5);
  bool saved = lua_toboolean(L, 4);
  value v;
  if (!result_value(L, 2, name, &place, &v)) return 0;
  gs_result *r = new_forward(b);
  r->name = gs_arena_strdup(b->inst->arena, name);
  r->expr = v.id;
  r->is_saved = saved;
  if (!saved)
    r->type = output_type(L, b, name, 3);
  else
    r->type =
        chosen_type(b, name, lua_isstring(L, 3) ? gs_type_from_name(lua_tostring(L, 3)) : GS_F32);
  if (fit_type(L, b, r, place)) lay_out(L, b, r, v.shown, place);
  return 0;
}

/* seam(name, value, type or nil): the value as output `name` will hold it. */
static int core_seam(lua_State *L) {
  build *b = building(L);
  value v;
  if (!value_operand(L, 2, luaL_checkstring(L, 1), &v)) return push_nothing(L), 1;
  gs_type t = output_type(L, b, lua_tostring(L, 1), 3);
  if (!is_float(t)) {
    author_report(L, NULL, "output '%s' is stored as %s and cannot feed another layer",
                  lua_tostring(L, 1), gs_type_name(t));
    return push_nothing(L), 1;
  }
  gs_node n = {.op = GS_OP_ROUND, .to = t};
  return value_apply(L, &n, &v, 1, v.shown);
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
  gs_type type = chosen_type(b, name, r->type);
  int t = add_tensor(b, name, GS_ROLE_UPSTREAM, type, r);
  push_value(L, gs_input(b->g, t), dims_of(r), type);
  return 1;
}

/* gradient(number of the parameter, value, place) */
static int core_gradient(lua_State *L) {
  build *b = building(L);
  int p = (int)luaL_checkinteger(L, 1) - 1;
  const char *place = luaL_checkstring(L, 3);
  const gs_tensor *t = gs_graph_tensor_at(b->g, b->param_tensor[p]);
  value v;
  const char *what = lua_pushfstring(L, "the gradient of '%s'", t->name);
  if (!result_value(L, 2, what, &place, &v)) return 0;
  gs_result *r = &b->inst->backward[b->inst->nbackward];
  memset(r, 0, sizeof *r);
  r->name = with_d(b, t->name);
  r->expr = v.id;
  r->ndims = t->ndims;
  memcpy(r->dim, t->dim, sizeof r->dim);
  r->type = chosen_type(b, r->name, t->role == GS_ROLE_WEIGHT ? GS_F32 : t->type);
  gs_dims more = v.shown & ~dims_of(r);
  if (more) {
    const char *have = value_dims(L, v.shown), *want = value_dims(L, dims_of(r));
    const char *over = value_dims(L, more);
    author_report(L, place,
                  "the gradient of '%s' has dims %s, but '%s' has %s: sum it over %s with "
                  "gs.sum",
                  t->name, have, t->name, want, over);
    return 0;
  }
  if (fit_type(L, b, r, place)) b->inst->nbackward++;
  return 0;
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
  static const luaL_Reg functions[] = {{"output", core_output},   {"seam", core_seam},
                                       {"stored", core_stored},   {"upstream", core_upstream},
                                       {"unread", core_unread},   {"gradient", core_gradient},
                                       {"inplace", core_inplace}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}

/* ---- the instantiation ---- */

static void add_symbols(lua_State *L, build *b) {
  const gs_layer_decl *d = &b->layer->decl;
  lua_newtable(L);
  for (int k = 0; k < d->nparams; k++) {
    gs_dims dims = 0;
    for (int j = 0; j < d->params[k].ndims; j++) dims |= (gs_dims)1 << d->params[k].dim[j];
    int t = b->param_tensor[k];
    push_value(L, gs_input(b->g, t), dims, gs_graph_tensor_at(b->g, t)->type);
    lua_setfield(L, -2, d->params[k].name);
  }
  for (int k = 0; k < d->noptions; k++) {
    double v = d->option_defaults[k];
    for (int j = 0; j < b->choice->noptions; j++)
      if (strcmp(b->choice->option_names[j], d->options[k]) == 0) v = b->choice->option_values[j];
    lua_pushnumber(L, v);
    lua_setfield(L, -2, d->options[k]);
  }
}

static int run_build(lua_State *L) {
  build *b = lua_touserdata(L, 1);
  gs_author *a = author_of(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, a->library);
  lua_getfield(L, -1, "build");
  lua_rawgeti(L, LUA_REGISTRYINDEX, b->layer->ref);
  add_symbols(L, b);
  lua_call(L, 2, 0);
  return 0;
}

static gs_status add_dims(build *b, gs_error *err) {
  const gs_layer_decl *d = &b->layer->decl;
  int64_t sizes[GS_MAX_DIMS] = {0};
  for (int k = 0; k < d->ndims; k++)
    sizes[k] = d->dim_outer[k] ? -1 : b->choice->sizes ? b->choice->sizes[k] : 0;
  gs_status st = gs_layer_sizes(b->layer, sizes, err);
  for (int k = 0; !st && k < d->ndims; k++) gs_graph_dim(b->g, d->dims[k], sizes[k]);
  return st;
}

static void add_params(build *b) {
  const gs_layer_decl *d = &b->layer->decl;
  gs_arena *a = b->inst->arena;
  b->param_tensor = GS_NEW_N(a, int, d->nparams + 1);
  b->inst->backward = GS_NEW_N(a, gs_result, d->nparams + 1);
  for (int k = 0; k < d->nparams; k++) {
    gs_tensor t = d->params[k];
    t.type = chosen_type(b, t.name, t.is_generic ? b->inst->dtype : t.type);
    b->param_tensor[k] = gs_graph_tensor(b->g, &t);
  }
}

static gs_status check_choice(const build *b, gs_error *err) {
  const gs_layer_decl *d = &b->layer->decl;
  const gs_choice *c = b->choice;
  if (!is_float(c->dtype))
    return gs_fail(err, GS_ERR_USE, "%s: the layer's type must be f32, bf16 or f16, not %s",
                   d->name, gs_type_name(c->dtype));
  for (int k = 0; k < c->noptions; k++) {
    bool known = false;
    for (int j = 0; j < d->noptions; j++) known |= strcmp(c->option_names[k], d->options[j]) == 0;
    if (!known)
      return gs_fail(err, GS_ERR_USE, "%s has no option '%s'", d->name, c->option_names[k]);
  }
  return GS_OK;
}

/* What a saved value or an output stands for, as it is stored. */
static void fill_saved(build *b) {
  gs_instance *i = b->inst;
  i->saved_expr = GS_NEW_N(i->arena, gs_id, gs_graph_ntensors(b->g) + 1);
  for (int k = 0; k < i->nforward; k++) {
    const gs_result *r = &i->forward[k];
    if (b->stored[k] < 0) continue;
    gs_node n = {.op = GS_OP_ROUND, .nargs = 1, .arg = {r->expr}, .to = r->type};
    bool narrow = r->type == GS_BF16 || r->type == GS_F16;
    i->saved_expr[b->stored[k]] = narrow ? gs_apply(b->g, &n, NULL) : r->expr;
  }
}

static const char *key_of(const build *b) {
  const gs_layer_decl *d = &b->layer->decl;
  gs_text key = {0};
  gs_text_add(&key, gs_type_name(b->inst->dtype));
  for (int k = 0; k < d->ndims; k++)
    if (!d->dim_outer[k])
      gs_text_printf(&key, " %s=%lld", d->dims[k], (long long)gs_graph_dim_at(b->g, k)->size);
  for (int k = 0; k < d->noptions; k++) {
    double v = d->option_defaults[k];
    for (int j = 0; j < b->choice->noptions; j++)
      if (strcmp(b->choice->option_names[j], d->options[k]) == 0) v = b->choice->option_values[j];
    gs_text_printf(&key, " %s=%.17g", d->options[k], v);
  }
  for (int k = 0; k < b->choice->ntypes; k++)
    gs_text_printf(&key, " %s:%s", b->choice->type_names[k], gs_type_name(b->choice->types[k]));
  const char *text = gs_arena_strdup(b->inst->arena, key.s);
  gs_text_free(&key);
  return text;
}

static gs_status finish(build *b, gs_error *err) {
  gs_instance *i = b->inst;
  for (int k = 0; k < b->choice->ntypes; k++)
    if (!b->type_used[k])
      return gs_fail(err, GS_ERR_USE, "%s has no tensor '%s' to give a type", b->layer->decl.name,
                     b->choice->type_names[k]);
  fill_saved(b);
  int n = i->nforward + i->nbackward;
  gs_id *roots = GS_NEW_N(i->arena, gs_id, n + 1);
  for (int k = 0; k < n; k++)
    roots[k] = k < i->nforward ? i->forward[k].expr : i->backward[k - i->nforward].expr;
  return gs_verify(b->g, roots, n, err);
}

gs_status gs_layer_instantiate(gs_layer *l, const gs_choice *c, gs_instance **out, gs_error *err) {
  *out = NULL;
  gs_author *a = l->author;
  gs_arena *arena = gs_arena_new();
  instance_box *box = GS_NEW(arena, instance_box);
  gs_instance *i = &box->pub;
  *i = (gs_instance){.layer = l, .arena = arena, .g = gs_graph_new(arena), .dtype = c->dtype};
  i->body = l->decl.body;
  i->is_kernel = l->decl.is_kernel;
  build b = {.layer = l, .choice = c, .inst = i, .g = i->g};
  b.type_used = GS_NEW_N(arena, bool, c->ntypes + 1);
  gs_status st = check_choice(&b, err);
  if (!st) st = add_dims(&b, err);
  if (!st) {
    add_params(&b);
    a->b = &b;
    a->serial++;
    a->file = l->decl.file;
    st = author_run(a, run_build, &b, err);
    a->b = NULL;
    a->file = NULL;
  }
  if (!st) st = finish(&b, err);
  if (st) {
    gs_arena_free(arena);
    return st;
  }
  box->key = key_of(&b);
  *out = i;
  return GS_OK;
}

void gs_instance_free(gs_instance *i) {
  if (i) gs_arena_free(i->arena);
}
