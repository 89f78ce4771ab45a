/* uses: gs_check gs_device gs_jit gs_emit gs_author gs_graph gs_assets */
/* Offsets beyond 2^31 and 2^32 elements: every kernel runs on tensors whose rows lie so far apart
 * (address space without memory, of which each row touches a page), and its results are those of
 * packed tensors, bit for bit. GPU schedules and the emulator's own. */
#include "device/launch.h"
#include "emit/compile.h"

#include "base/half.h"
#include "base/random.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

enum { ROWS = 3, MAX_BINDINGS = 24 };
static const int64_t apart = ((int64_t)1 << 31) + 64;

typedef struct memory {
  void *p;
  size_t bytes;
} memory;

static memory map(size_t bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  return (memory){p == MAP_FAILED ? NULL : p, bytes};
}

static int64_t packed(const gs_launch_list *l, const gs_binding *b, const int64_t *sizes) {
  int64_t n = 1;
  (void)l;
  for (int i = 1; i < b->ndims; i++) n *= sizes[b->dim[i]];
  return n;
}

typedef struct bound {
  memory mem[MAX_BINDINGS];
  gs_bound at[MAX_BINDINGS];
} bound;

/* Element i of a binding, wherever its row lies. */
static char *element(const gs_binding *b, const gs_bound *at, int64_t width, int64_t i) {
  int64_t place = b->ndims < 2 ? i : i / width * at->stride + i % width;
  return (char *)(uintptr_t)at->ptr + place * (int64_t)gs_type_size(b->type);
}

static void fill(const gs_binding *b, const gs_bound *at, int64_t width, int64_t n) {
  uint64_t s = 77;
  for (const char *c = b->name; *c; c++) s = s * 31 + (unsigned char)*c;
  bool integer = b->type == GS_I32 || b->type == GS_I64 || b->type == GS_U8 || b->type == GS_I8;
  for (int64_t i = 0; i < n; i++) {
    double v = (double)(gs_random_next(&s) >> 11) * 0x1p-52 - 1;
    if (integer) v = (double)(gs_random_next(&s) % ROWS);
    gs_store_f64(element(b, at, width, i), b->type, 0, v);
  }
}

static void bind(const gs_launch_list *l, const int64_t *sizes, int64_t stride, bound *out) {
  cr_assert_leq(l->nbindings, MAX_BINDINGS);
  for (int i = 0; i < l->nbindings; i++) {
    const gs_binding *b = &l->bindings[i];
    int64_t width = packed(l, b, sizes), rows = b->ndims ? sizes[b->dim[0]] : 1;
    gs_bound *at = &out->at[i];
    at->value = 0.5f;
    at->stride = stride && b->ndims > 1 ? stride : width;
    int64_t n = b->ndims < 2 ? rows * width : (rows - 1) * at->stride + width;
    out->mem[i] = map((size_t)n * gs_type_size(b->type) + 64);
    cr_assert(out->mem[i].p, "no address space");
    at->ptr = (gs_ptr)(uintptr_t)out->mem[i].p;
    at->bytes = out->mem[i].bytes;
    fill(b, at, width, rows * width);
  }
  for (int i = 0; i < l->nbindings; i++)
    if (l->bindings[i].inplace >= 0) out->at[i] = out->at[l->bindings[i].inplace];
}

static void unbind(const gs_launch_list *l, bound *b) {
  for (int i = 0; i < l->nbindings; i++) munmap(b->mem[i].p, b->mem[i].bytes);
}

