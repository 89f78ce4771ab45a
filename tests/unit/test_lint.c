/* uses: gs_lint gs_check gs_emit gs_author gs_graph gs_assets */
/* lint: every file of tests/layers/lint ends in the message of its first line (those that begin
 * with "right" in none), and a record that says something else than its text is told, point by
 * point. Skipped, with a line, where there is no libclang. */
#include "base/file.h"
#include "lint/lint.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gs_lint *open_lint(void) {
  gs_lint *l;
  gs_error err = {0};
  if (gs_lint_open(&l, &err) == GS_OK) return l;
  printf("skipped: %s\n", err.message);
  return NULL;
}

/* What a file's first line says, past "-- ": "FILE:LINE: {k}: what", {k} being any kernel. */
static void expected(const char *path, char *place, char *what, size_t cap) {
  char *text = NULL;
  size_t len;
  cr_assert(gs_file_read(path, &text, &len, NULL) == GS_OK, "%s", path);
  text[strcspn(text, "\n")] = 0;
  const char *mark = strstr(text, "{k}");
  snprintf(place, cap, "%.*s", (int)(mark ? mark - text - 3 : (long)strlen(text + 3)), text + 3);
  snprintf(what, cap, "%s", mark ? mark + 3 : "");
  free(text);
}

static void look_at(gs_lint *l, const char *name) {
  char path[512], place[256], what[256];
  gs_text found = {0};
  gs_error err = {0};
  int n = 0, kernels = 0;
  snprintf(path, sizeof path, "%s/layers/lint/%s", GS_TEST_DIR, name);
  expected(path, place, what, sizeof place);
  gs_status st = gs_lint_layer(l, path, "sm_90a", &found, &n, &kernels, &err);
  if (st == GS_OK) st = gs_lint_layer(l, path, "emu", &found, &n, &kernels, &err);
  cr_expect(st == GS_OK, "%s: %s", name, err.message);
  cr_expect_eq(kernels, 12, "%s: %d kernels", name, kernels);
  const char *text = found.s ? found.s : "";
  if (strncmp(name, "right", 5) == 0)
    cr_expect(n == 0, "%s", text);
  else
    cr_expect(n >= 1 && n <= 2 && strstr(text, place) && strstr(text, what),
              "%s: '%s' does not say '%s ... %s'", name, text, place, what);
  gs_text_free(&found);
}

Test(lint, bodies, .timeout = 120) {
  gs_lint *l = open_lint();
  if (!l) return;
  DIR *dir = opendir(GS_TEST_DIR "/layers/lint");
  cr_assert(dir);
  int n = 0;
  for (struct dirent *f; (f = readdir(dir));)
    if (strstr(f->d_name, ".lua")) look_at(l, f->d_name), n++;
  closedir(dir);
  cr_assert(n >= 19, "only %d files", n);
  gs_lint_close(l);
}

/* ---- records ---- */

/* The backward kernel of own_rmsnorm's gradients: dx of [T, H], a temporary, a scalar. */
typedef struct subject {
  gs_author *a;
  gs_instance *i;
  gs_launch_list *list;
} subject;

static subject open_subject(gs_pass_kind kind) {
  subject s;
  gs_layer *layer;
  gs_pass *p;
  gs_error e = {0};
  int64_t sizes[2] = {0, 40};
  gs_choice c = {.dtype = GS_BF16, .sizes = sizes};
  cr_assert(gs_author_new(&s.a, &e) == GS_OK, "%s", e.message);
  cr_assert(gs_layer_open(s.a, GS_TEST_DIR "/layers/good/own_rmsnorm.lua", &layer, &e) == GS_OK);
  cr_assert(gs_layer_instantiate(layer, &c, &s.i, &e) == GS_OK, "%s", e.message);
  cr_assert(gs_layer_pass(s.i, kind, NULL, 0, NULL, 0, &p, &e) == GS_OK, "%s", e.message);
  cr_assert(gs_compile(p, gs_caps_find("sm_90a"), NULL, &s.list, &e) == GS_OK, "%s", e.message);
  return s;
}

static void close_subject(subject *s) {
  gs_instance_free(s->i);
  gs_author_free(s->a);
}

static void says(gs_lint *l, const subject *s, const char *what) {
  gs_text found = {0};
  gs_error e = {0};
  int n = 0;
  cr_expect(gs_lint_list(l, s->list, &found, &n, &e) == GS_OK, "%s", e.message);
  if (what)
    cr_expect(n > 0 && strstr(found.s ? found.s : "", what), "'%s' does not say '%s'",
              found.s ? found.s : "", what);
  else
    cr_expect(n == 0, "%s", found.s);
  gs_text_free(&found);
}

static int arg_of(const gs_kernel *k, gs_arg_kind kind) {
  for (int i = 0; i < k->nargs; i++)
    if (k->args[i].kind == kind) return i;
  cr_assert(false, "no such argument");
  return -1;
}

/* Each edit of the record, alone, is told. */
Test(lint, records, .timeout = 60) {
  gs_lint *l = open_lint();
  if (!l) return;
  subject s = open_subject(GS_PASS_BACKWARD);
  gs_kernel *k = &s.list->kernels[0], kept = *k;
  says(l, &s, NULL);
  k->threads = 256;
  says(l, &s, "the text says 128 threads and the record 256");
  *k = kept, k->barrier_free = true;
  says(l, &s, "the text says barrier_free 0 and the record 1");
  *k = kept, k->nargs--;
  says(l, &s, "parameters and the record");
  *k = kept;

  gs_arg *t = &k->args[arg_of(k, GS_ARG_TENSOR)], tensor = *t;
  t->is_written = true;
  says(l, &s, "is 'in bf16' and the record passes 'inout bf16' of x");
  *t = tensor, t->index++;
  says(l, &s, "is called x and the record passes w there");
  *t = tensor, t->kind = GS_ARG_DIM, t->index = 0;
  says(l, &s, "is 'in bf16' and the record passes 'dim i64' of T");
  *t = tensor;

  gs_binding *b = &s.list->bindings[tensor.index];
  b->type = GS_F16;
  says(l, &s, "is 'in bf16' and the record passes 'in f16' of x");
  b->type = GS_BF16;
  s.list->temps[0].type = GS_BF16;
  says(l, &s, "is 'out f32' and the record passes 'out bf16'");
  s.list->temps[0].type = GS_F32;
  gs_arg *d = &k->args[arg_of(k, GS_ARG_DIM)], *ld = &k->args[arg_of(k, GS_ARG_STRIDE)], x = *d;
  *d = *ld;
  says(l, &s, "is 'dim i64' and the record passes 'stride i64'");
  *d = x;
  says(l, &s, NULL);
  close_subject(&s);
  gs_lint_close(l);
}
