/* gguf_blocks.h: ggml's storage types: how many elements a block holds, its bytes, and its values.
 */
#ifndef GS_GGUF_BLOCKS_H
#define GS_GGUF_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

typedef struct gs_gguf_block_type {
  int id; /* the file's own number */
  const char *name;
  unsigned elements, bytes; /* of one block */
  /* One block's values, in the arithmetic (f32) and order of the reference; NULL: only its size is
   * known. */
  void (*decode)(const unsigned char *block, float *out);
} gs_gguf_block_type;

const gs_gguf_block_type *gs_gguf_block(int id); /* NULL: unknown */
/* n elements, a multiple of the block's, from packed blocks. */
void gs_gguf_decode(const gs_gguf_block_type *t, const unsigned char *data, float *out, size_t n);

#endif
