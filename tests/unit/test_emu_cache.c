/* uses: gs_device */
/* test_emu_cache.c: the emulator's compiled kernels between runs: found one by one, whatever others
 * they were compiled with, with no compiler at work; a new text or another mode is compiled. */
#include "base/file.h"
#include "device/device.h"
#include "jit/cache.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COUNT = 21 }; /* more than one file has room for */

static char dir[256], texts[COUNT][256], entries[COUNT][32];
static gs_error err;

/* Kernel i writes i + 1 to y[0]. */
static void make_kernels(gs_kernel *k) {
  for (int i = 0; i < COUNT; i++) {
    snprintf(entries[i], sizeof entries[i], "set_%d", i);
    snprintf(texts[i], sizeof texts[i],
             "GS_KERNEL(set_%d, 32, 1, GS_OUT(f32, y)) {\n  if (GS_TID == 0) gs_put(y, 0, %d.0f);\n"
             "}\n",
             i, i + 1);
    k[i] = (gs_kernel){.entry = entries[i], .text = texts[i], .threads = 32, .barrier_free = true};
  }
}

static gs_status compile(gs_device *d, const gs_kernel *k, int n, gs_func **f) {
  const gs_kernel *list[COUNT];
  for (int i = 0; i < n; i++) list[i] = &k[i];
  return gs_device_compile(d, list, n, f, &err);
}

static gs_device *open_emu(bool checked) {
  gs_device *d = NULL;
  gs_device_options o = {.checked = checked, .compile_jobs = 2, .threads = 1};
  cr_assert_eq(gs_device_open("emu", &o, &d, &err), GS_OK, "%s", err.message);
  return d;
}

static void expect_sets(gs_device *d, gs_func *const *f, int n) {
  gs_ptr y;
  float got;
  cr_assert_eq(gs_device_alloc(d, sizeof got, &y, &err), GS_OK);
  for (int i = 0; i < n; i++) {
    gs_value a = {.kind = GS_VALUE_PTR, .ptr = y, .bytes = sizeof got, .is_written = true};
    cr_assert_eq(gs_device_launch(d, f[i], 1, &a, 1, &err), GS_OK, "%s", err.message);
    cr_assert_eq(gs_device_download(d, &got, y, sizeof got, &err), GS_OK);
    cr_expect_eq(got, (float)(i + 1), "kernel %d: %g", i, got);
  }
  gs_device_free(d, y);
}

/* From here on `clang++` tells its version and compiles nothing. */
static void take_compiler_away(void) {
  char path[600], script[1200];
  const char *old = getenv("PATH");
  snprintf(path, sizeof path, "%s/bin", dir);
  cr_assert_eq(gs_mkdirs(path, NULL), GS_OK);
  snprintf(path, sizeof path, "%s/bin/clang++", dir);
  snprintf(script, sizeof script,
           "#!/bin/sh\nPATH='%s'\n[ \"$1\" = --version ] || exit 7\nfor c in clang++ clang++-20 "
           "clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14 g++ c++; do\n"
           "command -v $c > /dev/null && exec $c --version\ndone\n",
           old);
  cr_assert_eq(gs_file_write(path, script, strlen(script), NULL), GS_OK);
  cr_assert_eq(chmod(path, 0755), 0);
  snprintf(script, sizeof script, "%s/bin:%s", dir, old);
  setenv("PATH", script, 1);
}

static int64_t kept(void) {
  int64_t n = 0, bytes;
  gs_cache *c = gs_cache_open(NULL);
  if (c) gs_cache_measure(c, &n, &bytes, NULL);
  gs_cache_close(c);
  return n;
}

static void open_dir(void) {
  char folder[300];
  cr_assert_eq(gs_temp_dir(dir, sizeof dir, NULL), GS_OK);
  snprintf(folder, sizeof folder, "%s/kept", dir);
  setenv("GRADSMITH_CACHE", folder, 1);
}

static void close_dir(void) {
  gs_remove_tree(dir);
}

TestSuite(emu_cache, .init = open_dir, .fini = close_dir);

Test(emu_cache, spares_the_compiler) {
  gs_kernel k[COUNT];
  gs_func *f[COUNT];
  make_kernels(k);
  gs_device *d = open_emu(false);
  cr_assert_eq(compile(d, k, COUNT, f), GS_OK, "%s", err.message);
  expect_sets(d, f, COUNT);
  gs_device_close(d);
  cr_expect_eq(kept(), COUNT);
  take_compiler_away();
  d = open_emu(false);
  cr_assert_eq(compile(d, k, 3, f), GS_OK, "%s", err.message); /* other company than before */
  cr_assert_eq(compile(d, k + 3, COUNT - 3, f + 3), GS_OK, "%s", err.message);
  expect_sets(d, f, COUNT);
  gs_device_close(d);
  snprintf(texts[0] + strlen(texts[0]), 32, "// changed\n");
  d = open_emu(false);
  cr_expect_eq(compile(d, k, 1, f), GS_ERR_COMPILE);
  gs_device_close(d);
  d = open_emu(true);
  cr_expect_eq(compile(d, k + 1, 1, f), GS_ERR_COMPILE);
  gs_device_close(d);
}

Test(emu_cache, off_keeps_nothing) {
  gs_kernel k[COUNT];
  gs_func *f[COUNT];
  make_kernels(k);
  setenv("GRADSMITH_CACHE", "off", 1);
  gs_device *d = open_emu(false);
  cr_assert_eq(compile(d, k, 2, f), GS_OK, "%s", err.message);
  expect_sets(d, f, 2);
  gs_device_close(d);
  open_dir();
  cr_expect_eq(kept(), 0);
}
