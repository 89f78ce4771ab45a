/* calls.c: the forward, call by call: names are matched to what a layer declares, sizes of its dims
 * follow from the shapes of what is given, and the pass is the one with saved values only where the
 * backward will want them. */
#include "step/record.h"

#include <stdio.h>
#include <string.h>

static gs_call *new_call(gs_record *r, const char *what) {
  if (r->ncalls == r->cap_calls) {
    r->cap_calls = r->cap_calls ? 2 * r->cap_calls : 256;
    gs_call *p = GS_NEW_N(r->arena, gs_call, r->cap_calls);
    if (r->ncalls) memcpy(p, r->calls, (size_t)r->ncalls * sizeof *p);
    r->calls = p;
  }
  gs_call *c = &r->calls[r->ncalls++];
  c->what = gs_arena_strdup(r->arena, what);
  return c;
}

/* ---- matching ---- */

static gs_status unknown_name(const gs_call *c, const gs_named *arg, gs_error *err) {
  char known[512] = "";
  for (int i = 0; i < c->decl->nparams; i++) {
    size_t n = strlen(known);
    snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", c->decl->params[i].name);
  }
  return gs_fail(err, GS_ERR_USE, "layer %s has no \"%s\"; it takes %s", c->layer, arg->name,
                 known);
}

/* Puts one variable to a parameter: rank, and every dim's size. */
static gs_status match_shape(const gs_record *r, gs_call *c, int param, gs_error *err) {
  const gs_tensor *p = &c->decl->params[param];
  const gs_var *v = &r->vars[c->param[param]];
  char text[160];
  if (v->ndims != p->ndims)
    return gs_fail(err, GS_ERR_USE, "layer %s: \"%s\" has %d dims, but %s was given", c->layer,
                   p->name, p->ndims, gs_var_text(v, text, sizeof text));
  if (p->type != GS_TYPE_NONE && !p->is_generic && p->type != v->type)
    return gs_fail(err, GS_ERR_USE, "layer %s: \"%s\" is %s, but %s was given", c->layer, p->name,
                   gs_type_name(p->type), gs_var_text(v, text, sizeof text));
  for (int i = 0; i < p->ndims; i++) {
    int64_t *size = &c->sizes[p->dim[i]];
    if (*size >= 0 && *size != v->shape[i])
      return gs_fail(err, GS_ERR_USE, "layer %s: dim %s is %lld, but \"%s\" is %s", c->layer,
                     c->decl->dims[p->dim[i]], (long long)*size, p->name,
                     gs_var_text(v, text, sizeof text));
    *size = v->shape[i];
  }
  return GS_OK;
}

static gs_status match_params(const gs_record *r, gs_call *c, const gs_named *args, int nargs,
                              gs_error *err) {
  const gs_layer_decl *d = c->decl;
  for (int i = 0; i < d->nparams; i++) {
    c->param[i] = -1;
    c->number[i] = (float)d->params[i].value;
  }
  for (int k = 0; k < nargs; k++) {
    int i = 0;
    while (i < d->nparams && strcmp(d->params[i].name, args[k].name) != 0) i++;
    if (i == d->nparams) return unknown_name(c, &args[k], err);
    bool is_number = d->params[i].role == GS_ROLE_SCALAR;
    if (is_number != (args[k].var < 0))
      return gs_fail(err, GS_ERR_USE, "layer %s: \"%s\" is a %s", c->layer, args[k].name,
                     is_number ? "number" : "tensor");
    c->param[i] = args[k].var;
    c->number[i] = (float)args[k].number;
  }
  for (int i = 0; i < d->nparams; i++) {
    if (d->params[i].role == GS_ROLE_SCALAR) continue;
    if (c->param[i] < 0 && d->optional[i]) continue; /* where it is read, the launch will say so */
    if (c->param[i] < 0)
      return gs_fail(err, GS_ERR_USE, "layer %s: \"%s\" is not given", c->layer, d->params[i].name);
    gs_status s = match_shape(r, c, i, err);
    if (s) return s;
  }
  return GS_OK;
}

