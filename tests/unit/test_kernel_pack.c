/* uses: gs_launcher gs_pack gs_device */
/* test_kernel_pack.c: packs of kernels: written, read, refused when anything is wrong with them;
 * the target that a GPU gets; and libgradsmith over a driver made of host memory (tests/gpu), whose
 * one kernel is smoke_scale: y = x·by + i + step. */
#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "pack/write.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY "scale.forward f32 -> y,parts"
#define TEXT "// scale\n// key: scale.forward f32\n//     -> y,parts, sm_90a\n"
#define IN_PLACE "scale.forward f32 in_place=1 -> y"

static char dir[256], path[300];

static void open_dir(void) {
  cr_assert_eq(gs_temp_dir(dir, sizeof dir, NULL), GS_OK);
  snprintf(path, sizeof path, "%s/some.pack", dir);
}

static void close_dir(void) {
  gs_remove_tree(dir);
}

/* ---- a small pack ---- */

static gs_kernel scale(gs_arg *args) {
  const gs_arg list[] = {{.kind = GS_ARG_TENSOR, .index = 0, .is_read = true},
                         {.kind = GS_ARG_TENSOR, .index = 3, .is_written = true},
                         {.kind = GS_ARG_DIM, .index = 0},
                         {.kind = GS_ARG_SCALAR, .index = 1},
                         {.kind = GS_ARG_STEP_SCALAR, .index = 2}};
  memcpy(args, list, sizeof list);
  return (gs_kernel){.entry = "smoke_scale",
                     .text = TEXT,
                     .template_name = "map",
                     .tunables = "threads=128 mode=plain",
                     .nargs = 5,
                     .args = args,
                     .grid = {.coef = 1, .div = 128, .dims = 1},
                     .threads = 128,
                     .barrier_free = true};
}

/* N outer, K = 4 inner: x and y [N] and a stand-in for partial sums [N, K]; or y in place of x. */
static gs_launch_list make_list(gs_graph *g, gs_binding *b, gs_kernel *k, gs_arg *args, gs_temp *t,
                                bool in_place) {
  int n = gs_graph_dim(g, "N", -1), inner = gs_graph_dim(g, "K", 4);
  b[0] = (gs_binding){.name = "x", .type = GS_F32, .ndims = 1, .dim = {n}};
  b[1] = (gs_binding){.name = "by", .type = GS_F32, .role = GS_ROLE_SCALAR};
  b[2] = (gs_binding){.name = "step", .type = GS_F32, .role = GS_ROLE_STEP_SCALAR};
  b[3] = (gs_binding){.name = "y",
                      .type = GS_F32,
                      .ndims = 1,
                      .dim = {n},
                      .role = GS_ROLE_OUTPUT,
                      .is_result = true,
                      .inplace = in_place ? 0 : -1};
  b[4] = (gs_binding){.name = "parts",
                      .type = GS_BF16,
                      .ndims = 2,
                      .dim = {n, inner},
                      .role = GS_ROLE_OUTPUT,
                      .is_result = true,
                      .inplace = -1};
  *k = scale(args);
  *t = (gs_temp){.type = GS_F32, .count = {.coef = 3, .dims = 1, .each = 10}};
  return (gs_launch_list){.key = in_place ? IN_PLACE : KEY,
                          .g = g,
                          .nbindings = in_place ? 4 : 5,
                          .nkernels = 1,
                          .ntemps = in_place ? 0 : 1,
                          .bindings = b,
                          .kernels = k,
                          .temps = t};
}

static const char cubin[] = "\177ELF what a driver would load";
static const char ptx[] = "// .target sm_80\n";