static void launch(gs_device *d, const gs_compiled *c, const int64_t *sizes, const bound *b) {
  gs_error e = {0};
  gs_ptr *temps = calloc((size_t)c->list->ntemps + 1, sizeof *temps);
  for (int t = 0; t < c->list->ntemps; t++)
    cr_assert_eq(gs_device_alloc(d, gs_launch_temp_bytes(c->list, t, sizes), &temps[t], &e), GS_OK);
  cr_assert_eq(gs_launch(d, c, b->at, sizes, temps, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_device_sync(d, &e), GS_OK, "%s", e.message);
  for (int t = 0; t < c->list->ntemps; t++) gs_device_free(d, temps[t]);
  free(temps);
}

static void compare(const gs_launch_list *l, const int64_t *sizes, const bound *near,
                    const bound *far) {
  for (int i = 0; i < l->nbindings; i++) {
    const gs_binding *b = &l->bindings[i];
    if (!b->is_result) continue;
    int64_t width = packed(l, b, sizes), rows = b->ndims ? sizes[b->dim[0]] : 1;
    for (int64_t k = 0; k < rows * width; k++)
      cr_assert_eq(memcmp(element(b, &near->at[i], width, k), element(b, &far->at[i], width, k),
                          gs_type_size(b->type)),
                   0, "%s: %s[%lld] differs", l->key, b->name, (long long)k);
  }
}

static void run_pass(gs_device *d, gs_instance *in, gs_pass_kind kind, const char *arch) {
  gs_error e = {0};
  gs_pass *p;
  gs_launch_list *l;
  int64_t sizes[GS_MAX_DIMS];
  cr_assert_eq(gs_layer_pass(in, kind, NULL, 0, NULL, 0, &p, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_compile(p, gs_caps_find(arch), NULL, &l, &e), GS_OK, "%s", e.message);
  for (int i = 0; i < GS_MAX_DIMS; i++) sizes[i] = ROWS;
  gs_graph_sizes(in->g, sizes);
  const gs_kernel *kernels[16];
  gs_func *funcs[16];
  cr_assert_leq(l->nkernels, 16);
  for (int k = 0; k < l->nkernels; k++) kernels[k] = &l->kernels[k];
  cr_assert_eq(gs_device_compile(d, kernels, l->nkernels, funcs, &e), GS_OK, "%s", e.message);
  gs_compiled c = {l, funcs};
  bound *near = calloc(1, sizeof *near), *far = calloc(1, sizeof *far);
  bind(l, sizes, 0, near);
  bind(l, sizes, apart, far);
  launch(d, &c, sizes, near);
  launch(d, &c, sizes, far);
  compare(l, sizes, near, far);
  unbind(l, near);
  unbind(l, far);
  free(near);
  free(far);
}

static void run_layer(const char *name, const char *arch) {
  gs_error e = {0};
  gs_device *d;
  gs_author *a;
  gs_layer *l;
  gs_instance *in;
  bool own = strcmp(arch, "emu") == 0;
  gs_device_options o = {.arch = own ? NULL : arch, .compile_jobs = 2, .threads = 2};
  int64_t sizes[GS_MAX_DIMS];
  for (int i = 0; i < GS_MAX_DIMS; i++) sizes[i] = i == 0 ? 0 : 16;
  gs_choice c = {.dtype = GS_BF16, .sizes = sizes};
  cr_assert_eq(gs_device_open("emu", &o, &d, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_layer_open(a, name, &l, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_layer_instantiate(l, &c, &in, &e), GS_OK, "%s", e.message);
  run_pass(d, in, GS_PASS_FORWARD, arch);
  if (in->nbackward) run_pass(d, in, GS_PASS_BACKWARD, arch);
  gs_instance_free(in);
  gs_author_free(a);
  gs_device_close(d);
}

static const char *const layers[] = {
    "rmsnorm",       "layernorm", "residual_rmsnorm",
    "swiglu",        "rope",      "softmax",
    "cross_entropy", "embedding", GS_TEST_DIR "/layers/emit/tiles.lua"};
enum { NLAYERS = sizeof layers / sizeof *layers };

Test(far, schedules_of_a_gpu, .timeout = 300) {
  for (int i = 0; i < NLAYERS; i++) run_layer(layers[i], "sm_90a");
}

Test(far, schedules_of_the_emulator, .timeout = 300) {
  for (int i = 0; i < NLAYERS; i++) run_layer(layers[i], "emu");
}
