/* backward.c: the backward, appended call by call in reverse from each layer's own closed form.
 *
 * Only gradients that a trained parameter needs are made. The gradient of a variable is the sum of
 * the contributions of its consumers, in the order in which they are met: the first writes, the
 * others add, in f32 unless there is just one. It is stored in f32, too, where a layer reads it;
 * where a matrix product reads it, it is rounded once to the type of the step. What matrix units
 * inside a layer read or make (attention's) is of that type throughout. */
#include "step/record.h"

#include <stdio.h>
#include <string.h>

#define MAX_PARAMS 32

/* ---- counting ---- */

static bool is_reached(gs_record *r, const gs_call *c) {
  if (!c->needs_grad) return false;
  if (c->is_linear) return gs_record_base(r, c->y)->uses > 0;
  for (int i = 0; i < c->instance->nforward; i++)
    if (c->result[i] >= 0 && gs_record_base(r, c->result[i])->uses > 0) return true;
  return false;
}

/* How many contributions each gradient will have. */
static void count_uses(gs_record *r) {
  for (int k = r->ncalls - 1; k >= 0; k--) {
    const gs_call *c = &r->calls[k];
    if (!is_reached(r, c)) continue;
    if (c->is_linear) {
      gs_var *x = gs_record_base(r, c->x);
      if (x->needs_grad) x->uses += c->adapter ? 2 : 1;
      continue;
    }
    for (int i = 0; i < c->decl->nparams; i++)
      if (c->param[i] >= 0 && gs_record_base(r, c->param[i])->needs_grad)
        gs_record_base(r, c->param[i])->uses++;
  }
}

/* ---- gradients ---- */

int gs_record_grad(gs_record *r, int var, bool *add) {
  int base = r->vars[var].base;
  gs_var v = r->vars[base];
  *add = v.grad >= 0;
  if (!*add) {
    char name[200];
    snprintf(name, sizeof name, "d %s", v.name);
    gs_type type = (v.uses == 1 && v.from_linear) || v.narrow ? r->dtype : GS_F32;
    int grad = gs_record_var(r, name, type, v.ndims, v.shape);
    r->vars[base].grad = grad;
  }
  r->vars[base].taken++;
  return gs_record_view(r, r->vars[base].grad, r->vars[var].ndims, r->vars[var].shape);
}

gs_status gs_record_cast(gs_record *r, int x, gs_type type, int *out, gs_error *err) {
  int64_t shape[2] = {r->vars[x].shape[0], gs_var_count(&r->vars[x]) / r->vars[x].shape[0]};
  gs_choice choice = {.dtype = type, .sizes = shape};
  gs_choice_add(r->arena, &choice, "x", r->vars[x].type);
  gs_named arg = {"x", gs_record_view(r, x, 2, shape), 0};
  gs_call *c;
  gs_status s = gs_record_layer(r, "cast", &arg, 1, NULL, 0, &c, err);
  if (s) return s;
  *out = c->result[0];
  r->ncalls--; /* part of the backward: nobody asks for its gradient */
  return GS_OK;
}

/* The whole gradient of a linear's result, in the type that matrix products take. */
static gs_status whole_grad(gs_record *r, int var, int *out, gs_error *err) {
  const gs_var *b = gs_record_base(r, var);
  int grad = b->grad;
  if (r->vars[grad].type != r->dtype) {
    gs_status s = gs_record_cast(r, grad, r->dtype, &grad, err);
    if (s) return s;
  }
  *out = gs_record_view(r, grad, r->vars[var].ndims, r->vars[var].shape);
  return GS_OK;
}

/* ---- a linear ---- */

/* dB = scale·dyᵀ·a, da = scale·dy·B, dA = daᵀ·x, dx += da·A. */
static void backward_adapter(gs_record *r, const gs_call *c, int dy, int dx) {
  double scale = gs_params_scale(r->params);
  int64_t shape[2] = {r->vars[c->a].shape[0], r->vars[c->a].shape[1]};
  int db = gs_record_adapter(r, c->adapter, true, true);
  gs_record_gemm(r, c->what, dy, true, c->a, false, db, scale, false);
  int da = gs_record_var(r, "d x·Aᵀ", r->dtype, 2, shape);
  gs_record_gemm(r, c->what, dy, false, c->copy_b, false, da, scale, false);
  gs_record_gemm(r, c->what, da, true, c->x, false, gs_record_adapter(r, c->adapter, false, true),
                 1, false);
  if (dx >= 0) gs_record_gemm(r, c->what, da, false, c->copy_a, false, dx, 1, true);
}

static gs_status backward_linear(gs_record *r, const gs_call *c, gs_error *err) {
  int dy, dx = -1;
  gs_status s = whole_grad(r, c->y, &dy, err);
  if (s) return s;
  if (gs_record_base(r, c->x)->needs_grad) {
    bool add;
    dx = gs_record_grad(r, c->x, &add);
    gs_record_gemm(r, c->what, dy, false, c->weight, false, dx, 1, add);
    if (c->adapter) gs_record_base(r, c->x)->taken++;
  }
  if (c->adapter) backward_adapter(r, c, dy, dx);
  return GS_OK;
}