static void write_pack(const char *to) {
  gs_pack_writer *w;
  gs_arena *a = gs_arena_new();
  gs_error err = {0};
  cr_assert_eq(gs_pack_writer_new("gradsmith of a test", "NVRTC 13.0", &w, &err), GS_OK);
  cr_assert_eq(gs_pack_writer_target(w, "sm_90a", "sm_90a", &err), GS_OK);
  cr_assert_eq(gs_pack_writer_target(w, "compute_80", "sm_80", &err), GS_OK);
  for (int i = 0; i < 4; i++) {
    gs_binding b[5];
    gs_arg args[5];
    gs_kernel k;
    gs_temp t;
    gs_launch_list l = make_list(gs_graph_new(a), b, &k, args, &t, i % 2);
    cr_assert_eq(gs_pack_writer_pass(w, &l, i / 2 ? "sm_80" : "sm_90a", &err), GS_OK);
    cr_assert_eq(gs_pack_writer_pass(w, &l, i / 2 ? "sm_80" : "sm_90a", &err), GS_OK); /* once */
    cr_assert_eq(gs_pack_writer_code(w, &k, "sm_90a", cubin, sizeof cubin, &err), GS_OK);
    cr_assert_eq(gs_pack_writer_code(w, &k, "compute_80", ptx, strlen(ptx), &err), GS_OK);
  }
  cr_assert_eq(gs_pack_writer_save(w, to, &err), GS_OK, "%s", err.message);
  gs_pack_writer_free(w);
  gs_arena_free(a);
}

static void check_small(const gs_pack_file *f) {
  const gs_pack_about *a = gs_pack_file_about(f);
  cr_expect_str_eq(a->licence, "Apache-2.0");
  cr_expect(strstr(a->licence_text, "Apache License"));
  cr_expect_eq(a->nrecords, 4);
  cr_expect_eq(a->ntargets, 2);
  cr_expect_eq(a->ncodes, 2);
  const gs_pack_record *r = gs_pack_file_record(f, KEY, "sm_80");
  cr_assert(r);
  cr_expect_str_eq(r->list.bindings[4].name, "parts");
  cr_expect_eq(r->list.bindings[4].type, GS_BF16);
  cr_expect_eq(r->dims[r->list.bindings[4].dim[1]].size, 4);
  cr_expect_str_eq(r->list.kernels[0].tunables, "threads=128 mode=plain");
  cr_expect_eq(r->list.kernels[0].args[4].kind, GS_ARG_STEP_SCALAR);
  cr_expect_eq(r->list.kernels[0].grid.div, 128);
  cr_expect_eq(r->list.temps[0].count.each, 10);
  const gs_pack_code *c = gs_pack_file_code(f, "smoke_scale", r->text[0], "sm_90a");
  cr_assert(c);
  cr_expect_eq(c->len, sizeof cubin);
  cr_expect_eq(memcmp(c->data, cubin, sizeof cubin), 0);
  cr_expect_eq((uintptr_t)c->data % 16, 0);
  c = gs_pack_file_code(f, "smoke_scale", r->text[0], "compute_80");
  cr_expect_str_eq(c->data, ptx);
  cr_expect_null(gs_pack_file_code(f, "smoke_scale", "another text", "sm_90a"));
  cr_expect_null(gs_pack_file_code(f, "smoke_scale", r->text[0], "sm_80"));
  cr_expect_str_eq(gs_pack_file_nearest(f, "scale.forward f32 in_place=0 -> y", "sm_80"), IN_PLACE);
}

TestSuite(pack, .init = open_dir, .fini = close_dir);

Test(pack, gives_back_what_was_written) {
  gs_pack_file *f;
  gs_error err = {0};
  char *one, *two;
  size_t n, m;
  write_pack(path);
  cr_assert_eq(gs_pack_file_open(path, &f, &err), GS_OK, "%s", err.message);
  check_small(f);
  gs_pack_file_close(f);
  cr_assert_eq(gs_file_read(path, &one, &n, NULL), GS_OK);
  write_pack(path);
  cr_assert_eq(gs_file_read(path, &two, &m, NULL), GS_OK);
  cr_expect(n == m && memcmp(one, two, n) == 0, "the same passes must give the same bytes");
  free(one);
  free(two);
}