/* Sizes that follow from others, or are fixed: filled in where no tensor shows them, else equal. */
static gs_status derive_sizes(const gs_layer *l, gs_call *c, gs_error *err) {
  const gs_layer_decl *d = c->decl;
  int64_t sizes[GS_MAX_DIMS];
  for (int i = 0; i < d->ndims; i++) {
    if (c->sizes[i] < 0 && !d->dim_size[i])
      return gs_fail(err, GS_ERR_USE, "layer %s: nothing that is given says the size of %s",
                     c->layer, d->dims[i]);
    sizes[i] = c->sizes[i];
  }
  gs_status s = gs_layer_sizes(l, &c->choice, sizes, err);
  for (int i = 0; i < d->ndims && !s; i++) {
    if (c->sizes[i] >= 0 && c->sizes[i] != sizes[i])
      s = gs_fail(err, GS_ERR_USE, "layer %s: %s is %lld in what is given, but %s = %s is %lld",
                  c->layer, d->dims[i], (long long)c->sizes[i], d->dims[i], d->dim_size[i],
                  (long long)sizes[i]);
    c->sizes[i] = sizes[i];
  }
  return s;
}

void gs_choice_add(gs_arena *a, gs_choice *c, const char *name, gs_type type) {
  const char **names = GS_NEW_N(a, const char *, c->ntypes + 1);
  gs_type *types = GS_NEW_N(a, gs_type, c->ntypes + 1);
  for (int i = 0; i < c->ntypes; i++) {
    names[i] = c->type_names[i];
    types[i] = c->types[i];
  }
  names[c->ntypes] = gs_arena_strdup(a, name);
  types[c->ntypes++] = type;
  c->type_names = names;
  c->types = types;
}

/* What the instance is made for: the step's type, and the types of what differs from it. */
static void fill_choice(const gs_record *r, gs_call *c, const gs_named *options, int noptions) {
  int n = c->decl->nparams;
  const char **option_names = GS_NEW_N(r->arena, const char *, noptions + 1);
  double *option_values = GS_NEW_N(r->arena, double, noptions + 1);
  c->choice = (gs_choice){.dtype = r->dtype,
                          .sizes = c->sizes,
                          .noptions = noptions,
                          .option_names = option_names,
                          .option_values = option_values};
  for (int i = 0; i < n; i++) {
    const gs_tensor *p = &c->decl->params[i];
    if (c->param[i] < 0 || (p->type != GS_TYPE_NONE && !p->is_generic)) continue;
    if (p->role == GS_ROLE_STEP_SCALAR || r->vars[c->param[i]].type == r->dtype) continue;
    gs_choice_add(r->arena, &c->choice, p->name, r->vars[c->param[i]].type);
  }
  for (int i = 0; i < noptions; i++) {
    option_names[i] = gs_arena_strdup(r->arena, options[i].name);
    option_values[i] = options[i].number;
  }
}

/* ---- a layer ---- */

/* Where a launch of the forward finds its names; of a terminal layer also the gradient that it
 * makes and its upstream. */
typedef struct finder {
  const gs_call *c;
  int input, grad, upstream; /* the parameter whose gradient is made; the variables; -1 none */
} finder;

static int find_forward(void *context, const gs_binding *b, double *number) {
  const finder *f = context;
  const gs_call *c = f->c;
  for (int i = 0; i < c->decl->nparams && !b->is_result; i++)
    if (strcmp(c->decl->params[i].name, b->name) == 0) {
      *number = c->number[i];
      return c->param[i];
    }
  for (int i = 0; i < c->instance->nforward; i++)
    if (strcmp(c->instance->forward[i].name, b->name) == 0) return c->result[i];
  if (b->name[0] != 'd') return -1;
  if (!b->is_result) return f->upstream;
  bool is_it = f->input >= 0 && strcmp(c->decl->params[f->input].name, b->name + 1) == 0;
  return is_it ? f->grad : -1;
}

/* A variable for each result; saved values only when the backward wants them. */
static void make_results(gs_record *r, gs_call *c) {
  const gs_instance *in = c->instance;
  c->result = GS_NEW_N(r->arena, int, in->nforward + 1);
  for (int i = 0; i < in->nforward; i++) {
    const gs_result *f = &in->forward[i];
    c->result[i] = -1;
    if (f->is_saved && !c->needs_grad) continue;
    int64_t shape[GS_MAX_RANK], sizes[GS_MAX_DIMS] = {0};
    memcpy(sizes, c->sizes, sizeof *sizes * (size_t)c->decl->ndims);
    gs_graph_sizes(in->g, sizes);
    for (int k = 0; k < f->ndims; k++) shape[k] = sizes[f->dim[k]];
    char name[160];
    snprintf(name, sizeof name, "%s.%s", c->what, f->name);
    c->result[i] = gs_record_var(r, name, f->type, f->ndims, shape);
    r->vars[c->result[i]].needs_grad = c->needs_grad && !f->is_saved;
  }
}

