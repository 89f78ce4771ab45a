/* adapter_fields.c: every field that PEFT has written into a LoRA adapter_config.json over the
 * years, one row each, with what its value may be here. */
#include "model/adapter_fields.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef enum rule {
  ANY,     /* no influence on what the adapter computes */
  EMPTY,   /* null, false, 0, "", [], {}: the feature is not used */
  BIAS,    /* "none" */
  INIT,    /* a start that leaves the base weights alone */
  NOTHING, /* read elsewhere */
} rule;

static const struct {
  const char *name;
  rule rule;
} fields[] = {
    {"alora_invocation_tokens", EMPTY},
    {"alpha_pattern", EMPTY},
    {"arrow_config", EMPTY},
    {"auto_mapping", ANY},
    {"base_model_name_or_path", ANY},
    {"bias", BIAS},
    {"corda_config", EMPTY},
    {"ensure_weight_tying", EMPTY},
    {"eva_config", ANY}, /* how lora_A began */
    {"exclude_modules", EMPTY},
    {"fan_in_fan_out", EMPTY},
    {"inference_mode", ANY},
    {"init_lora_weights", INIT},
    {"layer_replication", EMPTY},
    {"layers_pattern", ANY}, /* only read beside layers_to_transform */
    {"layers_to_transform", EMPTY},
    {"loftq_config", EMPTY},
    {"lora_alpha", NOTHING},
    {"lora_bias", EMPTY},
    {"lora_dropout", ANY}, /* in training only */
    {"lora_ga_config", EMPTY},
    {"megatron_config", EMPTY},
    {"megatron_core", ANY}, /* only read beside megatron_config */
    {"modules_to_save", EMPTY},
    {"peft_type", NOTHING},
    {"peft_version", ANY},
    {"qalora_group_size", ANY}, /* only read beside use_qalora */
    {"r", NOTHING},
    {"rank_pattern", EMPTY},
    {"revision", ANY},
    {"runtime_config", ANY}, /* where, not what, is computed */
    {"target_modules", NOTHING},
    {"target_parameters", EMPTY},
    {"task_type", ANY},
    {"trainable_token_indices", EMPTY},
    {"use_dora", EMPTY},
    {"use_qalora", EMPTY},
    {"use_rslora", EMPTY},
};

static bool is_empty(const json_t *v) {
  switch (json_typeof(v)) {
  case JSON_NULL:
  case JSON_FALSE: return true;
  case JSON_INTEGER:
  case JSON_REAL: return json_number_value(v) == 0;
  case JSON_STRING: return json_string_length(v) == 0;
  case JSON_ARRAY: return json_array_size(v) == 0;
  case JSON_OBJECT: return json_object_size(v) == 0;
  default: return false;
  }
}

static bool init_is_plain(const json_t *v) {
  const char *s = json_string_value(v);
  if (!s) return true;
  return strcmp(s, "gaussian") == 0 || strcmp(s, "orthogonal") == 0 || strcmp(s, "eva") == 0;
}

static gs_status refuse(gs_error *err, const char *file, const char *name, const json_t *v,
                        const char *legal) {
  char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
  gs_status st = gs_fail(err, GS_ERR_INPUT,
                         "%s: \"%s\" is %.200s, which would change what the adapter "
                         "computes and is not supported; only %s is",
                         file, name, text ? text : "?", legal);
  free(text);
  return st;
}

gs_status gs_adapter_check_fields(const json_t *config, const char *file, gs_error *err) {
  const char *name;
  json_t *v;
  json_object_foreach((json_t *)(uintptr_t)config, name, v) {
    rule want = EMPTY; /* a field of a later PEFT: fine as long as it is not used */
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
      if (strcmp(fields[i].name, name) == 0) want = fields[i].rule;
    if (want == EMPTY && !is_empty(v)) return refuse(err, file, name, v, "null, false or empty");
    if (want == INIT && !init_is_plain(v))
      return refuse(err, file, name, v, "true, false, \"gaussian\", \"orthogonal\" or \"eva\"");
    if (want == BIAS && (!json_is_string(v) || strcmp(json_string_value(v), "none") != 0))
      return refuse(err, file, name, v, "\"none\"");
  }
  return GS_OK;
}