/* tests/golden/pack/format1.pack was written by the first version of the format. */
Test(pack, of_format_1_stays_readable) {
  gs_pack_file *f;
  gs_error err = {0};
  const char *golden = GS_TEST_DIR "/golden/pack/format1.pack";
  if (getenv("GS_WRITE_GOLDEN")) write_pack(golden);
  cr_assert_eq(gs_pack_file_open(golden, &f, &err), GS_OK, "%s", err.message);
  check_small(f);
  gs_pack_file_close(f);
}

static void expect_refused(const char *what, size_t at) {
  gs_pack_file *f = NULL;
  gs_error err = {0};
  cr_expect_eq(gs_pack_file_open(path, &f, &err), GS_ERR_INPUT, "%s %zu", what, at);
  cr_expect(strstr(err.message, path) && strstr(err.message, "cut or altered"), "%s %zu: %s", what,
            at, err.message);
  cr_expect_null(f);
}

Test(pack, cut_or_altered_anywhere_is_refused) {
  char *data;
  size_t n;
  write_pack(path);
  cr_assert_eq(gs_file_read(path, &data, &n, NULL), GS_OK);
  FILE *f = fopen(path, "r+b");
  setbuf(f, NULL);
  for (size_t i = 0; i < n; i++) {
    fseek(f, (long)i, SEEK_SET);
    fputc((unsigned char)data[i] ^ 1 << i % 8, f);
    expect_refused("byte", i);
    fseek(f, (long)i, SEEK_SET);
    fputc((unsigned char)data[i], f);
  }
  gs_pack_file *whole = NULL;
  cr_expect_eq(gs_pack_file_open(path, &whole, NULL), GS_OK);
  gs_pack_file_close(whole);
  for (size_t i = n; i-- > 0;) {
    cr_assert_eq(ftruncate(fileno(f), (off_t)i), 0);
    expect_refused("length", i);
  }
  fclose(f);
  free(data);
}

static void seal(char *data, size_t n) {
  gs_hash(data, n - GS_HASH_BYTES, (uint8_t *)data + n - GS_HASH_BYTES);
}

static gs_status open_bytes(const char *data, size_t n, gs_error *err) {
  gs_pack_file *f = NULL;
  FILE *to = fopen(path, "wb");
  cr_assert(to && fwrite(data, 1, n, to) == n && fclose(to) == 0);
  gs_status st = gs_pack_file_open(path, &f, err);
  gs_pack_file_close(f);
  return st;
}

/* Sound by its hash, and nonsense: an error, never a crash. */
Test(pack, with_a_wrong_index_is_refused) {
  char *data;
  size_t n;
  gs_error err = {0};
  uint64_t seed = 7;
  write_pack(path);
  cr_assert_eq(gs_file_read(path, &data, &n, NULL), GS_OK);
  data[strlen(GS_PACK_LINE)] = '2';
  seal(data, n);
  cr_expect_eq(open_bytes(data, n, &err), GS_ERR_INPUT);
  cr_expect(strstr(err.message, "format 2"), "%s", err.message);
  data[strlen(GS_PACK_LINE)] = '1';
  size_t from = (size_t)(strstr(data + GS_PACK_HEAD, "\"passes\"") - data);
  for (int i = 0; i < 1500; i++) {
    size_t at = i < 16 ? 32 + (size_t)i % 8 : from + gs_random_next(&seed) % (n - from - 32);
    char before = data[at];
    data[at] = (char)(i % 2 ? "0123456789-\"{}[],:e"[gs_random_next(&seed) % 19]
                            : (int)(gs_random_next(&seed) & 255));
    seal(data, n);
    gs_status st = open_bytes(data, n, &err);
    cr_expect(st == GS_OK || st == GS_ERR_INPUT);
    data[at] = before;
  }
  free(data);
}

/* ---- which target a GPU gets ---- */

