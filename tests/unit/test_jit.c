/* uses: gs_jit gs_assets */
/* test_jit.c: NVRTC found and opened, kernels compiled for several architectures with no GPU, what
 * they take read out of the cubin, spills detected. Without NVRTC the compiling tests say
 * "skipped". */
#include "base/asset.h"
#include "base/file.h"
#include "jit/jit.h"
#include "jit/library.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};

static gs_jit *open_or_skip(void) {
  gs_jit *j = NULL;
  gs_error err;
  if (gs_jit_open(0, &j, &err) == GS_OK) return j;
  fprintf(stderr, "skipped: %.60s...\n", err.message);
  return NULL;
}

static const char *const plain =
    "extern \"C\" __global__ void plain(float *y, const float *x, long long n) {\n"
    "  __shared__ float part[96];\n"
    "  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  part[threadIdx.x % 96] = i < n ? x[i] : 0;\n"
    "  __syncthreads();\n"
    "  if (i < n) y[i] = 2 * part[(threadIdx.x + 1) % 96];\n"
    "}\n";

/* 128 values alive at once and 64 registers a thread to keep them in. */
static const char *const spilling =
    "extern \"C\" __global__ void __launch_bounds__(1024) spilling(float *y, const float *x, int "
    "n) {\n"
    "  float a[128];\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 128; i++) a[i] = x[i * n];\n"
    "  for (int k = 0; k < n; k++) {\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 128; i++) a[i] = a[i] * a[(i * 7 + 1) & 127] + k;\n"
    "  }\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 128; i++) y[i * n] = a[i];\n"
    "}\n";

/* No spill, but an array that is indexed by a value known only at run time. */
static const char *const indexed =
    "extern \"C\" __global__ void indexed(float *y, const float *x, int n) {\n"
    "  float a[64];\n"
    "  for (int i = 0; i < 64; i++) a[i] = x[i * n];\n"
    "  for (int i = 0; i < n; i++) a[(i * 7) & 63] += a[i & 63];\n"
    "  for (int i = 0; i < 64; i++) y[i] = a[i];\n"
    "}\n";

static const char *const through_prelude =
    "GS_KERNEL(scaled, 128, 1, GS_IN(bf16, x), GS_OUT(bf16, y), GS_DIM(T), GS_STEP(lr)) {\n"
    "  i64 i = GS_BID * 128 + GS_TID;\n"
    "  if (i < T) gs_put(y, i, gs_exp(gs_get(x, i)) * gs_step(lr));\n"
    "}\n";

Test(jit, compiles_for_every_architecture_without_a_gpu) {
  gs_jit *j = open_or_skip();
  if (!j) return;
  int major, minor;
  gs_jit_version(j, &major, &minor);
  cr_assert(major >= 12);
  cr_assert(strstr(gs_jit_path(j), "libnvrtc"));
  for (int i = 0; i < 3; i++) {
    gs_jit_source s = {.text = plain, .entry = "plain", .arch = archs[i]};
    gs_jit_code c;
    gs_jit_use use;
    gs_error err;
    cr_assert_eq(gs_jit_compile(j, &s, &c, &err), GS_OK, "%s", err.message);
    cr_assert_eq(memcmp(c.data, "\177ELF", 4), 0);
    cr_assert_eq(gs_jit_resources(&c, "plain", &use, &err), GS_OK, "%s", err.message);
    cr_assert(use.registers >= 8 && use.registers <= 64, "%d", use.registers);
    cr_assert(use.shared_bytes == 96 * 4 || use.shared_bytes == 96 * 4 + 1024, "%d",
              use.shared_bytes);
    cr_assert_eq(use.local_bytes, 0);
    cr_assert_eq(use.spill_bytes, 0);
    gs_jit_code_free(&c);
  }
  gs_jit_close(j);
}

Test(jit, plain_ptx_is_made_for_unknown_gpus) {
  gs_jit *j = open_or_skip();
  if (!j) return;
  gs_jit_source s = {.text = plain, .entry = "plain", .arch = "compute_80"};
  gs_jit_code c;
  gs_error err;
  cr_assert_eq(gs_jit_compile(j, &s, &c, &err), GS_OK, "%s", err.message);
  cr_assert(strstr(c.data, ".target sm_80"));
  cr_assert(strstr(c.data, ".entry plain"));
  gs_jit_use use;
  cr_assert_eq(gs_jit_resources(&c, "plain", &use, &err), GS_ERR_INPUT);
  gs_jit_code_free(&c);
  gs_jit_close(j);
}