/* Gradients of what it takes and gives, in its own type. */
static void mark_narrow(gs_record *r, const gs_call *c) {
  for (int i = 0; i < c->decl->nparams; i++)
    if (c->param[i] >= 0 && r->vars[c->param[i]].type == r->dtype)
      gs_record_base(r, c->param[i])->narrow = true;
  for (int i = 0; i < c->instance->nforward; i++)
    if (c->result[i] >= 0 && !c->instance->forward[i].is_saved)
      gs_record_base(r, c->result[i])->narrow = true;
}

/* A call with its arguments matched and its choice made. */
static gs_status begin_call(gs_record *r, const char *layer, const gs_named *args, int nargs,
                            const gs_named *options, int noptions, gs_call **out, gs_error *err) {
  gs_layer *l;
  gs_status s = gs_library_layer(r->library, layer, &l, err);
  if (s) return s;
  gs_call *c = *out = new_call(r, layer);
  c->layer = c->what;
  c->decl = gs_layer_declaration(l);
  c->param = GS_NEW_N(r->arena, int, c->decl->nparams + 1);
  c->number = GS_NEW_N(r->arena, float, c->decl->nparams + 1);
  c->sizes = GS_NEW_N(r->arena, int64_t, c->decl->ndims + 1);
  for (int i = 0; i < c->decl->ndims; i++) c->sizes[i] = -1;
  s = match_params(r, c, args, nargs, err);
  if (s) return s;
  fill_choice(r, c, options, noptions);
  return derive_sizes(l, c, err);
}

gs_status gs_record_layer(gs_record *r, const char *layer, const gs_named *args, int nargs,
                          const gs_named *options, int noptions, gs_call **out, gs_error *err) {
  gs_call *c;
  gs_instance *in;
  gs_status s = begin_call(r, layer, args, nargs, options, noptions, &c, err);
  if (!s) s = gs_library_instance(r->library, layer, &c->choice, &in, err);
  if (s) return s;
  c->instance = in;
  for (int i = 0; i < c->decl->nparams; i++)
    if (c->param[i] >= 0 && gs_record_base(r, c->param[i])->needs_grad) c->needs_grad = true;
  make_results(r, c);
  if (in->nprograms) mark_narrow(r, c);
  *out = c;
  if (r->mode == GS_STEP_SURVEY) return GS_OK;
  gs_routine *routine;
  gs_pass_kind kind = c->needs_grad ? GS_PASS_FORWARD : GS_PASS_INFER;
  s = gs_library_routine(r->library, in, kind, NULL, 0, NULL, 0, &routine, err);
  if (s) return s;
  finder f = {c, -1, -1, -1};
  return gs_record_launch(r, layer, routine, c->sizes, c->decl->ndims, find_forward, &f, err);
}

/* The gradient that a terminal layer makes: a variable like its input. */
static int terminal_grad(gs_record *r, gs_call *c, int input, const char **name, int *param) {
  for (*param = 0; *param < c->decl->nparams && c->param[*param] != input;) ++*param;
  *name = gs_arena_printf(r->arena, "d%s", c->decl->params[*param].name);
  const gs_var v = r->vars[input];
  gs_choice_add(r->arena, &c->choice, *name, v.type);
  int grad = gs_record_var(r, *name, v.type, v.ndims, v.shape);
  r->vars[grad].stride = v.stride;
  return grad;
}

