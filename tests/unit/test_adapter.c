/* uses: gs_model */
/* test_adapter.c: the --lora text, and PEFT's two files: written, read again, and refused by name
 * where a field would change the mathematics. */
#include "base/file.h"
#include "model/adapter.h"
#include "model/json.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[256], config[512];
static gs_error err;

static void setup(void) {
  cr_assert(gs_temp_dir(dir, sizeof dir, &err) == GS_OK, "%s", err.message);
  snprintf(config, sizeof config, "%s/adapter_config.json", dir);
}
static void teardown(void) {
  gs_remove_tree(dir);
}
TestSuite(adapter, .init = setup, .fini = teardown);

/* ---- gs_lora_parse ---- */

Test(lora_parse, defaults) {
  gs_lora l;
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(gs_lora_parse(i ? "" : NULL, &l, &err), GS_OK);
    cr_assert(l.r == 16 && l.alpha == 32 && l.ntargets == 7);
    cr_assert_str_eq(l.targets[0], "q_proj");
    cr_assert_str_eq(l.targets[6], "down_proj");
  }
}

Test(lora_parse, values) {
  gs_lora l;
  cr_assert_eq(gs_lora_parse("targets=q_proj+v_proj,alpha=0.5,r=4", &l, &err), GS_OK);
  cr_assert(l.r == 4 && l.alpha == 0.5 && l.ntargets == 2);
  cr_assert_str_eq(l.targets[1], "v_proj");
  cr_assert_eq(gs_lora_parse("targets=all", &l, &err), GS_OK);
  cr_assert_eq(l.ntargets, 7);
}

