/* uses: gs_check gs_device gs_jit gs_emit gs_author gs_graph gs_assets */
/* Quantised blocks at their edges: short last blocks and bytes with every access checked, and 4-bit
 * tensors of 2^31 numbers and more, of which the last blocks are computed (the memory before them
 * is address space that nothing touches). */
#include "base/half.h"
#include "base/text.h"
#include "check/check.h"
#include "device/launch.h"
#include "emit/compile.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

/* ---- short blocks ---- */

static void check(const char *layer, const char *dims, const char *options) {
  gs_error e = {0};
  gs_author *a = NULL;
  gs_device *d = NULL;
  gs_check_report r;
  gs_device_options o = {.checked = true, .arch = "sm_90a"};
  cr_assert_eq(gs_device_open("emu", &o, &d, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  gs_check_options c = {
      .seed = 11, .rounds = 1, .dims = dims, .options = options, .devices = &d, .ndevices = 1};
  cr_expect_eq(gs_check_layer(a, layer, &c, &r, &e), GS_OK, "%s", e.message);
  gs_author_free(a);
  gs_device_close(d);
}

Test(quant, last_block_is_short, .timeout = 300) {
  static const char *const layers[] = {"nf4_quantize",   "nf4_dequantize", "nf4_double_dequantize",
                                       "fp4_quantize",   "fp4_dequantize", "int8_quantize",
                                       "int8_dequantize"};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    check(layers[i], "N=1000", "block=64");
    check(layers[i], "N=16", "block=1024");
    check(layers[i], "N=65", "block=64"); /* one number in the last block: half a byte of codes */
    check(layers[i], "N=1", "block=64");
  }
  check("adamw_8bit", "N=1000,S=3", NULL);
  check("adamw_segments", "N=1000,S=3", NULL);
  check("absmax_quantize", "N=1000", NULL);
}

/* ---- beyond 2^31 ---- */

enum { BLOCK = 64, SEEN = 20 * BLOCK };

static const float nf4[16] = {-1,
                              -0.6961928009986877f,
                              -0.5250730514526367f,
                              -0.39491748809814453f,
                              -0.28444138169288635f,
                              -0.18477343022823334f,
                              -0.09105003625154495f,
                              0,
                              0.07958029955625534f,
                              0.16093020141124725f,
                              0.24611230194568634f,
                              0.33791524171829224f,
                              0.44070982933044434f,
                              0.5626170039176941f,
                              0.7229568362236023f,
                              1};

/* Address space: pages that nothing touches cost nothing. */
static void *space(size_t bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  cr_assert(p != MAP_FAILED, "no address space");
  return p;
}

/* The kernel's text such that only the last blocks of its grid do anything. */
static void keep_last(const gs_kernel *k, int64_t blocks, gs_text *out) {
  const char *body = strstr(strstr(k->text, "GS_KERNEL("), ") {\n");
  cr_assert(body);
  body += strlen(") {\n");
  gs_text_add_n(out, k->text, (size_t)(body - k->text));
  gs_text_printf(out, "  if (GS_BID < %lldll) return;\n%s", (long long)blocks, body);
}

static unsigned char code_at(int64_t i) {
  return (unsigned char)((i * 2654435761u >> 13) & 15);
}
static float absmax_at(int64_t b) {
  return 0.5f + (float)(b % 7);
}

typedef struct far_case {
  int64_t n, from; /* numbers; the first that is looked at */
  unsigned char *q;
  float *absmax, *x;
} far_case;

static void far_fill(far_case *c) {
  c->q = space((size_t)(c->n + 1) / 2);
  c->absmax = space((size_t)(c->n / BLOCK + 1) * 4);
  c->x = space((size_t)c->n * 4);
  for (int64_t i = c->from; i < c->n; i++)
    c->q[i / 2] = (unsigned char)(c->q[i / 2] | code_at(i) << (i % 2 ? 0 : 4));
  for (int64_t b = c->from / BLOCK; b * BLOCK < c->n; b++) c->absmax[b] = absmax_at(b);
}

static void far_run(far_case *c, const gs_launch_list *l, gs_device *d) {
  gs_error e = {0};
  int64_t sizes[GS_MAX_DIMS] = {0};
  for (int k = 0; k < gs_graph_ndims(l->g); k++)
    if (strcmp(gs_graph_dim_at(l->g, k)->name, "N") == 0) sizes[k] = c->n;
  gs_graph_sizes(l->g, sizes);
  gs_kernel kernel = l->kernels[0];
  const gs_kernel *kernels[1] = {&kernel};
  gs_func *func[1];
  gs_text text = {0};
  int64_t blocks = gs_count_value(&l->kernels[0].grid, sizes);
  keep_last(&l->kernels[0], blocks - 2, &text);
  kernel.text = text.s;
  cr_assert_eq(gs_device_compile(d, kernels, 1, func, &e), GS_OK, "%s", e.message);
  gs_bound at[8] = {{0}};
  for (int i = 0; i < l->nbindings; i++) {
    const char *name = l->bindings[i].name;
    void *p = strcmp(name, "q") == 0 ? (void *)c->q : name[0] == 'a' ? (void *)c->absmax : c->x;
    at[i] = (gs_bound){.ptr = (gs_ptr)(uintptr_t)p, .bytes = (size_t)c->n * 4, .stride = 1};
  }
  gs_compiled made = {l, func};
  cr_assert_eq(gs_launch(d, &made, at, sizes, NULL, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_device_sync(d, &e), GS_OK, "%s", e.message);
  gs_text_free(&text);
}

static void far_dequantize(int64_t n) {
  gs_error e = {0};
  gs_device *d;
  gs_author *a;
  gs_layer *layer;
  gs_instance *in;
  gs_pass *p;
  gs_launch_list *l;
  gs_device_options o = {.threads = 2};
  int64_t sizes[GS_MAX_DIMS] = {0};
  gs_choice choice = {.dtype = GS_F32, .sizes = sizes};
  cr_assert_eq(gs_device_open("emu", &o, &d, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_layer_open(a, "nf4_dequantize", &layer, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_layer_instantiate(layer, &choice, &in, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_layer_pass(in, GS_PASS_FORWARD, NULL, 0, NULL, 0, &p, &e), GS_OK);
  cr_assert_eq(gs_compile(p, gs_caps_find("emu"), NULL, &l, &e), GS_OK, "%s", e.message);
  cr_assert_eq(l->nkernels, 1);
  far_case c = {.n = n, .from = (n - SEEN) / BLOCK * BLOCK};
  far_fill(&c);
  far_run(&c, l, d);
  for (int64_t i = c.from; i < n; i++)
    cr_assert_eq(c.x[i], nf4[code_at(i)] * absmax_at(i / BLOCK), "x[%lld] of %lld", (long long)i,
                 (long long)n);
  munmap(c.q, (size_t)(n + 1) / 2);
  munmap(c.absmax, (size_t)(n / BLOCK + 1) * 4);
  munmap(c.x, (size_t)n * 4);
  gs_instance_free(in);
  gs_author_free(a);
  gs_device_close(d);
}

Test(quant, four_bits_beyond_31_bits, .timeout = 300) {
  far_dequantize(((int64_t)1 << 30) + 2);
  far_dequantize((int64_t)1 << 31);
  far_dequantize(((int64_t)1 << 31) + 71);
}
