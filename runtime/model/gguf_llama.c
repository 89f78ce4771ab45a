/* gguf_llama.c: the metadata and tensors of a llama GGUF, by tables: one of settings, one of
 * tensors. */
#include "model/gguf_llama.h"

#include "model/gguf_blocks.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT INT32_MAX

/* ---- settings: metadata keys that begin with "llama." ---- */

typedef enum rule { COUNT, REAL, SAME_AS_HEAD, VOCAB, NO_SCALING, IGNORED } rule;

static const struct {
  const char *key;
  rule rule;
  size_t at; /* of its field in gs_llama, for COUNT (int64_t) and REAL (double) */
  bool required;
} settings[] = {
    {"block_count", COUNT, offsetof(gs_llama, layers), true},
    {"context_length", COUNT, offsetof(gs_llama, context), true},
    {"embedding_length", COUNT, offsetof(gs_llama, hidden), true},
    {"feed_forward_length", COUNT, offsetof(gs_llama, ffn), true},
    {"attention.head_count", COUNT, offsetof(gs_llama, heads), true},
    {"attention.head_count_kv", COUNT, offsetof(gs_llama, kv_heads), false},
    {"attention.key_length", COUNT, offsetof(gs_llama, head_dim), false},
    {"attention.value_length", SAME_AS_HEAD, 0, false},
    {"rope.dimension_count", SAME_AS_HEAD, 0, false},
    {"rope.freq_base", REAL, offsetof(gs_llama, theta), false},
    {"rope.scaling.type", NO_SCALING, 0, false},
    {"attention.layer_norm_rms_epsilon", REAL, offsetof(gs_llama, eps), true},
    {"vocab_size", VOCAB, 0, false},
    {"tensor_data_layout", IGNORED, 0, false}, /* older files; the layout read here */
};
#define NSETTINGS (sizeof settings / sizeof *settings)

static bool value_is_empty(const gs_gguf_value *v) {
  int64_t i;
  double r;
  gs_gguf_string s;
  if (v->is_array) return v->count == 0;
  if (gs_gguf_int(v, &i)) return i == 0;
  if (gs_gguf_real(v, &r)) return r == 0;
  return gs_gguf_str(v, &s) && s.len == 0;
}

static gs_status wrong(const gs_gguf *g, const gs_gguf_value *v, const char *what, gs_error *err) {
  return gs_fail(err, GS_ERR_INPUT, "%s: byte %llu: metadata \"%s\" %s", g->path,
                 (unsigned long long)(v->data - g->map.data), v->key, what);
}

static const gs_gguf_value *setting(const gs_gguf *g, const char *key) {
  char full[128];
  snprintf(full, sizeof full, "llama.%s", key);
  return gs_gguf_find(g, full);
}

/* Settings that no row knows are only let pass when they are empty. */
static gs_status check_unknown(const gs_gguf *g, gs_error *err) {
  for (size_t i = 0; i < g->nvalues; i++) {
    const gs_gguf_value *v = &g->values[i];
    bool known = strncmp(v->key, "llama.", 6) != 0;
    for (size_t k = 0; k < NSETTINGS && !known; k++)
      known = strcmp(v->key + 6, settings[k].key) == 0;
    if (!known && !value_is_empty(v))
      return wrong(g, v, "is not supported, and would be dropped", err);
  }
  return GS_OK;
}

static gs_status read_numbers(const gs_gguf *g, gs_llama *m, gs_error *err) {
  for (size_t k = 0; k < NSETTINGS; k++) {
    const gs_gguf_value *v = setting(g, settings[k].key);
    void *field = (char *)m + settings[k].at;
    int64_t i;
    double r;
    if (!v && settings[k].required)
      return gs_fail(err, GS_ERR_INPUT, "%s: metadata \"llama.%s\" is missing", g->path,
                     settings[k].key);
    if (!v) continue;
    if (settings[k].rule == COUNT) {
      if (!gs_gguf_int(v, &i) || i < 1 || i > LIMIT)
        return wrong(g, v, "is not one whole number from 1 to 2147483647", err);
      *(int64_t *)field = i;
    } else if (settings[k].rule == REAL) {
      if (!gs_gguf_real(v, &r) || !(r > 0) || !isfinite(r))
        return wrong(g, v, "is not a number above 0", err);
      *(double *)field = r;
    }
  }
  return GS_OK;
}