/* ---- a layer ---- */

typedef struct backward {
  const gs_call *c;
  gs_choice choice;
  int upstream[MAX_PARAMS]; /* by result of the forward */
  int nwanted, nadd;
  const char *wanted[MAX_PARAMS], *add[MAX_PARAMS];
  int target[MAX_PARAMS]; /* by wanted */
} backward;

static int find_backward(void *context, const gs_binding *b, double *number) {
  const backward *w = context;
  const gs_call *c = w->c;
  if (b->is_result) {
    for (int i = 0; i < w->nwanted; i++)
      if (strcmp(w->wanted[i], b->name) == 0) return w->target[i];
    return -1;
  }
  if (b->role == GS_ROLE_UPSTREAM) {
    for (int i = 0; i < c->instance->nforward; i++)
      if (strcmp(c->instance->forward[i].name, b->name + 1) == 0) return w->upstream[i];
    return -1;
  }
  for (int i = 0; i < c->decl->nparams; i++)
    if (strcmp(c->decl->params[i].name, b->name) == 0) {
      *number = c->number[i];
      return c->param[i];
    }
  for (int i = 0; i < c->instance->nforward; i++)
    if (strcmp(c->instance->forward[i].name, b->name) == 0) return c->result[i];
  return -1;
}

/* The gradient of each output; zeros for an output that nothing uses. */
static void find_upstreams(gs_record *r, backward *w) {
  const gs_instance *in = w->c->instance;
  for (int i = 0; i < in->nforward; i++) {
    if (in->forward[i].is_saved) continue;
    int y = w->c->result[i], grad = gs_record_base(r, y)->grad;
    char name[80];
    snprintf(name, sizeof name, "d%s", in->forward[i].name);
    if (grad < 0) {
      int64_t shape[GS_MAX_RANK];
      memcpy(shape, r->vars[y].shape, sizeof shape);
      grad = gs_record_var(r, "zeros", GS_F32, r->vars[y].ndims, shape);
      gs_record_zero(r, w->c->what, grad);
    }
    w->upstream[i] = gs_record_view(r, grad, r->vars[y].ndims, r->vars[y].shape);
    gs_choice_add(r->arena, &w->choice, name, r->vars[grad].type);
  }
}

/* A target for the gradient of each parameter that needs one. */
static gs_status find_wanted(gs_record *r, backward *w, gs_error *err) {
  const gs_call *c = w->c;
  for (int i = 0; i < c->decl->nparams; i++) {
    if (c->param[i] < 0 || !gs_record_base(r, c->param[i])->needs_grad) continue;
    for (int k = 0; k < i; k++)
      if (c->param[k] >= 0 && r->vars[c->param[k]].base == r->vars[c->param[i]].base)
        return gs_fail(err, GS_ERR_USE,
                       "layer %s is given the same tensor as \"%s\" and as \"%s\": "
                       "its gradients would meet inside one kernel",
                       c->layer, c->decl->params[k].name, c->decl->params[i].name);
    const char *name = gs_arena_printf(r->arena, "d%s", c->decl->params[i].name);
    bool add;
    int target = gs_record_grad(r, c->param[i], &add);
    w->target[w->nwanted] = target;
    w->wanted[w->nwanted++] = name;
    if (add) w->add[w->nadd++] = name;
    gs_choice_add(r->arena, &w->choice, name, r->vars[target].type);
  }
  return GS_OK;
}

static gs_status backward_layer(gs_record *r, const gs_call *c, gs_error *err) {
  if (c->decl->nparams > MAX_PARAMS || c->instance->nforward > MAX_PARAMS)
    return gs_fail(err, GS_ERR_USE, "layer %s has more than %d parameters", c->layer, MAX_PARAMS);
  if (c->instance->is_kernel)
    return gs_fail(err, GS_ERR_USE,
                   "layer %s has no backward, but trained parameters lie before it", c->layer);
  backward w = {.c = c, .choice = c->choice};
  find_upstreams(r, &w);
  gs_status s = find_wanted(r, &w, err);
  gs_instance *in;
  gs_routine *routine;
  if (!s) s = gs_library_instance(r->library, c->layer, &w.choice, &in, err);
  if (!s)
    s = gs_library_routine(r->library, in, GS_PASS_BACKWARD, w.wanted, w.nwanted, w.add, w.nadd,
                           &routine, err);
  if (s) return s;
  return gs_record_launch(r, c->what, routine, c->sizes, c->decl->ndims, find_backward, &w, err);
}

gs_status gs_record_backward(gs_record *r, gs_error *err) {
  count_uses(r);
  int n = r->ncalls;
  for (int k = n - 1; k >= 0; k--) {
    gs_call c = r->calls[k]; /* a copy: recording moves the array */
    if (!is_reached(r, &c)) continue;
    gs_status s = c.is_linear ? backward_linear(r, &c, err) : backward_layer(r, &c, err);
    if (s) return s;
  }
  return GS_OK;
}