static const char *chosen(const char *const *targets, int major, int minor) {
  static char name[32];
  gs_pack_writer *w;
  gs_pack_file *f;
  const gs_pack_target *t = NULL;
  gs_error err = {0};
  cr_assert_eq(gs_pack_writer_new("test", "NVRTC", &w, NULL), GS_OK);
  for (int i = 0; targets[i]; i++) gs_pack_writer_target(w, targets[i], "sm_80", NULL);
  cr_assert_eq(gs_pack_writer_save(w, path, NULL), GS_OK);
  cr_assert_eq(gs_pack_file_open(path, &f, &err), GS_OK, "%s", err.message);
  gs_status st = gs_pack_file_choose(f, major, minor, &t, &err);
  snprintf(name, sizeof name, "%s", st == GS_OK ? t->name : "none");
  if (st != GS_OK) cr_expect(st == GS_ERR_DEVICE && strstr(err.message, targets[0]));
  gs_pack_file_close(f);
  gs_pack_writer_free(w);
  return name;
}

Test(pack, target_follows_the_rule) {
  const char *const all[] = {"compute_80", "sm_80",   "sm_90a", "sm_100f",
                             "sm_100a",    "sm_120a", NULL};
  const char *const plain[] = {"sm_80", "sm_86", "sm_90", "compute_90", "compute_80", NULL};
  const char *const own[] = {"sm_90a", "compute_90a", NULL};
  cr_expect_str_eq(chosen(all, 9, 0), "sm_90a");
  cr_expect_str_eq(chosen(all, 8, 0), "sm_80");
  cr_expect_str_eq(chosen(all, 8, 9), "sm_80");
  cr_expect_str_eq(chosen(all, 10, 0), "sm_100a");
  cr_expect_str_eq(chosen(all, 10, 3), "sm_100f"); /* an "a" target runs on no other */
  cr_expect_str_eq(chosen(all, 12, 1), "compute_80");
  cr_expect_str_eq(chosen(all, 15, 0), "compute_80");
  cr_expect_str_eq(chosen(all, 7, 5), "none");
  cr_expect_str_eq(chosen(plain, 8, 9), "sm_86");
  cr_expect_str_eq(chosen(plain, 8, 5), "sm_80");
  cr_expect_str_eq(chosen(plain, 10, 0), "compute_90");
  cr_expect_str_eq(chosen(own, 9, 1), "none");
  cr_expect_str_eq(chosen(own, 10, 0), "none");
}

/* ---- libgradsmith ---- */

static gs_driver driver;
static gs_pack *pack;
static gs_error err;

/* The fake driver is opened before anyone looks for one; it is then what is found. */
static void open_pack(void) {
  gs_cu_device device;
  gs_cu_context context;
  cr_assert(dlopen(GS_FAKE_CUDA, RTLD_NOW), "%s", dlerror());
  open_dir();
  write_pack(path);
  cr_assert_eq(gs_driver_open(&driver, &err), GS_OK, "%s", err.message);
  cr_assert_eq(driver.api.device_get(&device, 0), 0);
  cr_assert_eq(driver.api.context_retain(&context, device), 0);
  cr_assert_eq(driver.api.context_set(context), 0);
  cr_assert_eq(gs_pack_open(path, &pack, &err), GS_OK, "%s", err.message);
}

static void close_pack(void) {
  gs_pack_close(pack);
  close_dir();
}

static uint64_t device_memory(size_t bytes) {
  gs_cu_ptr p = 0;
  cr_assert_eq(driver.api.alloc(&p, bytes), 0);
  return p;
}

TestSuite(call, .init = open_pack, .fini = close_pack);

enum { N = 300 };

/* Operands that are as they should be: x, by, step, y, parts. */
static void operands(gs_operand o[5]) {
  o[0] = (gs_operand){"x", GS_F32, 1, {N}, 0, device_memory(4 * N), 0};
  o[1] = (gs_operand){.name = "by", .value = 3};
  o[2] = (gs_operand){"step", GS_F32, 0, {0}, 0, device_memory(4), 0};
  o[3] = (gs_operand){"y", GS_F32, 1, {N}, 0, device_memory(4 * N), 0};
  o[4] = (gs_operand){"parts", GS_BF16, 2, {N, 4}, 0, device_memory(8 * N), 0};
  for (int i = 0; i < N; i++) ((float *)(uintptr_t)o[0].ptr)[i] = (float)sin(i);
  *(float *)(uintptr_t)o[2].ptr = 0.25f;
}