static const struct {
  const char *text, *says;
} bad_lora[] = {
    {"rank=4", "rank=4"},
    {"r", "\"r\""},
    {"r=", "r="},
    {"r=0", "r=0"},
    {"r=1.5", "1.5"},
    {"r=-1", "-1"},
    {"r=1e9", "1e9"},
    {"r=nan", "nan"},
    {"r= 4", " 4"},
    {"r=4x", "4x"},
    {"alpha=0", "alpha=0"},
    {"alpha=inf", "inf"},
    {"r=4,r=5", "twice"},
    {"r=4,", "\"\""},
    {",", "\"\""},
    {"targets=", "\"\""},
    {"targets=a++b", "\"\""},
    {"targets=a+a", "twice"},
    {"targets=q proj", "q"},
    {"targets=q*", "q*"},
    {"targets=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "47"},
};

Test(lora_parse, mistakes_are_named) {
  gs_lora l;
  for (size_t i = 0; i < sizeof bad_lora / sizeof *bad_lora; i++) {
    cr_assert_eq(gs_lora_parse(bad_lora[i].text, &l, &err), GS_ERR_USE, "%s", bad_lora[i].text);
    cr_assert(strstr(err.message, bad_lora[i].says), "%s: %s", bad_lora[i].text, err.message);
  }
}

/* ---- files ---- */

#define MODULE "base_model.model.model.layers.0.self_attn.q_proj"
static const float values[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const gs_weight good[2] = {{MODULE ".lora_A.weight", GS_F32, 2, {2, 3}, values, 24},
                                  {MODULE ".lora_B.weight", GS_F32, 2, {5, 2}, values, 40}};

static void write_good(const gs_weight *t, int n) {
  gs_lora l;
  cr_assert_eq(gs_lora_parse("r=2,alpha=3,targets=q_proj+up_proj", &l, &err), GS_OK);
  cr_assert(gs_adapter_write(dir, &l, "some/model", t, n, &err) == GS_OK, "%s", err.message);
}

Test(adapter, written_and_read_again) {
  gs_lora l;
  gs_weights *w;
  write_good(good, 2);
  cr_assert(gs_adapter_read(dir, &l, &w, &err) == GS_OK, "%s", err.message);
  cr_assert(l.r == 2 && l.alpha == 3 && l.ntargets == 2);
  cr_assert_str_eq(l.targets[1], "up_proj");
  cr_assert_eq(gs_weights_count(w), 2);
  cr_assert_eq(memcmp(gs_weights_find(w, MODULE ".lora_B.weight")->data, values, 40), 0);
  cr_assert_str_eq(gs_weights_metadata(w, "format"), "pt");
  gs_weights_close(w);
}

Test(adapter, config_is_as_peft_writes_it) {
  json_t *c;
  write_good(good, 2);
  cr_assert_eq(gs_json_read(config, &c, &err), GS_OK);
  cr_assert_str_eq(json_string_value(json_object_get(c, "peft_type")), "LORA");
  cr_assert_str_eq(json_string_value(json_object_get(c, "task_type")), "CAUSAL_LM");
  cr_assert_str_eq(json_string_value(json_object_get(c, "base_model_name_or_path")), "some/model");
  cr_assert_str_eq(json_string_value(json_object_get(c, "bias")), "none");
  cr_assert(json_is_integer(json_object_get(c, "lora_alpha")), "a whole alpha is an integer");
  cr_assert(json_is_false(json_object_get(c, "use_rslora")));
  json_decref(c);
}

/* The good configuration with one field set to a JSON text (NULL: taken away). */
static gs_status read_with(const char *field, const char *value) {
  json_t *c;
  gs_lora l;
  gs_weights *w;
  write_good(good, 2);
  cr_assert_eq(gs_json_read(config, &c, &err), GS_OK);
  if (value) {
    json_error_t e;
    json_t *v = json_loads(value, JSON_DECODE_ANY, &e);
    cr_assert_not_null(v, "%s", value);
    json_object_set_new(c, field, v);
  } else {
    json_object_del(c, field);
  }
  cr_assert_eq(gs_json_write(config, c, &err), GS_OK);
  json_decref(c);
  gs_status st = gs_adapter_read(dir, &l, &w, &err);
  gs_weights_close(w);
  return st;
}

static const struct {
  const char *field, *value;
} refused[] = {
    {"use_dora", "true"},
    {"use_rslora", "true"},
    {"use_qalora", "true"},
    {"bias", "\"all\""},
    {"bias", "\"lora_only\""},
    {"bias", "null"},
    {"lora_bias", "true"},
    {"fan_in_fan_out", "true"},
    {"rank_pattern", "{\"q_proj\": 8}"},
    {"alpha_pattern", "{\"q_proj\": 8}"},
    {"layers_to_transform", "[1]"},
    {"layers_to_transform", "3"},
    {"modules_to_save", "[\"lm_head\"]"},
    {"target_parameters", "[\"x\"]"},
    {"exclude_modules", "[\"x\"]"},
    {"megatron_config", "{\"a\": 1}"},
    {"layer_replication", "[[0, 4]]"},
    {"trainable_token_indices", "[1]"},
    {"alora_invocation_tokens", "[1]"},
    {"loftq_config", "{\"a\": 1}"},
    {"init_lora_weights", "\"pissa\""},
    {"init_lora_weights", "\"olora\""},
    {"peft_type", "\"IA3\""},
    {"peft_type", "null"},
    {"r", "3"},
    {"r", "0"},
    {"r", "2.0"},
    {"r", "true"},
    {"lora_alpha", "\"3\""},
    {"lora_alpha", NULL},
    {"target_modules", "\".*q_proj\""},
    {"target_modules", "[]"},
    {"target_modules", "[1]"},
    {"target_modules", "[\"v_proj\"]"},
    {"target_modules", "[\"proj\"]"},
    {"a_field_of_the_future", "true"},
    {"a_field_of_the_future", "\"on\""},
};

Test(adapter, fields_that_change_the_mathematics_are_refused_by_name) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    cr_assert_eq(read_with(refused[i].field, refused[i].value), GS_ERR_INPUT, "%s = %s was taken",
                 refused[i].field, refused[i].value ? refused[i].value : "(absent)");
    cr_assert(strstr(err.message, refused[i].field) || strstr(err.message, "adapter_config.json"),
              "%s", err.message);
  }
  cr_assert_eq(read_with("use_dora", "true"), GS_ERR_INPUT);
  cr_assert(strstr(err.message, "\"use_dora\""), "%s", err.message);
}

static const struct {
  const char *field, *value;
} taken[] = {
    {"a_field_of_the_future", "null"},
    {"a_field_of_the_future", "false"},
    {"a_field_of_the_future", "{}"},
    {"megatron_core", "\"megatron.core\""},
    {"peft_version", "\"0.21.2\""},
    {"runtime_config", "{\"ephemeral_gpu_offload\": false}"},
    {"lora_dropout", "0.05"},
    {"init_lora_weights", "\"gaussian\""},
    {"task_type", "null"},
    {"target_modules", "[\"self_attn.q_proj\"]"},
    {"target_modules", "[\"model.layers.0.self_attn.q_proj\"]"},
    {"target_modules", "\"all-linear\""},
    {"lora_alpha", "3.5"},
    {"use_dora", NULL}, /* older files have fewer fields */
    {"alpha_pattern", NULL},
    {"bias", NULL},
};

