/* uses: gs_check gs_device gs_author gs_graph gs_assets gs_lua */
/* gs.fuse and gs.beside: what tests/layers/compose makes is held like any layer against the adjoint
 * of the whole, differences and float64; names, sharing and gradients are as fuse.lua promises. */
#include "layer_case.h"

#include "check/check.h"

#include <stdio.h>

static gs_author *author(void) {
  gs_author *a;
  gs_error e;
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  return a;
}

static const gs_layer_decl *declaration(gs_author *a, const char *name) {
  char path[512];
  gs_layer *l;
  gs_error e;
  snprintf(path, sizeof path, "%s/layers/compose/%s.lua", GS_TEST_DIR, name);
  cr_assert_eq(gs_layer_open(a, path, &l, &e), GS_OK, "%s", e.message);
  return gs_layer_declaration(l);
}

static int param(const gs_layer_decl *d, const char *name) {
  for (int k = 0; k < d->nparams; k++)
    if (strcmp(d->params[k].name, name) == 0) return k;
  return -1;
}

static void check(const char *name) {
  gs_author *a = author();
  gs_device *d = NULL;
  gs_error e;
  gs_check_report r;
  gs_device_options o = {.checked = true, .arch = "sm_90a"};
  char path[512];
  snprintf(path, sizeof path, "%s/layers/compose/%s.lua", GS_TEST_DIR, name);
  cr_assert_eq(gs_device_open("emu", &o, &d, &e), GS_OK, "%s", e.message);
  gs_check_options c = {.seed = 77, .rounds = 2, .devices = &d, .ndevices = 1};
  cr_assert_eq(gs_check_layer(a, path, &c, &r, &e), GS_OK, "%s", e.message);
  cr_assert(r.math_points > 20 && r.difference_points > 3 && r.kernel_runs > 10, "%s", name);
  gs_device_close(d);
  gs_author_free(a);
}

Test(fuse, norm_then_rotation) {
  check("qk_norm_rope");
}
Test(fuse, three_in_a_row) {
  check("three");
}
Test(fuse, a_quantiser_after_an_activation) {
  check("swiglu_fp8");
}
Test(fuse, parts_keep_their_names_of_dims) {
  check("other_names");
}
/* Functions that ask for a dim's size by name are answered by the part's names. */
Test(fuse, topk_and_pack_of_renamed_dims) {
  check("best_two");
  check("codes_of");
}
Test(fuse, compositions_compose) {
  check("nested");
}
Test(beside, two_rotations_by_one_table) {
  check("rope_q_k");
}
Test(beside, gradients_of_a_shared_input_add_up) {
  check("shared");
}

Test(fuse, a_kernel_adds_outputs_without_gradient) {
  gs_author *a = author();
  const gs_layer_decl *d = declaration(a, "swiglu_fp8");
  cr_assert(!d->is_kernel && param(d, "gate") >= 0 && param(d, "x") < 0);
  int64_t sizes[GS_MAX_DIMS] = {0};
  for (int k = 0; k < d->ndims; k++) sizes[k] = strcmp(d->dims[k], "F") == 0 ? 6 : 3;
  layer_case c = case_open(a, d->file, sizes, NULL, 5);
  const gs_result *y = case_result(c.i->forward, c.i->nforward, "y");
  const gs_result *q = case_result(c.i->forward, c.i->nforward, "q");
  cr_assert(y && q && q->type == GS_E4M3);
  cr_assert(case_tensor(&c, "dy") >= 0 && case_tensor(&c, "dq") < 0);
  cr_assert_eq(c.i->nbackward, 2);
  case_close(&c);
  gs_author_free(a);
}

Test(beside, names_are_given_and_what_is_alike_is_one) {
  gs_author *a = author();
  const gs_layer_decl *d = declaration(a, "rope_q_k");
  cr_assert_eq(d->nparams, 4, "q, cos, sin, k");
  cr_assert(param(d, "q") == 0 && param(d, "cos") == 1 && param(d, "k") == 3);
  cr_assert(d->ndims == 5 && strcmp(d->dims[3], "D") == 0,
            "T, heads, D, h: tensors keep their order");
  d = declaration(a, "shared");
  cr_assert(param(d, "norm_eps") >= 0 && param(d, "eps") >= 0);
  cr_assert_eq(d->nparams, 5, "x, w, norm_eps, a, eps");
  cr_assert(d->is_derived);
  gs_author_free(a);
}

/* The whole of a chain gives what the parts give, each fed with what the one before has stored. */
Test(fuse, gives_what_the_parts_give_in_turn) {
  gs_author *a = author();
  int64_t sizes[8] = {4, 10};
  layer_case whole = case_open(a, declaration(a, "three")->file, sizes, NULL, 9);
  layer_case add = case_open(a, "add", sizes, NULL, 9),
             norm = case_open(a, "rmsnorm", sizes, NULL, 9);
  memcpy(add.tensor[case_tensor(&add, "x")], whole.tensor[case_tensor(&whole, "x")], 40 * 8);
  memcpy(add.tensor[case_tensor(&add, "r")], whole.tensor[case_tensor(&whole, "r")], 40 * 8);
  const gs_result *h = case_result(add.i->forward, add.i->nforward, "h");
  gs_array hv = case_eval(&add, h->expr);
  for (int k = 0; k < 40; k++)
    norm.tensor[case_tensor(&norm, "x")][k] = case_value(&add, &hv, h, k);
  memcpy(norm.tensor[case_tensor(&norm, "w")], whole.tensor[case_tensor(&whole, "rmsnorm_w")],
         10 * 8);
  const gs_result *y = case_result(norm.i->forward, norm.i->nforward, "y");
  const gs_result *last = case_result(whole.i->forward, whole.i->nforward, "rmsnorm_y");
  cr_assert(last);
  gs_array yv = case_eval(&norm, y->expr), wv = case_eval(&whole, last->expr);
  for (int k = 0; k < 40; k++)
    cr_assert_float_eq(case_value(&norm, &yv, y, k), case_value(&whole, &wv, last, k), 1e-13);
  gs_array_free(&hv);
  gs_array_free(&yv);
  gs_array_free(&wv);
  case_close(&whole);
  case_close(&add);
  case_close(&norm);
  gs_author_free(a);
}