static void expect_scaled(const float *y, const float *x) {
  for (int i = 0; i < N; i++)
    cr_expect(fabsf(y[i] - (x[i] * 3 + (float)i + 0.25f)) < 1e-4f, "%d: %g", i, y[i]);
}

Test(call, runs_with_the_callers_pointers) {
  gs_pack_call *c, *again;
  gs_operand o[5];
  size_t bytes;
  float x[N];
  cr_assert_eq(gs_pack_count(pack), 2);
  cr_assert_str_eq(gs_pack_key(pack, 0), KEY);
  cr_assert_null(gs_pack_key(pack, 2));
  cr_assert_eq(gs_pack_find(pack, KEY, &c, &err), GS_OK, "%s", err.message);
  cr_assert_eq(gs_pack_find(pack, KEY, &again, &err), GS_OK);
  cr_expect_eq(c, again);
  operands(o);
  cr_assert_eq(gs_pack_workspace(c, o, 5, &bytes, &err), GS_OK, "%s", err.message);
  cr_expect_eq(bytes, 512); /* 3 · ceil(300 / 10) floats, in 256s */
  uint64_t work = device_memory(bytes);
  cr_assert_eq(gs_pack_launch(c, NULL, o, 5, work, bytes, &err), GS_OK, "%s", err.message);
  memcpy(x, (void *)(uintptr_t)o[0].ptr, sizeof x);
  expect_scaled((float *)(uintptr_t)o[3].ptr, x);
  cr_expect_eq(gs_pack_launch(c, NULL, o, 5, work, bytes - 1, &err), GS_ERR_USE);
  cr_expect(strstr(err.message, "512 bytes"), "%s", err.message);
  cr_expect_eq(gs_pack_launch(c, NULL, o, 5, 0, bytes, &err), GS_ERR_USE);
  cr_expect_eq(gs_pack_launch(c, NULL, o, 5, work + 16, bytes, &err), GS_ERR_USE);
}

Test(call, tells_what_it_takes) {
  gs_pack_call *c;
  cr_assert_eq(gs_pack_find(pack, KEY, &c, &err), GS_OK);
  cr_assert_eq(gs_pack_operands(c), 5);
  static const gs_operand_kind kinds[] = {GS_OPERAND_INPUT, GS_OPERAND_NUMBER,
                                          GS_OPERAND_DEVICE_NUMBER, GS_OPERAND_RESULT,
                                          GS_OPERAND_RESULT};
  for (int i = 0; i < 5; i++) cr_expect_eq(gs_pack_operand(c, i)->kind, kinds[i], "%d", i);
  const gs_operand_info *parts = gs_pack_operand(c, 4);
  cr_expect(parts->shape[0] == -1 && parts->shape[1] == 4);
  cr_expect_str_eq(parts->dim[0], "N");
  cr_expect_null(gs_pack_operand(c, 5));
  cr_assert_eq(gs_pack_find(pack, IN_PLACE, &c, &err), GS_OK);
  cr_expect_str_eq(gs_pack_operand(c, 3)->shares, "x");
}

/* A result in place is its partner, and may be left out. The kernel's argument is one of the two.
 */
Test(call, in_place) {
  gs_pack_call *c;
  gs_operand o[5];
  float x[N];
  cr_assert_eq(gs_pack_find(pack, IN_PLACE, &c, &err), GS_OK);
  operands(o);
  memcpy(x, (void *)(uintptr_t)o[0].ptr, sizeof x);
  cr_assert_eq(gs_pack_launch(c, NULL, o, 3, 0, 0, &err), GS_OK, "%s", err.message);
  expect_scaled((float *)(uintptr_t)o[0].ptr, x);
  cr_expect_eq(gs_pack_launch(c, NULL, o, 4, 0, 0, &err), GS_ERR_USE);
  cr_expect(strstr(err.message, "\"y\" lies in the memory of \"x\""), "%s", err.message);
  o[3].ptr = o[0].ptr;
  cr_expect_eq(gs_pack_launch(c, NULL, o, 4, 0, 0, &err), GS_OK);
}