Test(jit, contraction_is_off) {
  gs_jit *j = open_or_skip();
  if (!j) return;
  gs_jit_source s = {.text =
                         "extern \"C\" __global__ void k(float *y, float a, float b, float c) {\n"
                         "  y[0] = a * b + c;\n}\n",
                     .entry = "k",
                     .arch = "compute_80"};
  gs_jit_code c;
  gs_error err;
  cr_assert_eq(gs_jit_compile(j, &s, &c, &err), GS_OK, "%s", err.message);
  cr_assert(strstr(c.data, "mul.") && strstr(c.data, "add."));
  cr_assert(!strstr(c.data, "fma."));
  gs_jit_code_free(&c);
  gs_jit_close(j);
}

Test(jit, spills_and_local_arrays_are_detected) {
  gs_jit *j = open_or_skip();
  if (!j) return;
  for (int i = 0; i < 3; i++) {
    gs_jit_source s[3] = {{.text = plain, .entry = "plain", .arch = archs[i]},
                          {.text = spilling, .entry = "spilling", .arch = archs[i]},
                          {.text = indexed, .entry = "indexed", .arch = archs[i]}};
    gs_jit_use use[3];
    gs_error err;
    cr_assert_eq(gs_jit_require_no_spills(j, s, 1, 0, use, &err), GS_OK, "%s", err.message);
    cr_assert_eq(gs_jit_require_no_spills(j, s, 2, 0, use, &err), GS_ERR_COMPILE);
    cr_assert(strstr(err.message, "kernel spilling") && strstr(err.message, "local memory"), "%s",
              err.message);
    cr_assert(use[1].local_bytes > 0 && use[1].spill_bytes > 0);
    cr_assert_eq(use[1].registers, 64);
    cr_assert_eq(gs_jit_require_no_spills(j, s + 2, 1, 0, use, &err), GS_ERR_COMPILE);
    cr_assert_eq(use[0].local_bytes, 64 * 4);
    cr_assert_eq(use[0].spill_bytes, 0);
  }
  gs_jit_close(j);
}

Test(jit, the_prelude_compiles) {
  const gs_asset *prelude = gs_asset_find("templates/prelude_cuda.cuh");
  gs_jit *j = open_or_skip();
  if (!j) return;
  cr_assert(prelude);
  for (int i = 0; i < 3; i++) {
    gs_jit_source s = {.prelude = prelude->data,
                       .text = through_prelude,
                       .entry = "scaled",
                       .arch = archs[i],
                       .line_info = i == 1};
    gs_error err;
    cr_assert_eq(gs_jit_require_no_spills(j, &s, 1, 1, NULL, &err), GS_OK, "%s", err.message);
  }
  gs_jit_close(j);
}

Test(jit, a_wrong_text_names_kernel_line_and_kept_file) {
  gs_jit *j = open_or_skip();
  if (!j) return;
  gs_jit_source s = {.prelude = "\n\n",
                     .text = "extern \"C\" __global__ void k() {\n  nonsense;\n}\n",
                     .entry = "k",
                     .arch = "sm_90a"};
  gs_jit_code c;
  gs_error err;
  cr_assert_eq(gs_jit_compile(j, &s, &c, &err), GS_ERR_COMPILE);
  cr_assert(!c.data && !c.log);
  cr_assert(strstr(err.message, "kernel k does not compile for sm_90a"), "%s", err.message);
  cr_assert(strstr(err.message, "k.cu(4)"), "%s", err.message);
  char *path = strstr(err.message, "its text: ") + strlen("its text: ");
  *strchr(path, '\n') = 0;
  char *data, *slash;
  size_t len;
  cr_assert_eq(gs_file_read(path, &data, &len, NULL), GS_OK, "%s", path);
  cr_assert(strstr(data, "nonsense"));
  free(data);
  if ((slash = strrchr(path, '/'))) *slash = 0;
  gs_remove_tree(path);
  gs_jit_close(j);
}

