/* uses: gs_check gs_device gs_jit gs_emit gs_author gs_graph gs_assets */
/* Long rows in rings of shared memory: a block that takes many rows one after another, round the
 * ring, writes what blocks of a row each write, bit for bit; in the checked emulator too. */
#include "device/launch.h"
#include "emit/compile.h"

#include "base/half.h"
#include "base/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 7, MAX_BINDINGS = 8 };

typedef struct run {
  void *host[MAX_BINDINGS];
  size_t bytes[MAX_BINDINGS];
} run;

static void fill(const gs_binding *b, void *at, int64_t n, int64_t width) {
  uint64_t s = 99;
  for (const char *c = b->name; *c; c++) s = s * 31 + (unsigned char)*c;
  for (int64_t i = 0; i < n; i++) {
    double v = (double)(gs_random_next(&s) >> 11) * 0x1p-51 - 2;
    if (b->ndims == 2) v += i % width < 7 ? 50 : 40.0 * (double)(i % width) / (double)width;
    if (b->type == GS_I32) v = i == 3 ? -100 : (double)(gs_random_next(&s) % (uint64_t)width);
    gs_store_f64(at, b->type, (size_t)i, v);
  }
}

static int64_t count_of(const gs_binding *b, const int64_t *sizes) {
  int64_t n = 1;
  for (int k = 0; k < b->ndims; k++) n *= sizes[b->dim[k]];
  return n;
}

