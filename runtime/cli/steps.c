/* steps.c: the steps of a model, for their kernels alone (steps.h). */
#include "cli/steps.h"

#include "model/adapter.h"
#include "step/step.h"

static gs_status make_mode(gs_model *m, gs_params *p, gs_step_mode mode, int64_t tokens,
                           gs_error *err) {
  gs_step *s = NULL;
  gs_step_options o = {.mode = mode, .tokens = tokens, .optimizer = gs_adamw_default()};
  gs_status st = gs_step_new(m, p, &o, &s, err);
  gs_step_free(s);
  return st;
}

gs_status gs_make_steps(gs_device *d, const gs_steps_wish *w, gs_with_library then, void *context,
                        gs_error *err) {
  gs_model *m = NULL;
  gs_params *p = NULL;
  gs_lora lora;
  int n = 0;
  gs_status st = gs_lora_parse(w->lora ? w->lora : "", &lora, err);
  if (st == GS_OK) st = gs_model_open(d, w->model, w->dtype, &m, err);
  const gs_module *modules = st == GS_OK ? gs_model_modules(m, &n) : NULL;
  if (st == GS_OK) st = gs_params_new(d, modules, n, &lora, w->dtype, 0, &p, err);
  if (st == GS_OK) st = make_mode(m, p, GS_STEP_TRAIN, w->tokens, err);
  if (st == GS_OK) st = make_mode(m, p, GS_STEP_EVAL, w->tokens, err);
  if (st == GS_OK) st = make_mode(m, p, GS_STEP_INFER, w->tokens, err);
  if (st == GS_OK && then) st = then(context, gs_model_library(m), err);
  gs_params_free(p);
  gs_model_close(m);
  return st;
}