Test(jit, an_unknown_architecture_is_refused_by_name) {
  gs_jit *j = open_or_skip();
  if (!j) return;
  gs_jit_source s = {.text = plain, .entry = "plain", .arch = "sm_33"};
  gs_jit_code c;
  gs_error err;
  cr_assert_eq(gs_jit_compile(j, &s, &c, &err), GS_ERR_DEVICE);
  cr_assert(strstr(err.message, "sm_33"), "%s", err.message);
  gs_jit_close(j);
}

/* The first failing source is the one reported, on any number of threads; good ones leave no leak.
 */
Test(jit, many_kernels_on_several_threads) {
  gs_jit *j = open_or_skip();
  if (!j) return;
  enum { N = 12 };
  char text[N][160], entry[N][16];
  gs_jit_source s[N];
  gs_jit_code c[N];
  gs_error err;
  for (int i = 0; i < N; i++) {
    snprintf(entry[i], sizeof entry[i], "k%d", i);
    snprintf(text[i], sizeof text[i],
             "extern \"C\" __global__ void k%d(float *y) { y[threadIdx.x] = %d; }\n", i, i);
    s[i] = (gs_jit_source){.text = text[i], .entry = entry[i], .arch = "sm_80"};
  }
  cr_assert_eq(gs_jit_compile_many(j, s, N, 3, c, &err), GS_OK, "%s", err.message);
  for (int i = 0; i < N; i++) {
    gs_jit_use use;
    cr_assert_eq(gs_jit_resources(&c[i], entry[i], &use, &err), GS_OK, "%s", err.message);
    cr_assert_eq(gs_jit_resources(&c[i], entry[(i + 1) % N], &use, &err), GS_ERR_INPUT);
    gs_jit_code_free(&c[i]);
  }
  s[5].text = s[9].text = "broken";
  for (int threads = 1; threads <= 3; threads++) {
    cr_assert_eq(gs_jit_compile_many(j, s, N, threads, c, &err), GS_ERR_COMPILE);
    cr_assert(strstr(err.message, "kernel k5 "), "%s", err.message);
    for (int i = 0; i < N; i++) cr_assert(!c[i].data && !c[i].log);
  }
  gs_jit_close(j);
}

/* A long text that fails late, beside a short one that fails at once: the first in order is told.
 */
Test(jit, the_first_failure_in_order_is_reported) {
  gs_jit *j = open_or_skip();
  if (!j) return;
  enum { LINES = 20000 };
  char *slow = malloc(LINES * 48 + 32);
  size_t n = 0;
  for (int i = 0; i < LINES; i++)
    n += (size_t)sprintf(slow + n, "static int f%d() { return %d; }\n", i, i);
  sprintf(slow + n, "broken\n");
  gs_jit_source s[2] = {{.text = slow, .entry = "slow", .arch = "sm_80"},
                        {.text = "broken", .entry = "quick", .arch = "sm_80"}};
  gs_jit_code c[2];
  gs_error err;
  cr_assert_eq(gs_jit_compile_many(j, s, 2, 2, c, &err), GS_ERR_COMPILE);
  cr_assert(strstr(err.message, "kernel slow "), "%.200s", err.message);
  free(slow);
  gs_jit_close(j);
}

/* Every byte of a cubin flipped, every length cut: a value or an error, never a crash. */
Test(jit, damaged_cubins_are_survived) {
  gs_jit *j = open_or_skip();
  if (!j) return;
  gs_jit_source s = {.text = plain, .entry = "plain", .arch = "sm_90a"};
  gs_jit_code c;
  gs_jit_use use;
  gs_error err;
  cr_assert_eq(gs_jit_compile(j, &s, &c, &err), GS_OK, "%s", err.message);
  unsigned char *bytes = c.data;
  for (size_t i = 0; i < c.len; i++) {
    bytes[i] ^= 0xff;
    gs_jit_resources(&c, "plain", &use, NULL);
    bytes[i] ^= 0xff;
  }
  for (size_t len = 0; len < c.len; len += 7) {
    gs_jit_code cut = {malloc(len ? len : 1), len, NULL, NULL};
    memcpy(cut.data, bytes, len);
    gs_jit_resources(&cut, "plain", &use, NULL);
    gs_jit_code_free(&cut);
  }
  gs_jit_code_free(&c);
  gs_jit_close(j);
}