/* Runs the list's one kernel with at most `cap` blocks; what each binding holds then. */
static void run_list(gs_device *d, gs_launch_list *l, const int64_t *sizes, int64_t width,
                     int64_t cap, run *out) {
  gs_error e = {0};
  gs_bound bound[MAX_BINDINGS] = {{0}};
  gs_kernel k = l->kernels[0];
  const gs_kernel *list[] = {&k};
  gs_func *f;
  cr_assert(l->nkernels == 1 && l->ntemps == 0 && l->nbindings <= MAX_BINDINGS);
  if (cap) k.grid.cap = cap;
  gs_launch_list own = *l;
  own.kernels = &k;
  cr_assert_eq(gs_device_compile(d, list, 1, &f, &e), GS_OK, "%s", e.message);
  for (int i = 0; i < l->nbindings; i++) {
    const gs_binding *b = &l->bindings[i];
    int64_t n = count_of(b, sizes);
    bool number = b->role == GS_ROLE_STEP_SCALAR;
    out->bytes[i] = number ? sizeof(float) : (size_t)n * gs_type_size(b->type);
    out->host[i] = malloc(out->bytes[i]);
    fill(b, out->host[i], n, width);
    bound[i] = (gs_bound){.bytes = out->bytes[i], .stride = b->ndims > 1 ? width : 1};
    if (b->is_result && b->inplace >= 0) {
      bound[i] = bound[b->inplace];
      continue;
    }
    cr_assert_eq(gs_device_alloc(d, out->bytes[i], &bound[i].ptr, &e), GS_OK);
    cr_assert_eq(gs_device_upload(d, bound[i].ptr, out->host[i], out->bytes[i], &e), GS_OK);
  }
  const gs_compiled c = {&own, &f};
  cr_assert_eq(gs_launch(d, &c, bound, sizes, NULL, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_device_sync(d, &e), GS_OK, "%s", e.message);
  for (int i = 0; i < l->nbindings; i++)
    cr_assert_eq(gs_device_download(d, out->host[i], bound[i].ptr, out->bytes[i], &e), GS_OK, "%s",
                 e.message);
  for (int i = 0; i < l->nbindings; i++)
    if (!(l->bindings[i].is_result && l->bindings[i].inplace >= 0)) gs_device_free(d, bound[i].ptr);
}

static void compare(const gs_launch_list *l, const run *a, const run *b) {
  for (int i = 0; i < l->nbindings; i++)
    if (l->bindings[i].is_result)
      cr_expect_eq(memcmp(a->host[i], b->host[i], a->bytes[i]), 0, "%s: %s differs", l->key,
                   l->bindings[i].name);
}

/* The loss of each row, of values that rise along it, the highest before the first vector. */
static void check_loss(const gs_launch_list *l, const run *got, int64_t wide) {
  const gs_binding *logits = NULL, *label = NULL;
  const float *loss = NULL;
  for (int i = 0; i < l->nbindings; i++) {
    if (strcmp(l->bindings[i].name, "logits") == 0) logits = &l->bindings[i];
    if (strcmp(l->bindings[i].name, "label") == 0) label = &l->bindings[i];
    if (strcmp(l->bindings[i].name, "loss") == 0) loss = got->host[i];
  }
  if (!logits || !label || !loss) return;
  uint16_t *x = malloc(sizeof *x * (size_t)(ROWS * wide));
  int32_t y[ROWS];
  fill(logits, x, ROWS * wide, wide);
  fill(label, y, ROWS, wide);
  for (int64_t row = 0; row < ROWS; row++) {
    double sum = 0;
    for (int64_t i = 0; i < wide; i++)
      sum += exp(gs_load_f64(x, GS_BF16, (size_t)(row * wide + i)) - 50);
    double own = y[row] < 0 ? 0 : gs_load_f64(x, GS_BF16, (size_t)(row * wide + y[row]));
    double want = y[row] < 0 ? 0 : log(sum) + 50 - own;
    cr_expect(fabs(loss[row] - want) < 1e-4, "row %d: %g, not %g", (int)row, loss[row], want);
  }
  free(x);
}

static void try_ring(const char *layer, gs_pass_kind kind, int64_t wide, int64_t fewest,
                     const char *says) {
  gs_error e = {0};
  gs_author *a;
  gs_layer *l;
  gs_instance *in;
  gs_pass *p;
  gs_launch_list *list;
  int64_t sizes[GS_MAX_DIMS] = {0, wide};
  gs_choice c = {.dtype = GS_BF16, .sizes = sizes};
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_layer_open(a, layer, &l, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_layer_instantiate(l, &c, &in, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_layer_pass(in, kind, NULL, 0, NULL, 0, &p, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_compile(p, gs_caps_find("sm_90a"), NULL, &list, &e), GS_OK, "%s", e.message);
  cr_assert(strstr(list->kernels[0].tunables, says), "%s", list->kernels[0].tunables);
  for (int i = 0; i < GS_MAX_DIMS; i++) sizes[i] = ROWS;
  gs_graph_sizes(in->g, sizes);
  for (int checked = 0; checked < 2; checked++) {
    gs_device_options o = {.arch = "sm_90a", .checked = checked, .compile_jobs = 2, .threads = 2};
    gs_device *d;
    run each = {0}, one = {0};
    cr_assert_eq(gs_device_open("emu", &o, &d, &e), GS_OK, "%s", e.message);
    run_list(d, list, sizes, wide, 0, &each);
    run_list(d, list, sizes, wide, fewest, &one);
    compare(list, &each, &one);
    check_loss(list, &each, wide);
    for (int i = 0; i < MAX_BINDINGS; i++) free(each.host[i]), free(one.host[i]);
    gs_device_close(d);
  }
  gs_instance_free(in);
  gs_author_free(a);
}

Test(ring, rows_follow_each_other, .timeout = 300) {
  try_ring("cross_entropy", GS_PASS_TERMINAL, 33000, 1, "mode=resident ring=");
}

Test(ring, rows_begin_anywhere, .timeout = 300) {
  try_ring("cross_entropy", GS_PASS_TERMINAL, 33001, 1, "mode=resident ring=");
}

Test(ring, blocks_share_a_row, .timeout = 300) {
  try_ring("softmax", GS_PASS_BACKWARD, 66000, 2, "cluster=2 mode=resident ring=");
}
