/* adapter.c: LoRA settings from the command line, and PEFT's two files written and read. The delta
 * of a module is alpha / r * B A. Format: github.com/huggingface/peft, LoraConfig and its
 * save_pretrained. */
#include "model/adapter.h"

#include "base/file.h"
#include "base/text.h"
#include "model/adapter_fields.h"
#include "model/json.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANK 65536
#define PREFIX "base_model.model."

static const char *const all_seven[] = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                        "gate_proj", "up_proj", "down_proj"};

static gs_status add_target(gs_lora *l, const char *s, size_t n, const char *where, gs_error *err) {
  bool ok = n > 0;
  for (size_t i = 0; i < n; i++) ok = ok && (isalnum((unsigned char)s[i]) || strchr("_.-", s[i]));
  if (!ok)
    return gs_fail(err, GS_ERR_USE, "%s: \"%.*s\" is not a module name (such as q_proj)", where,
                   (int)n, s);
  if (n >= sizeof l->targets[0] || l->ntargets == GS_LORA_TARGETS)
    return gs_fail(err, GS_ERR_USE, "%s: \"%.*s\": at most %d targets of at most %zu characters",
                   where, (int)n, s, GS_LORA_TARGETS, sizeof l->targets[0] - 1);
  for (int i = 0; i < l->ntargets; i++)
    if (strlen(l->targets[i]) == n && memcmp(l->targets[i], s, n) == 0)
      return gs_fail(err, GS_ERR_USE, "%s: target \"%.*s\" is named twice", where, (int)n, s);
  memcpy(l->targets[l->ntargets], s, n);
  l->targets[l->ntargets++][n] = 0;
  return GS_OK;
}

static void add_all_seven(gs_lora *l) {
  l->ntargets = 0;
  for (size_t i = 0; i < sizeof all_seven / sizeof *all_seven; i++)
    strcpy(l->targets[l->ntargets++], all_seven[i]);
}

static gs_status parse_targets(gs_lora *l, const char *s, size_t n, gs_error *err) {
  l->ntargets = 0;
  if (n == 3 && memcmp(s, "all", 3) == 0) {
    add_all_seven(l);
    return GS_OK;
  }
  for (size_t at = 0; at <= n;) {
    size_t len = 0;
    while (at + len < n && s[at + len] != '+') len++;
    gs_status st = add_target(l, s + at, len, "--lora targets", err);
    if (st != GS_OK) return st;
    at += len + 1;
  }
  return GS_OK;
}

/* One number that fills s[0..n). */
static bool parse_number(const char *s, size_t n, double *out) {
  char buf[64], *end;
  if (n == 0 || n >= sizeof buf || isspace((unsigned char)*s)) return false;
  memcpy(buf, s, n);
  buf[n] = 0;
  *out = strtod(buf, &end);
  return *end == 0 && isfinite(*out);
}

static bool rank_is_legal(double v) {
  return v >= 1 && v <= MAX_RANK && v == floor(v);
}

static gs_status parse_item(gs_lora *l, const char *s, size_t n, bool seen[3], gs_error *err) {
  static const char *const keys[] = {"r", "alpha", "targets"};
  const char *eq = memchr(s, '=', n);
  size_t klen = eq ? (size_t)(eq - s) : n;
  const char *value = eq ? eq + 1 : s + n;
  size_t vlen = (size_t)(s + n - value);
  int k = 0;
  double v = 0;
  while (k < 3 && !(strlen(keys[k]) == klen && memcmp(keys[k], s, klen) == 0)) k++;
  if (k == 3 || !eq)
    return gs_fail(err, GS_ERR_USE,
                   "--lora: \"%.*s\" is not one of r=N, alpha=X, targets=NAME+NAME", (int)n, s);
  if (seen[k]) return gs_fail(err, GS_ERR_USE, "--lora: %s is given twice", keys[k]);
  seen[k] = true;
  if (k == 2) return parse_targets(l, value, vlen, err);
  bool ok = parse_number(value, vlen, &v);
  if (k == 0 && !(ok && rank_is_legal(v)))
    return gs_fail(err, GS_ERR_USE, "--lora: r=%.*s: the rank is a whole number from 1 to %d",
                   (int)vlen, value, MAX_RANK);
  if (k == 1 && !(ok && v > 0))
    return gs_fail(err, GS_ERR_USE, "--lora: alpha=%.*s: alpha is a number above 0", (int)vlen,
                   value);
  if (k == 0) l->r = (int64_t)v;
  if (k == 1) l->alpha = v;
  return GS_OK;
}

