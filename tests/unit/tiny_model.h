/* tiny_model.h: a tiny random Llama as a model folder, and batches for it, made by a test. Sizes
 * are off every tile: hidden 24, 6 heads of 4 in 2 groups, ffn 35, 2 layers, vocabulary 37 unless
 * said otherwise. */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include "base/file.h"
#include "base/text.h"
#include "model/safetensors.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tiny {
  int hidden, heads, kv, dim, ffn, layers, vocab;
  bool tied, lm_head;    /* lm_head: the file has its own weight */
  const char *more;      /* further fields of config.json, each followed by a comma */
  const char *leave_out; /* a tensor that the file lacks */
  const char *extra;     /* a tensor that the file has besides */
} tiny;

static inline tiny tiny_default(void) {
  return (tiny){.hidden = 24,
                .heads = 6,
                .kv = 2,
                .dim = 4,
                .ffn = 35,
                .layers = 2,
                .vocab = 37,
                .tied = true,
                .more = "",
                .leave_out = "",
                .extra = ""};
}

static uint64_t tiny_state = 88172645463325252u;
static inline double tiny_random(void) { /* about normal: a sum of uniforms */
  double s = 0;
  for (int i = 0; i < 12; i++) {
    tiny_state ^= tiny_state << 13;
    tiny_state ^= tiny_state >> 7;
    tiny_state ^= tiny_state << 17;
    s += (double)(tiny_state >> 11) / 9007199254740992.0;
  }
  return s - 6;
}

static inline void must(gs_status st, const gs_error *err) {
  cr_assert(st == GS_OK, "%s", err->message);
}

typedef struct tiny_file {
  gs_weight w[128];
  int n;
} tiny_file;

static inline void tiny_add(tiny_file *f, const tiny *t, const char *name, int rows, int columns) {
  if (strcmp(name, t->leave_out) == 0) return;
  size_t n = (size_t)rows * (size_t)(columns ? columns : 1);
  float *v = malloc(n * sizeof *v);
  for (size_t i = 0; i < n; i++)
    v[i] = (float)(columns ? 0.25 * tiny_random() : 1 + 0.1 * tiny_random());
  f->w[f->n++] = (gs_weight){.name = strdup(name),
                             .type = GS_F32,
                             .ndims = columns ? 2 : 1,
                             .shape = {rows, columns},
                             .data = v,
                             .bytes = n * sizeof *v};
}

static inline void tiny_write_config(const char *dir, const tiny *t) {
  gs_text j = {0};
  gs_error err = {0};
  char path[600];
  gs_text_printf(&j,
                 "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", %s\n"
                 "\"hidden_size\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
                 "\"head_dim\": %d, \"intermediate_size\": %d, \"num_hidden_layers\": %d, "
                 "\"vocab_size\": %d, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": %s, "
                 "\"hidden_act\": \"silu\", \"eos_token_id\": 2}\n",
                 t->more, t->hidden, t->heads, t->kv, t->dim, t->ffn, t->layers, t->vocab,
                 t->tied ? "true" : "false");
  snprintf(path, sizeof path, "%s/config.json", dir);
  must(gs_file_write(path, j.s, j.len, &err), &err);
  gs_text_free(&j);
}

/* The same seed gives the same weights, whatever else was made before. */
static inline void tiny_write(const char *dir, const tiny *t, uint64_t seed) {
  static const char *const ends[] = {
      "input_layernorm",  "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj",
      "self_attn.v_proj", "self_attn.o_proj",         "mlp.gate_proj",    "mlp.up_proj",
      "mlp.down_proj"};
  int q = t->heads * t->dim, k = t->kv * t->dim, h = t->hidden;
  int rows[] = {h, h, q, k, k, h, t->ffn, t->ffn, h}, columns[] = {0, 0, h, h, h, q, h, h, t->ffn};
  tiny_file f = {.n = 0};
  gs_error err = {0};
  char name[128], path[600];
  tiny_state = 88172645463325252u + seed * 7919;
  tiny_add(&f, t, "model.embed_tokens.weight", t->vocab, h);
  for (int i = 0; i < t->layers; i++)
    for (int e = 0; e < 9; e++) {
      snprintf(name, sizeof name, "model.layers.%d.%s.weight", i, ends[e]);
      tiny_add(&f, t, name, rows[e], columns[e]);
    }
  tiny_add(&f, t, "model.norm.weight", h, 0);
  if (t->lm_head) tiny_add(&f, t, "lm_head.weight", t->vocab, h);
  if (*t->extra) tiny_add(&f, t, t->extra, 3, 0);
  must(gs_mkdirs(dir, &err), &err);
  snprintf(path, sizeof path, "%s/model.safetensors", dir);
  must(gs_safetensors_write(path, f.w, f.n, NULL, &err), &err);
  for (int i = 0; i < f.n; i++) {
    free((void *)f.w[i].name);
    free((void *)f.w[i].data);
  }
  tiny_write_config(dir, t);
}

/* A packed row: documents one after another; every fourth label is left out. */
typedef struct tiny_row {
  int n, documents;
  int32_t id[512], label[512], position[512], cu[513];
} tiny_row;

static inline void tiny_document(tiny_row *r, int length, int vocab) {
  for (int i = 0; i < length; i++) {
    int at = r->n++;
    tiny_random();
    r->id[at] = (int32_t)(tiny_state % (uint64_t)vocab);
    r->label[at] = -100;
    r->position[at] = i;
    if (i > 0) r->label[at - 1] = i % 4 == 3 ? -100 : r->id[at];
  }
  r->cu[++r->documents] = r->n;
}

static inline void tiny_one_document(tiny_row *r) {
  r->documents = 1;
  r->cu[1] = r->n;
}

#endif