gs_status gs_record_terminal(gs_record *r, const gs_terminal *t, int *grad, gs_error *err) {
  gs_call *c;
  gs_instance *in;
  gs_routine *routine;
  const char *name = NULL;
  gs_status s = begin_call(r, t->layer, t->args, t->nargs, t->options, t->noptions, &c, err);
  if (s) return s;
  finder f = {.c = c, .input = -1, .grad = -1, .upstream = t->upstream};
  if (t->input >= 0) f.grad = *grad = terminal_grad(r, c, t->input, &name, &f.input);
  s = gs_library_instance(r->library, t->layer, &c->choice, &in, err);
  if (s) return s;
  if (in->nforward < 1 || in->forward[0].is_saved || (in->nforward > 1 && !in->forward[1].is_saved))
    return gs_fail(err, GS_ERR_USE, "layer %s has not one output, as a loss has", t->layer);
  c->instance = in;
  c->result = GS_NEW_N(r->arena, int, in->nforward + 1);
  for (int i = 0; i < in->nforward; i++) c->result[i] = i ? -1 : t->result;
  gs_pass_kind kind = t->input >= 0 ? GS_PASS_TERMINAL : GS_PASS_INFER;
  s = gs_library_routine(r->library, in, kind, &name, t->input >= 0, NULL, 0, &routine, err);
  if (s) return s;
  return gs_record_launch(r, t->layer, routine, c->sizes, c->decl->ndims, find_forward, &f, err);
}

/* ---- a linear ---- */

/* In the type that matrix products take; its gradient is f32. */
int gs_record_adapter(gs_record *r, const gs_adapter *a, bool is_b, bool is_grad) {
  static const char *const names[2][2] = {{"lora_A", "lora_B"}, {"d lora_A", "d lora_B"}};
  int64_t rank = gs_params_lora(r->params)->r;
  int64_t shape[2] = {is_b ? a->module.out : rank, is_b ? rank : a->module.in};
  gs_type type = is_grad ? GS_F32 : r->dtype;
  gs_ptr at = gs_params_ptr(r->params, is_grad ? GS_GRAD : GS_WORKING) +
              (gs_ptr)(is_b ? a->b : a->a) * gs_type_size(type);
  return gs_record_fixed(r, names[is_grad][is_b], type, 2, shape, at);
}

/* y += scale·(x·Aᵀ)·Bᵀ: the product is scaled, added to y in f32 and rounded once. */
static void add_adapter(gs_record *r, gs_call *c) {
  int64_t shape[2] = {r->vars[c->x].shape[0], gs_params_lora(r->params)->r};
  c->copy_a = gs_record_adapter(r, c->adapter, false, false);
  c->copy_b = gs_record_adapter(r, c->adapter, true, false);
  c->a = gs_record_var(r, c->what, r->dtype, 2, shape);
  gs_record_gemm(r, c->what, c->x, false, c->copy_a, true, c->a, 1, false);
  gs_record_gemm(r, c->what, c->a, false, c->copy_b, true, c->y, gs_params_scale(r->params), true);
  c->needs_grad = r->mode == GS_STEP_TRAIN || r->mode == GS_STEP_GRADIENT;
}

gs_status gs_record_linear(gs_record *r, const char *module, int x, int weight, int *y,
                           gs_error *err) {
  char text[2][160];
  const gs_var *w = &r->vars[weight], *v = &r->vars[x];
  int64_t rows = v->ndims ? v->shape[0] : 1;
  if (w->ndims != 2 || v->ndims < 2 || gs_var_count(v) != rows * w->shape[1])
    return gs_fail(err, GS_ERR_USE, "%s: a linear of weight %s takes [T, %lld], but %s was given",
                   module, gs_var_text(w, text[0], sizeof text[0]),
                   (long long)(w->ndims == 2 ? w->shape[1] : -1),
                   gs_var_text(v, text[1], sizeof text[1]));
  if (v->type != w->type)
    return gs_fail(err, GS_ERR_USE, "%s: the weight is %s and its input %s", module,
                   gs_type_name(w->type), gs_type_name(v->type));
  int64_t in[2] = {rows, w->shape[1]}, out[2] = {rows, w->shape[0]};
  gs_call *c = new_call(r, module);
  c->is_linear = true;
  c->weight = weight;
  c->x = gs_record_view(r, x, 2, in);
  c->y = gs_record_var(r, module, r->dtype, 2, out);
  c->adapter = r->params ? gs_params_find(r->params, module) : NULL;
  c->needs_grad = gs_record_base(r, x)->needs_grad;
  gs_record_gemm(r, module, c->x, false, weight, true, c->y, 1, false);
  if (c->adapter) add_adapter(r, c);
  r->vars[c->y].needs_grad = c->needs_grad;
  r->vars[c->y].from_linear = true;
  *y = c->y;
  return GS_OK;
}