static void spoil(gs_operand *o, int how) {
  switch (how) {
  case 0: o[0].type = GS_BF16; break;
  case 1: o[0].rank = 2; break;
  case 2: o[3].shape[0] = N + 1; break;
  case 3: o[4].shape[1] = 5; break;
  case 4: o[3].ptr += 4; break;
  case 5: o[0].ptr = 0; break;
  case 6: o[0].name = "z"; break;
  case 7: o[0].name = "y"; break;
  case 8: o[4].stride = 6; break;
  case 9: o[2].ptr += 2; break;
  case 10: o[0].shape[0] = -1; break;
  case 11: o[0].name = NULL; break;
  case 12: o[0].stride = 2; break;
  default: break;
  }
}

Test(call, refuses_what_does_not_fit) {
  static const char *const said[] = {
      "operand \"x\" is f32, but bf16 was given",
      "operand \"x\" is [N], but [300, 0] was given",
      "operand \"y\" is [301], but N is 300 by an earlier operand",
      "operand \"parts\" is [N, K=4], but [300, 5] was given",
      "operand \"y\": its address 0x",
      "operand \"x\": its address 0x0 is not a multiple of 16 other than 0",
      "there is no operand \"z\"; it takes x, by, step, y, parts",
      "operand \"y\" is given twice",
      "operand \"parts\" must be packed",
      "operand \"step\": its address",
      "operand \"x\" is [N], but [-1] was given",
      "there is no operand \"(null)\"",
      "operand \"x\" must be packed",
  };
  gs_pack_call *c;
  gs_operand good[5], o[5];
  cr_assert_eq(gs_pack_find(pack, KEY, &c, &err), GS_OK);
  operands(good);
  uint64_t work = device_memory(512);
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    memcpy(o, good, sizeof o);
    spoil(o, (int)i);
    cr_expect_eq(gs_pack_launch(c, NULL, o, 5, work, 512, &err), GS_ERR_USE, "%zu", i);
    cr_expect(strstr(err.message, said[i]) && strstr(err.message, KEY), "%zu: %s", i, err.message);
  }
  cr_expect_eq(gs_pack_launch(c, NULL, good, 4, work, 512, &err), GS_ERR_USE);
  cr_expect(strstr(err.message, "\"parts\" is missing"), "%s", err.message);
}

Test(call, missing_names_the_nearest) {
  gs_pack_call *c;
  cr_expect_eq(gs_pack_find(pack, "scale.forward bf16 -> y,parts", &c, &err), GS_ERR_USE);
  cr_expect(strstr(err.message, "\"scale.forward bf16 -> y,parts\" for sm_90a") &&
                strstr(err.message, "the nearest is \"" KEY "\""),
            "%s", err.message);
  cr_expect_null(c);
}

Test(call, needs_a_context) {
  gs_pack_call *c;
  cr_assert_eq(driver.api.context_set(NULL), 0);
  cr_expect_eq(gs_pack_find(pack, KEY, &c, &err), GS_ERR_DEVICE);
  cr_expect(strstr(err.message, "no CUDA context is current"), "%s", err.message);
}

Test(call, later_gpus_get_ptx_and_older_none) {
  gs_pack_call *c;
  setenv("FAKE_CUDA_CAPABILITY", "150", 1);
  cr_expect_eq(gs_pack_find(pack, KEY, &c, &err), GS_OK, "%s", err.message);
  setenv("FAKE_CUDA_CAPABILITY", "75", 1);
  cr_expect_eq(gs_pack_find(pack, IN_PLACE, &c, &err), GS_ERR_DEVICE);
  cr_expect(strstr(err.message, "7.5; it has sm_90a, compute_80"), "%s", err.message);
}

/* ---- a machine whose kernels come from a pack: `train --pack` ---- */

/* ---- tensor maps ---- */

#define BOXES "boxes.forward bf16 H=2 D=64 -> y"
static const gs_box box = {.rows = 64, .heads = 1, .columns = 64, .swizzle = 128};

