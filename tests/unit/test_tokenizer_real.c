/* uses: gs_data gs_assets */
/* test_tokenizer_real.c: published tokenizers on published texts, when the real inputs are there;
 * the whole data sets against the package `tokenizers` when GRADSMITH_PYTHON names a Python that
 * has it. Their twin on data of our own is test_tokenizer.c. */
#include "tokenizer_case.h"

static const char *real[] = {"qwen3", "gpt-oss", "gpt2", "gpt-neox-20b", "llama2-spm32k"};
#define NREAL (sizeof real / sizeof *real)

static gs_tokenizer *open_real(const char *inputs, const char *name, char *dir, size_t cap) {
  char from[1024], to[512];
  gs_error err = {0};
  gs_tokenizer *t = NULL;
  cr_assert_eq(gs_temp_dir(dir, cap, &err), GS_OK);
  snprintf(from, sizeof from, "%s/tokenizers/%s.tokenizer.json.xz", inputs, name);
  snprintf(to, sizeof to, "%s/tokenizer.json", dir);
  cr_assert_eq(unpack(from, to), 0);
  cr_assert_eq(gs_tokenizer_open(dir, &t, &err), GS_OK, "%s: %s", name, err.message);
  return t;
}

Test(tokenizer_real, published_vectors) {
  const char *inputs = real_inputs("published tokenizers");
  char path[1024], dir[256];
  if (inputs == NULL) return;
  snprintf(path, sizeof path, "%s/tokenizers/vectors/vectors.json", inputs);
  json_t *v = load_json(path);
  const json_t *texts = json_object_get(v, "cases"), *all = json_object_get(v, "ids");
  for (size_t k = 0; k < NREAL; k++) {
    const json_t *ids = json_object_get(all, real[k]);
    gs_tokenizer *t = open_real(inputs, real[k], dir, sizeof dir);
    cr_expect_gt(json_array_size(ids), 0, "%s: no vectors", real[k]);
    for (size_t i = 0; i < json_array_size(ids); i++) {
      const json_t *text = json_array_get(texts, i);
      gs_ids got = {0};
      gs_error err = {0};
      cr_assert_eq(
          gs_tokenizer_encode(t, json_string_value(text), json_string_length(text), 0, &got, &err),
          GS_OK, "%s", err.message);
      expect_ids(&got, json_array_get(ids, i), real[k], i, json_string_value(text));
      gs_ids_free(&got);
    }
    gs_tokenizer_free(t);
    gs_remove_tree(dir);
  }
  json_decref(v);
}

/* The ids of each line of the file at path, and of all of it, one list a line, to out. */
static void write_ids(const gs_tokenizer *t, const char *path, const char *out) {
  char *data;
  size_t n;
  gs_error err = {0};
  FILE *f = fopen(out, "w");
  cr_assert(f != NULL);
  cr_assert_eq(gs_file_read(path, &data, &n, &err), GS_OK, "%s", err.message);
  for (size_t from = 0, to; from <= n; from = to + 1) {
    const char *end = from < n ? memchr(data + from, '\n', n - from) : NULL;
    to = end != NULL ? (size_t)(end - data) : n;
    gs_ids ids = {0};
    bool last = from == n || to == n; /* what follows the last newline stands for the whole */
    cr_assert_eq(
        gs_tokenizer_encode(t, last ? data : data + from, last ? n : to - from, 0, &ids, &err),
        GS_OK, "%s", err.message);
    for (size_t i = 0; i < ids.n; i++) fprintf(f, "%d ", (int)ids.id[i]);
    fputc('\n', f);
    gs_ids_free(&ids);
    if (last) break;
  }
  free(data);
  fclose(f);
}

static void compare(const char *python, const gs_tokenizer *t, const char *dir, const char *inputs,
                    const char *set, const char *name) {
  char from[1024], to[512], ids[512], command[4096];
  snprintf(from, sizeof from, "%s/datasets/%s.xz", inputs, set);
  snprintf(to, sizeof to, "%s/text", dir);
  snprintf(ids, sizeof ids, "%s/ids", dir);
  cr_assert_eq(unpack(from, to), 0);
  write_ids(t, to, ids);
  snprintf(command, sizeof command,
           "'%s' '%s/golden/check_tokenizer.py' '%s/tokenizer.json' '%s' '%s'", python, GS_TEST_DIR,
           dir, to, ids);
  cr_expect_eq(system(command), 0, "%s on %s", name, set);
}

Test(tokenizer_real, whole_data_sets_against_the_reference) {
  static const char *sets[] = {"gsm8k_train.jsonl", "tinyshakespeare.txt", "tinystories_val_1k.txt",
                               "glaive_toolcall_en_demo.json"};
  const char *inputs = real_inputs("whole data sets"), *python = getenv("GRADSMITH_PYTHON");
  char dir[256];
  if (inputs == NULL) return;
  if (python == NULL) {
    printf(
        "skipped: whole data sets: GRADSMITH_PYTHON names no Python with the package tokenizers\n");
    return;
  }
  for (size_t k = 0; k < NREAL; k++) {
    gs_tokenizer *t = open_real(inputs, real[k], dir, sizeof dir);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
      compare(python, t, dir, inputs, sets[i], real[k]);
    gs_tokenizer_free(t);
    gs_remove_tree(dir);
  }
}