gs_status gs_lora_parse(const char *text, gs_lora *out, gs_error *err) {
  bool seen[3] = {false};
  *out = (gs_lora){.r = 16, .alpha = 32};
  add_all_seven(out);
  if (!text || !*text) return GS_OK;
  for (const char *s = text;; s++) {
    size_t n = strcspn(s, ",");
    gs_status st = parse_item(out, s, n, seen, err);
    if (st != GS_OK) return st;
    s += n;
    if (!*s) return GS_OK;
  }
}

/* ---- writing ---- */

/* A field without a value of its own is written as PEFT writes its default. */
static json_t *make_config(const gs_lora *l, const char *base_model) {
  static const char *const nulls[] = {"alora_invocation_tokens",
                                      "arrow_config",
                                      "auto_mapping",
                                      "corda_config",
                                      "eva_config",
                                      "exclude_modules",
                                      "layer_replication",
                                      "layers_pattern",
                                      "layers_to_transform",
                                      "megatron_config",
                                      "modules_to_save",
                                      "revision",
                                      "target_parameters",
                                      "trainable_token_indices"};
  static const char *const falses[] = {
      "ensure_weight_tying", "fan_in_fan_out", "lora_bias", "use_dora", "use_qalora", "use_rslora"};
  json_t *c = json_object(), *targets = json_array();
  for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
    json_object_set_new(c, nulls[i], json_null());
  for (size_t i = 0; i < sizeof falses / sizeof *falses; i++)
    json_object_set_new(c, falses[i], json_false());
  for (int i = 0; i < l->ntargets; i++) json_array_append_new(targets, json_string(l->targets[i]));
  bool whole = l->alpha == floor(l->alpha) && fabs(l->alpha) < 1e15;
  json_object_set_new(c, "alpha_pattern", json_object());
  json_object_set_new(c, "base_model_name_or_path",
                      base_model ? json_string(base_model) : json_null());
  json_object_set_new(c, "bias", json_string("none"));
  json_object_set_new(c, "inference_mode", json_true());
  json_object_set_new(c, "init_lora_weights", json_true());
  json_object_set_new(c, "loftq_config", json_object());
  json_object_set_new(c, "lora_alpha",
                      whole ? json_integer((json_int_t)l->alpha) : json_real(l->alpha));
  json_object_set_new(c, "lora_dropout", json_real(0));
  json_object_set_new(c, "megatron_core", json_string("megatron.core"));
  json_object_set_new(c, "peft_type", json_string("LORA"));
  json_object_set_new(c, "qalora_group_size", json_integer(16));
  json_object_set_new(c, "r", json_integer((json_int_t)l->r));
  json_object_set_new(c, "rank_pattern", json_object());
  json_object_set_new(c, "target_modules", targets);
  json_object_set_new(c, "task_type", json_string("CAUSAL_LM"));
  return c;
}

gs_status gs_adapter_write(const char *dir, const gs_lora *lora, const char *base_model,
                           const gs_weight *tensors, int n, gs_error *err) {
  static const char *const metadata[] = {"format", "pt", NULL};
  gs_text path = {0};
  json_t *config = make_config(lora, base_model);
  gs_status st = gs_mkdirs(dir, err);
  gs_text_printf(&path, "%s/adapter_model.safetensors", dir);
  if (st == GS_OK) st = gs_safetensors_write(path.s, tensors, n, metadata, err);
  path.len = 0;
  gs_text_printf(&path, "%s/adapter_config.json", dir);
  if (st == GS_OK) st = gs_json_write(path.s, config, err);
  json_decref(config);
  gs_text_free(&path);
  return st;
}

/* ---- reading ---- */

static gs_status read_targets(gs_lora *l, const json_t *v, const char *file, gs_error *err) {
  gs_status st = GS_OK;
  size_t i;
  json_t *name;
  l->ntargets = 0;
  if (json_is_string(v) && strcmp(json_string_value(v), "all-linear") == 0) {
    add_all_seven(l);
    return GS_OK;
  }
  if (!json_is_array(v) || json_array_size(v) == 0)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: \"target_modules\" is not a list of module names; a regular "
                   "expression is not supported",
                   file);
  json_array_foreach(v, i, name) {
    if (!json_is_string(name))
      return gs_fail(err, GS_ERR_INPUT, "%s: \"target_modules\" item %zu is not a string", file,
                     i + 1);
    st = add_target(l, json_string_value(name), json_string_length(name), file, err);
    if (st != GS_OK) break;
  }
  if (st != GS_OK && err) err->status = GS_ERR_INPUT;
  return st == GS_OK ? GS_OK : GS_ERR_INPUT;
}

