/* fuzz_jsonl.c: any bytes as a data file: an error that names file and line, or samples whose
 * packing keeps every token. Run from the top of the repository.
 *
 *   (the program's assets first: cmake --build --preset debug --target gs_assets)
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_XOPEN_SOURCE=700 \
 *     -DPCRE2_CODE_UNIT_WIDTH=8 -Iruntime -I/usr/include/lua5.4 tests/fuzz/fuzz_jsonl.c \
 *     runtime/data/[a-z]*.c runtime/base/{file,text,error}.c build/debug/assets.c \
 *     -ljansson -lpcre2-8 -lutf8proc -llua5.4 -lm -o fuzz_jsonl
 *   ./fuzz_jsonl -max_total_time=120 CORPUS
 */
#include "fuzz_file.h"

#include "data/parts.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char chatml[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
    "}}{% endif %}";

static void check(const gs_dataset *d, int seq) {
  gs_packed p;
  gs_error err;
  long tokens = 0, packed = 0, labels = 0, answers = 0;
  if (d->n == 0) abort();
  if (gs_pack_rows(d, NULL, seq, 0, 0, &p, &err) != GS_OK) abort();
  for (int i = 0; i < d->n; i++) {
    tokens += d->sample[i].n;
    for (int32_t k = 1; k < d->sample[i].n; k++) answers += d->sample[i].answer[k];
  }
  for (int i = 0; i < p.nrows; i++) packed += p.row[i].ntokens, labels += p.row[i].nlabels;
  if (tokens != packed || labels != answers || labels == 0 || labels > tokens - d->n) abort();
  gs_packed_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static gs_tokenizer *t;
  gs_error err = {0};
  gs_dataset d;
  if (t == NULL) {
    if (gs_tokenizer_open("tests/golden/tokenizers/smollm", &t, &err) != GS_OK) abort();
    t->chat = gs_tk_strndup(chatml, sizeof chatml - 1);
    t->eos = gs_tokenizer_id(t, "<|end|>");
  }
  if (gs_dataset_read(fuzz_file(data, size), t, 64, &d, &err) == GS_OK) {
    check(&d, 64);
    gs_dataset_free(&d);
  } else if (strstr(err.message, "gradsmith_fuzz") == NULL || d.n != 0) {
    abort();
  }
  return 0;
}
