/* build.c: one instantiation: symbols for the parameters, forward and backward called on them
 * (lua/gradsmith/build.lua drives), the graph of both kept.
 */
#include "lua/internal.h"

#include <stdio.h>
#include <string.h>

static bool is_float(gs_type t) {
  return t == GS_F32 || t == GS_BF16 || t == GS_F16;
}

double option_value(const gs_layer_decl *d, const gs_choice *c, int option) {
  for (int j = 0; c && j < c->noptions; j++)
    if (strcmp(c->option_names[j], d->options[option]) == 0) return c->option_values[j];
  return d->option_defaults[option];
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
    lua_pushnumber(L, option_value(d, b->choice, k));
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
  gs_status st = gs_layer_sizes(b->layer, b->choice, sizes, err);
  for (int k = 0; !st && k < d->ndims; k++) {
    int like;
    int64_t div;
    if (!d->dim_outer[k] || !d->dim_size[k])
      gs_graph_dim(b->g, d->dims[k], sizes[k]);
    else if (!(st = size_blocks(b->layer, k, b->choice, sizes, &like, &div, err)))
      gs_graph_dim_blocks(b->g, d->dims[k], like, div);
  }
  return st;
}

static void add_params(build *b) {
  const gs_layer_decl *d = &b->layer->decl;
  gs_arena *a = b->inst->arena;
  b->param_tensor = GS_NEW_N(a, int, d->nparams + 1);
  b->inst->backward = GS_NEW_N(a, gs_result, d->nparams + 1);
  for (int k = 0; k < d->nparams; k++) {
    gs_tensor t = d->params[k];
    t.type = build_type(b, t.name, t.is_generic ? b->inst->dtype : t.type);
    b->param_tensor[k] = gs_graph_tensor(b->g, &t);
  }
}

static gs_status no_option(const gs_layer_decl *d, const char *name, gs_error *err) {
  gs_text list = {0};
  for (int j = 0; j < d->noptions; j++) gs_text_printf(&list, "%s%s", j ? ", " : "", d->options[j]);
  gs_fail(err, GS_ERR_USE, "%s has no option '%s': it has %s", d->name, name,
          list.s ? list.s : "none");
  gs_text_free(&list);
  return GS_ERR_USE;
}

static bool is_allowed(const gs_layer_decl *d, int option, double v) {
  for (int k = 0; k < d->option_nvalues[option]; k++)
    if (d->option_values[option][k] == v) return true;
  return d->option_nvalues[option] == 0;
}

static gs_status no_value(const gs_layer_decl *d, int option, double v, gs_error *err) {
  gs_text list = {0};
  for (int k = 0; k < d->option_nvalues[option]; k++)
    gs_text_printf(&list, "%s%.10g", k ? ", " : "", d->option_values[option][k]);
  gs_fail(err, GS_ERR_USE, "%s: option %s=%.10g: its values are %s", d->name, d->options[option], v,
          list.s);
  gs_text_free(&list);
  return GS_ERR_USE;
}

static gs_status check_choice(const build *b, gs_error *err) {
  const gs_layer_decl *d = &b->layer->decl;
  const gs_choice *c = b->choice;
  if (!is_float(c->dtype))
    return gs_fail(err, GS_ERR_USE, "%s: the layer's type must be f32, bf16 or f16, not %s",
                   d->name, gs_type_name(c->dtype));
  for (int k = 0; k < c->noptions; k++) {
    int j = 0;
    while (j < d->noptions && strcmp(c->option_names[k], d->options[j]) != 0) j++;
    if (j == d->noptions) return no_option(d, c->option_names[k], err);
    if (!is_allowed(d, j, c->option_values[k])) return no_value(d, j, c->option_values[k], err);
  }
  return GS_OK;
}

/* ---- a trial ---- */

/* Sizes for a layer of which little is known: divisible by what layers divide by. */
static void guess_dims(build *b) {
  const gs_layer_decl *d = &b->layer->decl;
  int64_t sizes[GS_MAX_DIMS], div;
  int like, n = d->ndims < GS_MAX_DIMS ? d->ndims : GS_MAX_DIMS;
  for (int k = 0; k < n; k++) sizes[k] = d->dim_outer[k] ? -1 : 192;
  for (int k = 0; k < n; k++)
    if (d->dim_size[k] && !d->dim_outer[k] &&
        size_inner(b->layer, k, b->choice, sizes, &sizes[k], NULL))
      sizes[k] = 8;
  for (int k = 0; k < n; k++) {
    bool blocks = d->dim_outer[k] && d->dim_size[k] &&
                  !size_blocks(b->layer, k, b->choice, sizes, &like, &div, NULL) && like < k;
    if (blocks)
      gs_graph_dim_blocks(b->g, d->dims[k], like, div);
    else
      gs_graph_dim(b->g, d->dims[k], sizes[k]);
  }
}

void build_trial(lua_State *L, gs_layer *l) {
  gs_author *a = author_of(L);
  gs_choice c = {.dtype = GS_F32};
  gs_arena *arena = gs_arena_new();
  gs_instance *i = GS_NEW(arena, gs_instance);
  *i = (gs_instance){.layer = l, .arena = arena, .g = gs_graph_new(arena), .dtype = GS_F32};
  build b = {.layer = l, .choice = &c, .inst = i, .g = i->g};
  guess_dims(&b);
  add_params(&b);
  a->b = &b;
  a->serial++;
  lua_pushcfunction(L, run_build);
  lua_pushlightuserdata(L, &b);
  int rc = lua_pcall(L, 1, 0, 0); /* what stops it has been recorded */
  a->b = NULL;
  gs_arena_free(arena);
  if (rc != LUA_OK) lua_error(L);
}

/* What a saved value or an output stands for, as it is stored. */
static void fill_saved(build *b) {
  gs_instance *i = b->inst;
  i->saved_expr = GS_NEW_N(i->arena, gs_id, gs_graph_ntensors(b->g) + 1);
  for (int k = 0; k < i->nforward; k++) {
    const gs_result *r = &i->forward[k];
    if (b->stored[k] < 0) continue;
    gs_node n = {.op = GS_OP_ROUND, .nargs = 1, .arg = {r->expr}, .to = r->type};
    bool narrow = r->type != GS_F32 && holds_reals(r->type);
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
    gs_text_printf(&key, " %s=%.17g", d->options[k], option_value(d, b->choice, k));
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
  i->cuda = l->decl.cuda;
  i->cuda_line = l->decl.cuda_line;
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
  double *options = GS_NEW_N(arena, double, l->decl.noptions + 1);
  for (int k = 0; k < l->decl.noptions; k++) options[k] = option_value(&l->decl, c, k);
  i->options = options;
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
