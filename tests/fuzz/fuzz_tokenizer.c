/* fuzz_tokenizer.c: any bytes as text for the tokenizers of tests/golden, or, after a 0 byte, as a
 * tokenizer.json: an error with a message, or ids that decode, and ends that go through the text.
 * Run from the top of the repository.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_XOPEN_SOURCE=700 \
 *     -DPCRE2_CODE_UNIT_WIDTH=8 -Iruntime -I/usr/include/lua5.4 tests/fuzz/fuzz_tokenizer.c \
 *     runtime/data/[!c]*.c runtime/data/config.c runtime/base/{file,text,error}.c \
 *     -ljansson -lpcre2-8 -lutf8proc -o fuzz_tokenizer
 *   ./fuzz_tokenizer -max_total_time=120 CORPUS
 */
#include "base/text.h"
#include "data/parts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* dataset.c is linked; no conversation is opened here. */
gs_status gs_chat_open(const gs_tokenizer *t, gs_chat **out, gs_error *err) {
  (void)t;
  *out = NULL;
  return gs_fail(err, GS_ERR_INPUT, "no chat");
}
void gs_chat_free(gs_chat *c) {
  (void)c;
}
void gs_segments_free(gs_segments *s) {
  free(s->v);
}
gs_status gs_chat_render(const gs_chat *c, const gs_message *m, size_t n, bool generate,
                         gs_segments *out, gs_error *err) {
  (void)c, (void)m, (void)n, (void)generate, (void)out;
  return gs_fail(err, GS_ERR_INPUT, "no chat");
}

static const char *names[] = {"gpt2", "smollm", "qwen", "llama3", "spm", "metaspace", "split"};

static void round_trip(const gs_tokenizer *t, const char *s, size_t n, bool exact) {
  gs_ids ids = {0}, ends = {0};
  gs_error err = {0};
  char *back = NULL;
  if (gs_tokenizer_encode_ends(t, s, n, 0, &ids, &ends, &err) != GS_OK) {
    if (err.message[0] == 0 || ids.n > 0 || ends.n > 0) abort();
  } else {
    if (ids.n != ends.n || gs_utf8_check(s, n) < n) abort();
    for (size_t i = 0; i < ids.n; i++) {
      if (ids.id[i] < 0 || ids.id[i] >= gs_tokenizer_size(t)) abort();
      if (ends.id[i] < (i > 0 ? ends.id[i - 1] : 0) || (size_t)ends.id[i] > n) abort();
    }
    if (exact && n > 0 && (ends.n == 0 || (size_t)ends.id[ends.n - 1] != n)) abort();
    if (gs_tokenizer_decode(t, ids.id, ids.n, 0, &back, &err) != GS_OK) abort();
    if (exact && strncmp(back, s, n) != 0) abort();
  }
  free(back);
  gs_ids_free(&ids);
  gs_ids_free(&ends);
}

static void as_file(const char *s, size_t n) {
  json_error_t e;
  gs_error err = {0};
  json_t *j = json_loadb(s, n, JSON_ALLOW_NUL, &e);
  gs_tokenizer *t = calloc(1, sizeof *t);
  if (j != NULL) {
    if (gs_load_tokenizer(t, j, "fuzz", &err) == GS_OK)
      round_trip(t, "It's <|end|> 123 \xc3\xa9\xe5\xbd\xa2  x\n\n y", 30, false);
    else if (err.message[0] == 0)
      abort();
  }
  json_decref(j);
  gs_tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static gs_tokenizer *t[7];
  gs_error err;
  for (size_t i = 0; i < 7; i++) {
    char dir[256];
    snprintf(dir, sizeof dir, "tests/golden/tokenizers/%s", names[i]);
    if (t[i] == NULL && gs_tokenizer_open(dir, &t[i], &err) != GS_OK) abort();
  }
  if (size == 0) return 0;
  char *text = malloc(size); /* exactly as long, so that reading on is seen */
  memcpy(text, data + 1, size - 1);
  if (data[0] == 0) {
    as_file(text, size - 1);
  } else {
    size_t k = data[0] % 7;
    round_trip(t[k], text, size - 1, k == 0 || k == 1 || k == 3);
  }
  free(text);
  return 0;
}