/* The settings that must agree with others; after read_numbers. */
static gs_status check_settings(const gs_gguf *g, gs_llama *m, gs_error *err) {
  gs_gguf_string s;
  if (!m->kv_heads) m->kv_heads = m->heads;
  if (!m->head_dim) {
    if (m->hidden % m->heads)
      return wrong(g, setting(g, "attention.head_count"), "does not divide embedding_length", err);
    m->head_dim = m->hidden / m->heads;
  }
  if (m->heads % m->kv_heads)
    return wrong(g, setting(g, "attention.head_count_kv"), "does not divide head_count", err);
  if (m->head_dim % 2)
    return wrong(g, setting(g, "attention.head_count"), "makes heads of an odd length", err);
  if (m->heads > LIMIT / m->head_dim)
    return wrong(g, setting(g, "attention.head_count"), "makes projections too large", err);
  for (size_t k = 0; k < NSETTINGS; k++) {
    const gs_gguf_value *v = setting(g, settings[k].key);
    int64_t i;
    if (!v) continue;
    if (settings[k].rule == SAME_AS_HEAD && !(gs_gguf_int(v, &i) && i == m->head_dim))
      return wrong(g, v, "differs from the head's length, which is not supported", err);
    if (settings[k].rule == VOCAB && !(gs_gguf_int(v, &i) && i == m->vocab))
      return wrong(g, v, "differs from the rows of token_embd.weight", err);
    if (settings[k].rule == NO_SCALING &&
        !(gs_gguf_str(v, &s) && s.len == 4 && memcmp(s.s, "none", 4) == 0))
      return wrong(g, v, "asks for scaled rotary positions, which are not supported here", err);
  }
  return GS_OK;
}

static gs_status check_general(const gs_gguf *g, gs_error *err) {
  const gs_gguf_value *arch = gs_gguf_find(g, "general.architecture");
  const gs_gguf_value *quant = gs_gguf_find(g, "general.quantization_version");
  gs_gguf_string s;
  int64_t version;
  if (!gs_gguf_str(arch, &s))
    return gs_fail(err, GS_ERR_INPUT, "%s: metadata \"general.architecture\" is missing", g->path);
  if (s.len != 5 || memcmp(s.s, "llama", 5) != 0)
    return gs_fail(err, GS_ERR_INPUT, "%s: architecture \"%.*s\"; only llama can be imported",
                   g->path, (int)(s.len < 64 ? s.len : 64), s.s);
  if (quant && !(gs_gguf_int(quant, &version) && version == 2))
    return wrong(g, quant, "is not 2: block formats of another version", err);
  if (gs_gguf_find(g, "split.count"))
    return wrong(g, gs_gguf_find(g, "split.count"),
                 "says that the model is split over several files; "
                 "merge them first (llama-gguf-split --merge)",
                 err);
  return GS_OK;
}

/* ---- tensors ---- */

typedef enum extent { ONE, HIDDEN, FFN, Q_ROWS, KV_ROWS, VOCAB_ROWS } extent;

static const struct {
  const char *from, *to; /* of a layer: after "blk.N." and "model.layers.N." */
  extent rows, cols;     /* rows ONE: a vector */
  bool of_layer, rotated, optional;
} tensors[] = {
    {"token_embd.weight", "model.embed_tokens.weight", VOCAB_ROWS, HIDDEN, false, false, false},
    {"output_norm.weight", "model.norm.weight", ONE, HIDDEN, false, false, false},
    {"output.weight", "lm_head.weight", VOCAB_ROWS, HIDDEN, false, false, true},
    {"attn_norm.weight", "input_layernorm.weight", ONE, HIDDEN, true, false, false},
    {"attn_q.weight", "self_attn.q_proj.weight", Q_ROWS, HIDDEN, true, true, false},
    {"attn_k.weight", "self_attn.k_proj.weight", KV_ROWS, HIDDEN, true, true, false},
    {"attn_v.weight", "self_attn.v_proj.weight", KV_ROWS, HIDDEN, true, false, false},
    {"attn_output.weight", "self_attn.o_proj.weight", HIDDEN, Q_ROWS, true, false, false},
    {"ffn_norm.weight", "post_attention_layernorm.weight", ONE, HIDDEN, true, false, false},
    {"ffn_gate.weight", "mlp.gate_proj.weight", FFN, HIDDEN, true, false, false},
    {"ffn_up.weight", "mlp.up_proj.weight", FFN, HIDDEN, true, false, false},
    {"ffn_down.weight", "mlp.down_proj.weight", HIDDEN, FFN, true, false, false},
};
#define NTENSORS (sizeof tensors / sizeof *tensors)