static void write_boxes(const char *to) {
  gs_pack_writer *w;
  gs_arena *a = gs_arena_new();
  gs_graph *g = gs_graph_new(a);
  int n = gs_graph_dim(g, "N", -1), h = gs_graph_dim(g, "H", 2), d = gs_graph_dim(g, "D", 64);
  gs_binding b[] = {{.name = "x", .type = GS_BF16, .ndims = 3, .dim = {n, h, d}, .inplace = -1},
                    {.name = "y",
                     .type = GS_BF16,
                     .ndims = 3,
                     .dim = {n, h, d},
                     .role = GS_ROLE_OUTPUT,
                     .is_result = true,
                     .inplace = -1}};
  gs_arg args[] = {{.kind = GS_ARG_MAP, .index = 0, .is_read = true, .box = box},
                   {.kind = GS_ARG_TENSOR, .index = 1, .is_written = true}};
  gs_kernel k = {.entry = "boxes",
                 .text = "// boxes\n",
                 .template_name = "boxes",
                 .tunables = "",
                 .nargs = 2,
                 .args = args,
                 .grid = {.coef = 1, .div = 64, .dims = 1},
                 .threads = 128,
                 .prelude = GS_PRELUDE_HOPPER};
  gs_launch_list l = {
      .key = BOXES, .g = g, .nbindings = 2, .nkernels = 1, .bindings = b, .kernels = &k};
  cr_assert_eq(gs_pack_writer_new("gradsmith of a test", "NVRTC 13.0", &w, &err), GS_OK);
  cr_assert_eq(gs_pack_writer_target(w, "sm_90a", "sm_90a", &err), GS_OK);
  cr_assert_eq(gs_pack_writer_pass(w, &l, "sm_90a", &err), GS_OK);
  cr_assert_eq(gs_pack_writer_code(w, &k, "sm_90a", cubin, sizeof cubin, &err), GS_OK);
  cr_assert_eq(gs_pack_writer_save(w, to, &err), GS_OK, "%s", err.message);
  gs_pack_writer_free(w);
  gs_arena_free(a);
}

/* The record keeps the box; the launch makes the map, which the driver would refuse if it were
 * wrong; without rows there is nothing to map. */
Test(call, makes_maps_of_boxes) {
  char boxes[300];
  gs_pack_file *f;
  gs_pack *p;
  gs_pack_call *c;
  snprintf(boxes, sizeof boxes, "%s/boxes.pack", dir);
  write_boxes(boxes);
  cr_assert_eq(gs_pack_file_open(boxes, &f, &err), GS_OK, "%s", err.message);
  const gs_arg *a = &gs_pack_file_record(f, BOXES, "sm_90a")->list.kernels[0].args[0];
  cr_expect_eq(a->kind, GS_ARG_MAP);
  cr_expect_eq(memcmp(&a->box, &box, sizeof box), 0);
  gs_pack_file_close(f);
  setenv("FAKE_CUDA_ANY", "1", 1);
  cr_assert_eq(gs_pack_open(boxes, &p, &err), GS_OK, "%s", err.message);
  cr_assert_eq(gs_pack_find(p, BOXES, &c, &err), GS_OK, "%s", err.message);
  gs_operand o[] = {{"x", GS_BF16, 3, {100, 2, 64}, 160, device_memory(100 * 160 * 2), 0},
                    {"y", GS_BF16, 3, {100, 2, 64}, 0, device_memory(100 * 128 * 2), 0}};
  cr_expect_eq(gs_pack_launch(c, NULL, o, 2, 0, 0, &err), GS_OK, "%s", err.message);
  o[0].ptr += 8;
  cr_expect_eq(gs_pack_launch(c, NULL, o, 2, 0, 0, &err), GS_ERR_USE);
  o[0].shape[0] = o[1].shape[0] = 0;
  o[0].ptr = o[1].ptr = 0;
  cr_expect_eq(gs_pack_launch(c, NULL, o, 2, 0, 0, &err), GS_OK, "%s", err.message);
  gs_pack_close(p);
}

