/* gguf_tokenizer.h: the tokenizer in a GGUF file's metadata as Hugging Face's files have it. */
#ifndef GS_GGUF_TOKENIZER_H
#define GS_GGUF_TOKENIZER_H

#include "model/gguf_file.h"
#include "model/json.h"

typedef struct gs_gguf_tokens {
  json_t *tokenizer;          /* tokenizer.json */
  json_t *config;             /* tokenizer_config.json */
  int64_t bos, eos, pad, unk; /* ids; -1: none */
} gs_gguf_tokens;

/* Byte-level BPE with a pre-tokenizer that is known; any other kind is refused by name. vocab: rows
 * of the embedding, which every id must be below. context: model_max_length. */
gs_status gs_gguf_tokens_read(const gs_gguf *g, int64_t vocab, int64_t context, gs_gguf_tokens *out,
                              gs_error *err);
void gs_gguf_tokens_free(gs_gguf_tokens *t);

#endif