static int64_t extent_of(const gs_llama *m, extent e) {
  switch (e) {
  case HIDDEN: return m->hidden;
  case FFN: return m->ffn;
  case Q_ROWS: return m->heads * m->head_dim;
  case KV_ROWS: return m->kv_heads * m->head_dim;
  case VOCAB_ROWS: return m->vocab;
  default: return 1;
  }
}

static gs_status check_tensor(const gs_gguf *g, const gs_llama *m, size_t row,
                              const gs_gguf_tensor *t, gs_error *err) {
  int64_t rows = extent_of(m, tensors[row].rows), cols = extent_of(m, tensors[row].cols);
  const gs_gguf_block_type *b = gs_gguf_block(t->type);
  if (t->ndims != (tensors[row].rows == ONE ? 1 : 2) || t->dims[0] != (uint64_t)cols ||
      t->dims[1] != (uint64_t)rows)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: tensor \"%s\" is [%llu, %llu] with %d dims; the metadata make it "
                   "[%lld, %lld]",
                   g->path, t->name, (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
                   t->ndims, (long long)cols, (long long)rows);
  if (!b->decode)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: tensor \"%s\" is stored as %s, which cannot be decoded here; "
                   "get the model in another quantisation, such as Q8_0 or Q4_K_M",
                   g->path, t->name, b->name);
  return GS_OK;
}

static gs_status add_tensor(const gs_gguf *g, gs_llama *m, size_t row, int64_t layer, gs_type type,
                            gs_arena *a, gs_error *err) {
  bool inner = tensors[row].of_layer;
  char *from = inner ? gs_arena_printf(a, "blk.%lld.%s", (long long)layer, tensors[row].from)
                     : gs_arena_strdup(a, tensors[row].from);
  char *to = inner ? gs_arena_printf(a, "model.layers.%lld.%s", (long long)layer, tensors[row].to)
                   : gs_arena_strdup(a, tensors[row].to);
  const gs_gguf_tensor *t = gs_gguf_tensor_find(g, from);
  if (!t && tensors[row].optional) return GS_OK;
  if (!t) return gs_fail(err, GS_ERR_INPUT, "%s: tensor \"%s\" is missing", g->path, from);
  gs_status st = check_tensor(g, m, row, t, err);
  if (st != GS_OK) return st;
  gs_weight *w = &m->weights[m->n];
  *w = (gs_weight){.name = to, .type = type, .ndims = t->ndims};
  w->shape[0] = (int64_t)t->dims[t->ndims - 1];
  if (t->ndims == 2) w->shape[1] = (int64_t)t->dims[0];
  w->bytes = gs_type_size(type) * (size_t)t->dims[0] * (size_t)t->dims[1];
  m->half[m->n] = tensors[row].rotated ? m->head_dim / 2 : 0;
  m->sources[m->n++] = t;
  return GS_OK;
}

/* A tensor that no row took would be dropped: refused. */
static gs_status check_all_taken(const gs_gguf *g, const gs_llama *m, gs_error *err) {
  if ((size_t)m->n == g->ntensors) return GS_OK;
  for (size_t i = 0; i < g->ntensors; i++) {
    bool taken = false;
    for (int k = 0; k < m->n && !taken; k++) taken = m->sources[k] == &g->tensors[i];
    if (!taken)
      return gs_fail(err, GS_ERR_INPUT,
                     "%s: tensor \"%s\" is no part of a plain llama model, and would be "
                     "dropped; such models cannot be imported",
                     g->path, g->tensors[i].name);
  }
  return GS_OK;
}

