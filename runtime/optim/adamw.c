/* adamw.c: the last actions of a training step. */
#include "optim/adamw.h"

#include <math.h>
#include <string.h>

gs_adamw gs_adamw_default(void) {
  return (gs_adamw){0.9, 0.999, 1e-8, 0, 1};
}

void gs_adamw_scalars(const gs_adamw *o, double lr, int64_t t, float out[3]) {
  out[0] = (float)lr;
  out[1] = (float)(1 - pow(o->beta1, (double)t));
  out[2] = (float)(1 - pow(o->beta2, (double)t));
}

/* A flat buffer as a variable. */
static int flat(gs_record *r, const char *name, gs_param_kind kind) {
  int64_t n = gs_params_count(r->params);
  gs_type type = kind == GS_WORKING ? r->dtype : GS_F32;
  return gs_record_fixed(r, name, type, 1, &n, gs_params_ptr(r->params, kind));
}

gs_status gs_record_norm(gs_record *r, double max_norm, int *norm, int *coef, gs_error *err) {
  gs_named args[2] = {{"g", flat(r, "gradients", GS_GRAD), 0},
                      {"max_norm", -1, max_norm > 0 ? max_norm : 3e38}};
  gs_call *c;
  gs_status s = gs_record_layer(r, "grad_norm", args, 2, NULL, 0, &c, err);
  if (s) return s;
  *norm = *coef = -1;
  for (int i = 0; i < c->instance->nforward; i++) {
    if (strcmp(c->instance->forward[i].name, "norm") == 0) *norm = c->result[i];
    if (strcmp(c->instance->forward[i].name, "coef") == 0) *coef = c->result[i];
  }
  if (*norm < 0 || *coef < 0)
    return gs_fail(err, GS_ERR_USE, "layer grad_norm has no output \"norm\" and \"coef\"");
  r->vars[*norm].keep = true;
  return GS_OK;
}

/* What the layer's names are bound to: masters and moments are read and written in place. */
typedef struct binder {
  int p, g, m, v, copy, lr, bc1, bc2, coef;
  const gs_adamw *o;
} binder;

static int find_adamw(void *context, const gs_binding *b, double *number) {
  const binder *w = context;
  const struct {
    const char *name;
    int var;
  } rows[] = {{"p", w->p},     {"g", w->g},     {"m", w->m},     {"v", w->v},
              {"p_out", w->p}, {"m_out", w->m}, {"v_out", w->v}, {"copy", w->copy},
              {"lr", w->lr},   {"bc1", w->bc1}, {"bc2", w->bc2}, {"coef", w->coef}};
  if (strcmp(b->name, "eps") == 0) *number = w->o->eps;
  if (strcmp(b->name, "decay") == 0) *number = w->o->weight_decay;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].name, b->name) == 0) return rows[i].var;
  return -1;
}

gs_status gs_record_adamw(gs_record *r, const gs_adamw *o, const gs_adamw_vars *v, int coef,
                          gs_error *err) {
  static const char *const names[] = {"beta1", "beta2", "with_copy"};
  bool narrow = r->dtype != GS_F32;
  double values[] = {o->beta1, o->beta2, narrow};
  int64_t n = gs_params_count(r->params);
  gs_choice choice = {.dtype = r->dtype,
                      .sizes = &n,
                      .noptions = 3,
                      .option_names = names,
                      .option_values = values};
  gs_instance *in;
  gs_routine *routine;
  gs_status s = gs_library_instance(r->library, "adamw", &choice, &in, err);
  if (!s) s = gs_library_routine(r->library, in, GS_PASS_INFER, NULL, 0, NULL, 0, &routine, err);
  if (s) return s;
  binder w = {.p = flat(r, "masters", GS_MASTER),
              .g = flat(r, "gradients", GS_GRAD),
              .m = flat(r, "m", GS_MOMENT1),
              .v = flat(r, "v", GS_MOMENT2),
              .copy = narrow ? flat(r, "working copies", GS_WORKING) : -1,
              .lr = v->lr,
              .bc1 = v->bc1,
              .bc2 = v->bc2,
              .coef = coef,
              .o = o};
  return gs_record_launch(r, "adamw", routine, &n, 1, find_adamw, &w, err);
}
