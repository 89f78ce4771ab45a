/* gguf.h: a GGUF model file made into a Hugging Face folder (config.json, model.safetensors,
 * tokenizer.json, tokenizer_config.json, generation_config.json). Format: github.com/ggml-org/ggml,
 * docs/gguf.md. */
#ifndef GS_GGUF_H
#define GS_GGUF_H

#include "gradsmith.h"

/* Architecture llama with a byte-level BPE tokenizer; anything else in the file that would change
 * the model is refused by name. Block formats are decoded to f32 and stored as type: GS_BF16 or
 * GS_F32. Works tensor by tensor, so memory stays small. dir must be absent or empty: it appears
 * complete, by one rename, or not at all. */
gs_status gs_gguf_import(const char *file, const char *dir, gs_type type, gs_error *err);

#endif
