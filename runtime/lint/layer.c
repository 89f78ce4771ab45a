/* layer.c: every pass of a layer, at sizes and options that check draws, for one architecture. */
#include "check/case.h"
#include "lint/lint.h"

enum { SEED = 20, DRAWS = 3 }; /* of sizes, the same always */

static gs_status lint_pass(gs_lint *l, gs_instance *i, gs_pass_kind kind, const gs_caps *caps,
                           gs_text *found, int *n, int *kernels, gs_error *err) {
  gs_pass *p = NULL;
  gs_launch_list *list = NULL;
  gs_status st = gs_layer_pass(i, kind, NULL, 0, NULL, 0, &p, err);
  if (st == GS_OK) st = gs_compile(p, caps, NULL, &list, err);
  if (st == GS_OK) st = gs_lint_list(l, list, found, n, err);
  if (st == GS_OK) *kernels += list->nkernels;
  return st;
}

/* A loss, whose gradient may take the place of what it reads, also runs in one go. */
static bool has_terminal(const gs_instance *i) {
  for (int k = 0; k < i->nbackward; k++)
    if (i->backward[k].inplace && !i->body) return true;
  return false;
}

/* A check's round from the second on: no size is 1 that need not be, options vary. */
static gs_status lint_case(gs_lint *l, gs_layer *layer, gs_type dtype, int round,
                           const gs_caps *caps, gs_text *found, int *n, int *kernels,
                           gs_error *err) {
  gs_rng rng = {SEED};
  gs_check_options o = {.seed = SEED};
  gs_case c = {0};
  gs_status st = gs_case_new(layer, dtype, round, GS_MOOD_ORDINARY, &o, &rng, &c, err);
  if (st == GS_OK) st = lint_pass(l, c.i, GS_PASS_FORWARD, caps, found, n, kernels, err);
  if (st == GS_OK && c.i->nbackward) {
    st = lint_pass(l, c.i, GS_PASS_INFER, caps, found, n, kernels, err);
    if (st == GS_OK) st = lint_pass(l, c.i, GS_PASS_BACKWARD, caps, found, n, kernels, err);
    if (st == GS_OK && has_terminal(c.i))
      st = lint_pass(l, c.i, GS_PASS_TERMINAL, caps, found, n, kernels, err);
  }
  gs_case_free(&c);
  return st;
}

gs_status gs_lint_layer(gs_lint *l, const char *name, const char *arch, gs_text *found, int *n,
                        int *kernels, gs_error *err) {
  const gs_caps *caps = gs_caps_find(arch);
  gs_author *a = NULL;
  gs_layer *layer = NULL;
  if (!caps) return gs_fail(err, GS_ERR_USE, "lint: unknown architecture '%s'", arch);
  gs_status st = gs_author_new(&a, err);
  if (st == GS_OK) st = gs_layer_open(a, name, &layer, err);
  for (int k = 1; st == GS_OK && k < DRAWS; k++)
    st = lint_case(l, layer, k == 1 ? GS_F32 : GS_BF16, k, caps, found, n, kernels, err);
  gs_author_free(a);
  return st;
}