static const int probe_versions[] = {13, 12, 0};
static const gs_library_wanted probe = {"The probe", "libgsprobe.so", "Install the probe.",
                                        probe_versions};

Test(library, absent_says_where_it_was_sought_and_what_to_do) {
  gs_library lib;
  gs_error err;
  cr_assert_eq(gs_library_open(&probe, &lib, &err), GS_ERR_DEVICE);
  cr_assert(strstr(err.message, "The probe (libgsprobe.so.13) was not found"), "%s", err.message);
  cr_assert(strstr(err.message, "CUDA_HOME") && strstr(err.message, "Install the probe."));
}

/* Puts a real library (the C library's libm) where `below` says, under dir. */
static void place(const char *dir, const char *below, const char *name) {
  gs_library m;
  char path[2048], *data;
  size_t len;
  cr_assert(gs_library_try("libm.so.6", &m));
  cr_assert_eq(gs_file_read(m.path, &data, &len, NULL), GS_OK);
  snprintf(path, sizeof path, "%s/%s", dir, below);
  cr_assert_eq(gs_mkdirs(path, NULL), GS_OK);
  snprintf(path, sizeof path, "%s/%s/%s", dir, below, name);
  cr_assert_eq(gs_file_write(path, data, len, NULL), GS_OK);
  free(data);
}

Test(library, found_in_toolkits_and_wheels) {
  static const struct {
    const char *variable, *below, *name;
    int version;
  } cases[] = {
      {"CUDA_HOME", "lib64", "libgsprobe.so.13", 13},
      {"CUDA_PATH", "targets/x86_64-linux/lib", "libgsprobe.so.12", 12},
      {"VIRTUAL_ENV", "lib/python3.12/site-packages/nvidia/cu13/lib", "libgsprobe.so.13", 13},
      {"VIRTUAL_ENV", "lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib", "libgsprobe.so.12", 12},
      {"PYTHONPATH", "nvidia/cublas/lib", "libgsprobe.so.12", 12},
      {"HOME", ".local/lib/python3.11/site-packages/nvidia/cu13/lib", "libgsprobe.so.13", 13},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char dir[512];
    gs_library lib;
    gs_error err;
    double (*cosine)(double);
    cr_assert_eq(gs_temp_dir(dir, sizeof dir, NULL), GS_OK);
    place(dir, cases[i].below, cases[i].name);
    setenv(cases[i].variable, dir, 1);
    cr_assert_eq(gs_library_open(&probe, &lib, &err), GS_OK, "%s: %s", cases[i].below, err.message);
    cr_assert_eq(lib.version, cases[i].version);
    cr_assert_eq(strncmp(lib.path, dir, strlen(dir)), 0, "%s", lib.path);
    cr_assert(gs_library_symbol(&lib, "cos", &cosine));
    cr_assert_eq(cosine(0), 1);
    cr_assert(!gs_library_symbol(&lib, "no_such_function", &cosine));
    unsetenv(cases[i].variable);
    gs_remove_tree(dir);
  }
}

Test(library, a_file_that_does_not_load_is_named) {
  char dir[512], path[600];
  gs_library lib;
  gs_error err;
  cr_assert_eq(gs_temp_dir(dir, sizeof dir, NULL), GS_OK);
  snprintf(path, sizeof path, "%s/lib64", dir);
  cr_assert_eq(gs_mkdirs(path, NULL), GS_OK);
  snprintf(path, sizeof path, "%s/lib64/libgsprobe.so.13", dir);
  cr_assert_eq(gs_file_write(path, "no library", 10, NULL), GS_OK);
  setenv("CUDA_HOME", dir, 1);
  cr_assert_eq(gs_library_open(&probe, &lib, &err), GS_ERR_DEVICE);
  cr_assert(strstr(err.message, "does not load") && strstr(err.message, dir), "%s", err.message);
  gs_remove_tree(dir);
}
