/* fuzz_gguf.c: any bytes as a GGUF file: an error, or a model that can be read to its last block.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_XOPEN_SOURCE=700 -Iruntime \
 *     tests/fuzz/fuzz_gguf.c runtime/model/{gguf_file,gguf_blocks,gguf_llama,gguf_tokenizer,json}.c \
 *     runtime/base/{file,text,error,half,arena}.c -ljansson -lm -o fuzz_gguf
 *   ./fuzz_gguf -max_total_time=120 -rss_limit_mb=1024 CORPUS
 */
#include "fuzz_file.h"

#include "model/gguf_blocks.h"
#include "model/gguf_llama.h"
#include "model/gguf_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_strings(const gs_gguf *g) {
  static volatile unsigned sum;
  gs_gguf_string s;
  int64_t v;
  double r;
  for (size_t i = 0; i < g->nvalues; i++) {
    gs_gguf_cursor c = {0}, d = {0};
    while (gs_gguf_next_str(&g->values[i], &c, &s))
      for (size_t k = 0; k < s.len; k++) sum += (unsigned char)s.s[k];
    while (gs_gguf_next_int(&g->values[i], &d, &v)) sum += (unsigned)v;
    if (gs_gguf_int(&g->values[i], &v)) sum += (unsigned)v;
    if (gs_gguf_real(&g->values[i], &r) && r > 0) sum++;
  }
}

static void decode(const gs_gguf_tensor *t) {
  float out[256];
  const gs_gguf_block_type *b = gs_gguf_block(t->type);
  for (uint64_t at = 0; b->decode && at < t->bytes; at += b->bytes) b->decode(t->data + at, out);
}

static void read_model(const gs_gguf *g) {
  gs_error err;
  gs_llama m;
  gs_gguf_tokens t;
  gs_arena *a = gs_arena_new();
  if (gs_gguf_tokens_read(g, 1 << 20, 1, &t, &err) == GS_OK) gs_gguf_tokens_free(&t);
  if (gs_llama_read(g, GS_F32, a, &m, &err) == GS_OK) {
    json_decref(gs_llama_config(&m, GS_F32));
    for (int i = 0; i < m.n; i++)
      for (int64_t row = 0; row < (int64_t)m.sources[i]->rows; row++) {
        int64_t from = gs_llama_source_row(m.half[i], row);
        if (from < 0 || from >= (int64_t)m.sources[i]->rows) abort();
      }
  }
  gs_arena_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  gs_gguf *g;
  gs_error err = {0};
  if (gs_gguf_open(fuzz_file(data, size), &g, &err) != GS_OK) {
    if (!err.message[0] || g) abort();
    return 0;
  }
  read_strings(g);
  for (size_t i = 0; i < g->ntensors; i++) decode(&g->tensors[i]);
  read_model(g);
  gs_gguf_close(g);
  return 0;
}