Test(adapter, files_old_and_new_are_read) {
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    cr_assert(read_with(taken[i].field, taken[i].value) == GS_OK, "%s: %s", taken[i].field,
              err.message);
}

Test(adapter, an_old_small_config) {
  static const char old[] =
      "{\"base_model_name_or_path\": \"x\", \"bias\": \"none\", \"enable_lora\": null,"
      " \"fan_in_fan_out\": false, \"inference_mode\": true, \"lora_alpha\": 16, \"lora_dropout\": "
      "0.05,"
      " \"merge_weights\": false, \"modules_to_save\": null, \"peft_type\": \"LORA\", \"r\": 2,"
      " \"target_modules\": [\"q_proj\"], \"task_type\": \"CAUSAL_LM\"}";
  gs_lora l;
  gs_weights *w;
  write_good(good, 2);
  cr_assert_eq(gs_file_write(config, old, sizeof old - 1, &err), GS_OK);
  cr_assert(gs_adapter_read(dir, &l, &w, &err) == GS_OK, "%s", err.message);
  cr_assert_eq(l.alpha, 16);
  gs_weights_close(w);
}

static const struct {
  gs_weight t[2];
  int n;
  const char *says;
} bad_tensors[] = {
    {{{MODULE ".lora_A.weight", GS_F32, 2, {2, 3}, values, 24}}, 1, "missing beside"},
    {{{MODULE ".lora_B.weight", GS_F32, 2, {5, 2}, values, 40}}, 1, "missing beside"},
    {{{MODULE ".lora_A.weight", GS_F32, 2, {3, 2}, values, 24},
      {MODULE ".lora_B.weight", GS_F32, 2, {5, 2}, values, 40}},
     2,
     "[r, in]"},
    {{{MODULE ".lora_A.weight", GS_F32, 2, {2, 3}, values, 24},
      {MODULE ".lora_B.weight", GS_F32, 2, {2, 5}, values, 40}},
     2,
     "[out, r]"},
    {{{MODULE ".lora_A.weight", GS_I32, 2, {2, 3}, values, 24},
      {MODULE ".lora_B.weight", GS_F32, 2, {5, 2}, values, 40}},
     2,
     "not F32"},
    {{{MODULE ".lora_A.weight", GS_F32, 1, {2}, values, 8},
      {MODULE ".lora_B.weight", GS_F32, 2, {5, 2}, values, 40}},
     2,
     "[r, in]"},
    {{{MODULE ".lora_embedding_A", GS_F32, 2, {2, 3}, values, 24}}, 1, "not named"},
    {{{"x.q_proj.lora_A.weight", GS_F32, 2, {2, 3}, values, 24}}, 1, "not named"},
    {{{"base_model.model.lora_A.weight", GS_F32, 2, {2, 3}, values, 24}}, 1, "not named"},
    {{{"base_model.model.xq_proj.lora_A.weight", GS_F32, 2, {2, 3}, values, 24}},
     1,
     "target_modules"},
    {{{0}}, 0, "no tensors"},
};

Test(adapter, tensors_that_do_not_fit) {
  gs_lora l;
  gs_weights *w;
  for (size_t i = 0; i < sizeof bad_tensors / sizeof *bad_tensors; i++) {
    write_good(bad_tensors[i].t, bad_tensors[i].n);
    cr_assert_eq(gs_adapter_read(dir, &l, &w, &err), GS_ERR_INPUT, "case %zu was taken", i);
    cr_assert(strstr(err.message, bad_tensors[i].says), "case %zu: %s", i, err.message);
  }
}

Test(adapter, config_cut_at_every_byte) {
  char *text;
  size_t len;
  gs_lora l;
  gs_weights *w;
  write_good(good, 2);
  cr_assert_eq(gs_file_read(config, &text, &len, &err), GS_OK);
  for (size_t cut = 0; cut < len - 2; cut++) { /* the last two are "}\n" */
    cr_assert_eq(gs_file_write(config, text, cut, &err), GS_OK);
    cr_assert_eq(gs_adapter_read(dir, &l, &w, &err), GS_ERR_INPUT, "read after %zu bytes", cut);
  }
  free(text);
}

Test(adapter, a_folder_without_files) {
  gs_lora l;
  gs_weights *w;
  cr_assert_eq(gs_adapter_read(dir, &l, &w, &err), GS_ERR_IO);
  cr_assert(strstr(err.message, config), "%s", err.message);
}