static gs_status read_config(const char *file, gs_lora *l, gs_error *err) {
  json_t *c = NULL;
  gs_status st = gs_json_read(file, &c, err);
  if (st != GS_OK) return st;
  const char *type = json_string_value(json_object_get(c, "peft_type"));
  const json_t *r = json_object_get(c, "r"), *alpha = json_object_get(c, "lora_alpha");
  *l = (gs_lora){0};
  if (!json_is_object(c)) {
    st = gs_fail(err, GS_ERR_INPUT, "%s: not a JSON object", file);
  } else if (!type || strcmp(type, "LORA") != 0) {
    st = gs_fail(err, GS_ERR_INPUT, "%s: \"peft_type\" is %s; only LORA is supported", file,
                 type ? type : "missing");
  } else if (!json_is_integer(r) || !rank_is_legal((double)json_integer_value(r))) {
    st = gs_fail(err, GS_ERR_INPUT, "%s: \"r\" is not a whole number from 1 to %d", file, MAX_RANK);
  } else if (!json_is_number(alpha)) {
    st = gs_fail(err, GS_ERR_INPUT, "%s: \"lora_alpha\" is not a number", file);
  } else {
    l->r = (int64_t)json_integer_value(r);
    l->alpha = json_number_value(alpha);
    st = gs_adapter_check_fields(c, file, err);
    if (st == GS_OK) st = read_targets(l, json_object_get(c, "target_modules"), file, err);
  }
  json_decref(c);
  return st;
}

static bool ends_with(const char *s, size_t n, const char *end) {
  size_t m = strlen(end);
  return n >= m && memcmp(s + n - m, end, m) == 0;
}

/* As PEFT matches: the whole module name, or its last parts. */
static bool is_target(const gs_lora *l, const char *module, size_t n) {
  for (int i = 0; i < l->ntargets; i++) {
    size_t m = strlen(l->targets[i]);
    if (ends_with(module, n, l->targets[i]) && (n == m || module[n - m - 1] == '.')) return true;
  }
  return false;
}

static gs_status check_tensor(const gs_weights *w, const gs_weight *t, const gs_lora *l,
                              const char *file, gs_error *err) {
  static const char a_end[] = ".lora_A.weight", b_end[] = ".lora_B.weight";
  size_t n = strlen(t->name), p = strlen(PREFIX);
  bool a = ends_with(t->name, n, a_end), b = ends_with(t->name, n, b_end);
  if (strncmp(t->name, PREFIX, p) != 0 || !(a || b) || n <= p + sizeof a_end - 1)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: tensor \"%s\" is not named " PREFIX "MODULE.lora_A.weight or "
                   ".lora_B.weight",
                   file, t->name);
  size_t module = n - p - (sizeof a_end - 1);
  if (!is_target(l, t->name + p, module))
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: tensor \"%s\": its module is not among the target_modules of "
                   "adapter_config.json",
                   file, t->name);
  if (t->type != GS_F32 && t->type != GS_BF16 && t->type != GS_F16)
    return gs_fail(err, GS_ERR_INPUT, "%s: tensor \"%s\" is not F32, BF16 or F16", file, t->name);
  if (t->ndims != 2 || t->shape[a ? 0 : 1] != l->r || t->bytes == 0)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: tensor \"%s\" is not %s with the r=%lld of adapter_config.json", file,
                   t->name, a ? "[r, in]" : "[out, r]", (long long)l->r);
  gs_text other = {0};
  gs_text_add_n(&other, t->name, p + module);
  gs_text_add(&other, a ? b_end : a_end);
  gs_status st = GS_OK;
  if (!gs_weights_find(w, other.s))
    st = gs_fail(err, GS_ERR_INPUT, "%s: tensor \"%s\" is missing beside \"%s\"", file, other.s,
                 t->name);
  gs_text_free(&other);
  return st;
}

gs_status gs_adapter_read(const char *dir, gs_lora *lora, gs_weights **tensors, gs_error *err) {
  gs_text path = {0};
  gs_weights *w = NULL;
  *tensors = NULL;
  gs_text_printf(&path, "%s/adapter_config.json", dir);
  gs_status st = read_config(path.s, lora, err);
  path.len = 0;
  gs_text_printf(&path, "%s/adapter_model.safetensors", dir);
  if (st == GS_OK) st = gs_weights_open(path.s, &w, err);
  if (st == GS_OK && gs_weights_count(w) == 0)
    st = gs_fail(err, GS_ERR_INPUT, "%s: holds no tensors", path.s);
  for (int i = 0; st == GS_OK && i < gs_weights_count(w); i++)
    st = check_tensor(w, gs_weights_at(w, i), lora, path.s, err);
  gs_text_free(&path);
  if (st == GS_OK)
    *tensors = w;
  else
    gs_weights_close(w);
  return st;
}
