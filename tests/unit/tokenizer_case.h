/* tokenizer_case.h: for tests: folders with a tokenizer, whole files, and real inputs when there
 * are. */
#ifndef TOKENIZER_CASE_H
#define TOKENIZER_CASE_H

#include "base/file.h"
#include "data/parts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN GS_TEST_DIR "/golden/tokenizers/"

static inline gs_tokenizer *open_golden(const char *name) {
  char dir[512];
  gs_error err = {0};
  gs_tokenizer *t = NULL;
  snprintf(dir, sizeof dir, GOLDEN "%s", name);
  gs_status st = gs_tokenizer_open(dir, &t, &err);
  cr_assert_eq(st, GS_OK, "%s: %s", name, err.message);
  return t;
}

static inline json_t *load_json(const char *path) {
  json_t *j = NULL;
  gs_error err = {0};
  cr_assert_eq(gs_json_file(path, &j, &err), GS_OK, "%s", err.message);
  return j;
}

static inline void write_file(const char *dir, const char *name, const char *text) {
  char path[512];
  gs_error err = {0};
  snprintf(path, sizeof path, "%s/%s", dir, name);
  cr_assert_eq(gs_file_write(path, text, strlen(text), &err), GS_OK, "%s", err.message);
}

/* The folder of real inputs, or NULL and one line that says so. */
static inline const char *real_inputs(const char *what) {
  static char dir[512];
  const char *env = getenv("GRADSMITH_INPUTS");
  snprintf(dir, sizeof dir, "%s", env != NULL ? env : GS_TEST_DIR "/../../shared/inputs");
  if (gs_path_exists(dir)) return dir;
  printf("skipped: %s: no real inputs at %s\n", what, dir);
  return NULL;
}

static inline int unpack(const char *from, const char *to) {
  char command[2048];
  snprintf(command, sizeof command, "xz -dc '%s' > '%s'", from, to);
  return system(command);
}

/* ids against a JSON list. */
static inline void expect_ids(const gs_ids *got, const json_t *want, const char *name, size_t k,
                              const char *text) {
  cr_expect_eq(got->n, json_array_size(want), "%s: text %zu \"%s\": %zu ids, not %zu", name, k,
               text, got->n, json_array_size(want));
  for (size_t i = 0; i < got->n && i < json_array_size(want); i++) {
    int id = (int)json_integer_value(json_array_get(want, i));
    cr_expect_eq(got->id[i], id, "%s: text %zu \"%s\": id %zu is %d, not %d", name, k, text, i,
                 (int)got->id[i], id);
    if (got->id[i] != id) return;
  }
}

#endif