static gs_status list_tensors(const gs_gguf *g, gs_type type, gs_arena *a, gs_llama *m,
                              gs_error *err) {
  if ((uint64_t)m->layers > g->ntensors || g->ntensors > LIMIT)
    return wrong(g, setting(g, "block_count"), "is more than the file has tensors for", err);
  m->weights = GS_NEW_N(a, gs_weight, g->ntensors);
  m->sources = GS_NEW_N(a, const gs_gguf_tensor *, g->ntensors);
  m->half = GS_NEW_N(a, int64_t, g->ntensors);
  m->tied = !gs_gguf_tensor_find(g, "output.weight");
  gs_status st = GS_OK;
  for (size_t row = 0; row < NTENSORS; row++)
    for (int64_t l = 0; l < (tensors[row].of_layer ? m->layers : 1) && st == GS_OK; l++)
      st = add_tensor(g, m, row, l, type, a, err);
  return st == GS_OK ? check_all_taken(g, m, err) : st;
}

gs_status gs_llama_read(const gs_gguf *g, gs_type type, gs_arena *a, gs_llama *out, gs_error *err) {
  *out = (gs_llama){.theta = 10000};
  gs_status st = check_general(g, err);
  if (st == GS_OK) st = check_unknown(g, err);
  if (st == GS_OK) st = read_numbers(g, out, err);
  if (st != GS_OK) return st;
  const gs_gguf_tensor *embed = gs_gguf_tensor_find(g, "token_embd.weight");
  if (!embed)
    return gs_fail(err, GS_ERR_INPUT, "%s: tensor \"token_embd.weight\" is missing", g->path);
  if (embed->dims[1] > LIMIT)
    return gs_fail(err, GS_ERR_INPUT, "%s: tensor \"token_embd.weight\" has %llu rows", g->path,
                   (unsigned long long)embed->dims[1]);
  out->vocab = (int64_t)embed->dims[1];
  st = check_settings(g, out, err);
  return st == GS_OK ? list_tensors(g, type, a, out, err) : st;
}

int64_t gs_llama_source_row(int64_t half, int64_t row) {
  if (half == 0) return row;
  int64_t head = row / (2 * half), in = row % (2 * half);
  return head * 2 * half + 2 * (in % half) + in / half;
}

/* The shortest decimal that is the same f32: the number that a person wrote before it was stored
 * so. */
static double shortest(double v) {
  char s[64];
  if ((double)(float)v != v) return v;
  for (int p = 1; p < 10; p++) {
    snprintf(s, sizeof s, "%.*g", p, v);
    if (strtof(s, NULL) == (float)v) return strtod(s, NULL);
  }
  return v;
}

json_t *gs_llama_config(const gs_llama *m, gs_type type) {
  return json_pack("{s:[s], s:b, s:f, s:I, s:s, s:I, s:f, s:I, s:I, s:b, s:s, s:I, s:I, s:I, s:f, "
                   "s:n, s:f, s:b, s:s,"
                   " s:b, s:I}",
                   "architectures", "LlamaForCausalLM", "attention_bias", 0, "attention_dropout",
                   0.0, "head_dim", (json_int_t)m->head_dim, "hidden_act", "silu", "hidden_size",
                   (json_int_t)m->hidden, "initializer_range", 0.02, "intermediate_size",
                   (json_int_t)m->ffn, "max_position_embeddings", (json_int_t)m->context,
                   "mlp_bias", 0, "model_type", "llama", "num_attention_heads",
                   (json_int_t)m->heads, "num_hidden_layers", (json_int_t)m->layers,
                   "num_key_value_heads", (json_int_t)m->kv_heads, "rms_norm_eps", shortest(m->eps),
                   "rope_scaling", "rope_theta", shortest(m->theta), "tie_word_embeddings", m->tied,
                   "torch_dtype", type == GS_F32 ? "float32" : "bfloat16", "use_cache", 1,
                   "vocab_size", (json_int_t)m->vocab);
}