TestSuite(machine, .init = open_pack, .fini = close_pack);

static gs_status compile_scale(gs_device *d, const char *entry, const char *text, gs_func **f) {
  gs_arg args[5];
  gs_kernel k = scale(args);
  k.entry = entry;
  k.text = text;
  const gs_kernel *list[] = {&k};
  return gs_device_compile(d, list, 1, f, &err);
}

static gs_device *open_machine(void) {
  gs_device *d = NULL;
  const gs_device_options o = {.pack = path};
  cr_assert_eq(gs_device_open("auto", &o, &d, &err), GS_OK, "%s", err.message);
  cr_expect_not(gs_device_is_emulator(d));
  cr_expect_str_eq(gs_device_caps(d)->arch, "sm_90a");
  return d;
}

Test(machine, takes_code_of_the_pack_and_opens_no_compiler) {
  gs_func *f;
  gs_ptr x, y, step;
  float in[N], out[N], quarter = 0.25f;
  gs_device *d = open_machine();
  cr_assert_eq(compile_scale(d, "smoke_scale", TEXT, &f), GS_OK, "%s", err.message);
  for (int i = 0; i < N; i++) in[i] = (float)cos(i);
  cr_assert_eq(gs_device_alloc(d, sizeof in, &x, &err), GS_OK);
  cr_assert_eq(gs_device_alloc(d, sizeof out, &y, &err), GS_OK);
  cr_assert_eq(gs_device_alloc(d, sizeof quarter, &step, &err), GS_OK);
  cr_assert_eq(gs_device_upload(d, x, in, sizeof in, &err), GS_OK);
  cr_assert_eq(gs_device_upload(d, step, &quarter, sizeof quarter, &err), GS_OK);
  const gs_value args[] = {{.kind = GS_VALUE_PTR, .ptr = x},
                           {.kind = GS_VALUE_PTR, .ptr = y},
                           {.kind = GS_VALUE_I64, .i64 = N},
                           {.kind = GS_VALUE_F32, .f32 = 3},
                           {.kind = GS_VALUE_PTR, .ptr = step}};
  cr_assert_eq(gs_device_launch(d, f, 3, args, 5, &err), GS_OK, "%s", err.message);
  cr_assert_eq(gs_device_download(d, out, y, sizeof out, &err), GS_OK);
  expect_scaled(out, in);
  cr_expect_null(dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_NOLOAD));
  cr_expect_str_eq(gs_device_packed(d, KEY), "");
  cr_expect_null(gs_device_packed(d, "scale.backward"));
  gs_device_close(d);
}

Test(machine, says_which_kernel_the_pack_lacks) {
  gs_func *f;
  gs_device *d = open_machine();
  cr_expect_eq(compile_scale(d, "smoke_scale", TEXT "// changed\n", &f), GS_ERR_DEVICE);
  cr_expect(strstr(err.message, "another text of \"" KEY "\" for sm_90a"), "%s", err.message);
  cr_expect_eq(compile_scale(d, "other", "// key: scale.forward f16 -> y,parts, sm_90a\n", &f),
               GS_ERR_DEVICE);
  cr_expect(strstr(err.message, "no kernel of \"scale.forward f16 -> y,parts\" for sm_90a; the "
                                "nearest is " KEY),
            "%s", err.message);
  gs_device_close(d);
}

Test(machine, refuses_what_is_no_pack_or_no_gpu) {
  gs_device *d;
  const gs_device_options o = {.pack = path}, none = {.pack = "/not/there"};
  cr_expect_eq(gs_device_open("emu", &o, &d, &err), GS_ERR_USE);
  cr_expect_eq(gs_device_open("cuda", &none, &d, &err), GS_ERR_IO);
  setenv("FAKE_CUDA_CAPABILITY", "75", 1);
  cr_expect_eq(gs_device_open("auto", &o, &d, &err), GS_ERR_DEVICE);
  cr_expect(strstr(err.message, "compute capability 7.5"), "%s", err.message);
}
