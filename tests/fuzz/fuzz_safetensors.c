/* fuzz_safetensors.c: any bytes as a safetensors file: an error, or tensors whose every byte is
 * there.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_XOPEN_SOURCE=700 -Iruntime \
 *     tests/fuzz/fuzz_safetensors.c runtime/model/{safetensors,json}.c \
 *     runtime/base/{file,text,error}.c -ljansson -o fuzz_safetensors
 *   ./fuzz_safetensors -max_total_time=120 -rss_limit_mb=1024 CORPUS
 */
#include "fuzz_file.h"

#include "model/safetensors.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static volatile unsigned sum;
  gs_weights *w;
  gs_error err = {0};
  if (gs_weights_open(fuzz_file(data, size), &w, &err) != GS_OK) {
    if (!err.message[0] || w) abort();
    return 0;
  }
  for (int i = 0; i < gs_weights_count(w); i++) {
    const gs_weight *t = gs_weights_at(w, i), *again;
    if (gs_weights_find(w, t->name) != t) abort();
    if ((gs_weights_get(w, t->name, &again, &err) == GS_OK) != (t->type != GS_TYPE_NONE)) abort();
    for (size_t k = 0; k < t->bytes; k++) sum += ((const unsigned char *)t->data)[k];
  }
  gs_weights_metadata(w, "format");
  gs_weights_close(w);
  return 0;
}
