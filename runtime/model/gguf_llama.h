/* gguf_llama.h: a GGUF file of architecture llama seen as a Hugging Face LlamaForCausalLM: its
 * config.json, and which tensor becomes which. */
#ifndef GS_GGUF_LLAMA_H
#define GS_GGUF_LLAMA_H

#include "base/arena.h"
#include "model/gguf_file.h"
#include "model/json.h"
#include "model/safetensors.h"

typedef struct gs_llama {
  int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab, context;
  double eps, theta;
  bool tied;
  int n; /* tensors: weights[i] is made from sources[i] */
  gs_weight *weights;
  const gs_gguf_tensor **sources;
  int64_t *half; /* rows of weights[i] are un-permuted within heads of 2*half[i]; 0: as they are */
} gs_llama;

/* Everything of g that makes the model, checked: shapes against each other, every tensor known and
 * there, no setting that would be dropped. Names and lists live in a; type is what the weights are
 * stored as. */
gs_status gs_llama_read(const gs_gguf *g, gs_type type, gs_arena *a, gs_llama *out, gs_error *err);

/* The row of the file's tensor that becomes row `row`: the converter to GGUF interleaves the two
 * halves of each head of q and k; Hugging Face rotates halves. */
int64_t gs_llama_source_row(int64_t half, int64_t row);

/* config.json, without token ids; NULL when memory runs out. */
json_t *gs_llama_config(const gs_llama *m, gs_type type);

#endif
