/* uses: gs_check gs_device gs_jit gs_emit gs_author gs_graph gs_assets */
/* gs.cuda: kernels of the author's own pass what generated ones pass; every mistake of
 * tests/layers/cuda ends in the message of its first line, which names the layer's file and line,
 * from the emulator's compiler and from NVRTC alike. */
#include "base/file.h"
#include "check/check.h"
#include "device/offline.h"
#include "lua/layer.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gs_status check(const char *layer, int rounds, bool own_schedule, gs_error *err) {
  gs_author *a = NULL;
  gs_device *d = NULL;
  gs_check_report r;
  gs_device_options o = {.checked = !own_schedule, .reverse = own_schedule};
  if (!own_schedule) o.arch = "sm_90a";
  gs_status st = gs_device_open("emu", &o, &d, err);
  cr_assert(st == GS_OK, "%s", err->message);
  st = gs_author_new(&a, err);
  cr_assert(st == GS_OK, "%s", err->message);
  gs_check_options c = {.seed = 3, .rounds = rounds, .devices = &d, .ndevices = 1};
  st = gs_check_layer(a, layer, &c, &r, err);
  gs_author_free(a);
  gs_device_close(d);
  return st;
}

static void passes(const char *name) {
  char path[512];
  gs_error err = {0};
  snprintf(path, sizeof path, "%s/layers/%s", GS_TEST_DIR, name);
  for (int own = 0; own < 2; own++)
    cr_assert(check(path, 3, own, &err) == GS_OK, "%s: %s", name, err.message);
}

Test(cuda_body, own_rmsnorm, .timeout = 120) {
  passes("good/own_rmsnorm.lua");
}
Test(cuda_body, own_blocks, .timeout = 120) {
  passes("good/own_blocks.lua");
}
Test(cuda_body, own_scale, .timeout = 120) {
  passes("cuda/right.lua");
}

/* What a file's first line says, past "-- ". */
static void expected(const char *path, char *out, size_t cap) {
  char *text = NULL;
  size_t len;
  cr_assert(gs_file_read(path, &text, &len, NULL) == GS_OK, "%s", path);
  snprintf(out, cap, "%.*s", (int)strcspn(text + 3, "\n"), text + 3);
  free(text);
}

Test(cuda_body, mistakes, .timeout = 240) {
  DIR *dir = opendir(GS_TEST_DIR "/layers/cuda");
  cr_assert(dir);
  int n = 0;
  for (struct dirent *f; (f = readdir(dir));) {
    char path[512], want[256];
    gs_error err = {0};
    if (!strstr(f->d_name, ".lua") || strcmp(f->d_name, "right.lua") == 0) continue;
    snprintf(path, sizeof path, "%s/layers/cuda/%s", GS_TEST_DIR, f->d_name);
    expected(path, want, sizeof want);
    cr_expect(check(path, 1, false, &err) != GS_OK, "%s passes", f->d_name);
    cr_expect(strstr(err.message, want), "%s: '%s' does not say '%s'", f->d_name, err.message,
              want);
    n++;
  }
  closedir(dir);
  cr_assert(n >= 18, "only %d files", n);
}

/* One pass of a file of tests/layers. */
static gs_launch_list *compile(gs_author *a, const char *name, gs_pass_kind kind,
                               const char *const *wanted, int nwanted, gs_instance **in) {
  char path[512];
  gs_error e;
  gs_layer *l;
  gs_pass *p;
  gs_launch_list *list;
  int64_t sizes[2] = {0, 33};
  gs_choice c = {.dtype = GS_F32, .sizes = sizes};
  snprintf(path, sizeof path, "%s/layers/%s", GS_TEST_DIR, name);
  cr_assert_eq(gs_layer_open(a, path, &l, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_layer_instantiate(l, &c, in, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_layer_pass(*in, kind, wanted, nwanted, NULL, 0, &p, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_compile(p, gs_caps_find("sm_80"), NULL, &list, &e), GS_OK, "%s", e.message);
  return list;
}

/* What is not wanted is no parameter, and a kernel that only makes that is not launched. */
Test(cuda_body, unwanted_results) {
  gs_author *a;
  gs_instance *in;
  gs_error e;
  const char *file = "good/own_rmsnorm.lua", *dx[] = {"dx"}, *dw[] = {"dw"};
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  gs_launch_list *l = compile(a, file, GS_PASS_INFER, NULL, 0, &in);
  cr_expect_eq(l->nkernels, 1);
  cr_expect(strstr(l->kernels[0].text, "#define HAS_rstd 0"));
  cr_expect(!strstr(l->kernels[0].text, "GS_OUT(f32, rstd)"));
  gs_instance_free(in);
  l = compile(a, file, GS_PASS_BACKWARD, dx, 1, &in);
  cr_expect(l->nkernels == 1 && l->ntemps == 0, "%d kernels, %d temporaries", l->nkernels,
            l->ntemps);
  gs_instance_free(in);
  l = compile(a, file, GS_PASS_BACKWARD, dw, 1, &in);
  cr_expect(l->nkernels == 2 && l->ntemps == 1, "%d kernels, %d temporaries", l->nkernels,
            l->ntemps);
  int64_t sizes[2] = {17, 33};
  cr_expect_eq(gs_count_value(&l->temps[0].count, sizes), 3 * 33);
  cr_expect_eq(gs_count_value(&l->kernels[0].grid, sizes), 3);
  cr_expect_eq(gs_count_value(&l->kernels[1].grid, sizes), 1);
  gs_instance_free(in);
  gs_author_free(a);
}

Test(cuda_body, nvrtc_names_the_line, .timeout = 120) {
  gs_author *a;
  gs_instance *in;
  gs_device *d;
  gs_error e;
  gs_func *f;
  gs_device_options o = {.compile_jobs = 1};
  if (gs_offline_open("sm_80", &o, &d, &e) != GS_OK) {
    printf("skipped: %s\n", e.message);
    return;
  }
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  gs_launch_list *l = compile(a, "cuda/misspelt.lua", GS_PASS_FORWARD, NULL, 0, &in);
  const gs_kernel *k = &l->kernels[0];
  cr_expect_neq(gs_device_compile(d, &k, 1, &f, &e), GS_OK);
  cr_expect(strstr(e.message, "misspelt.lua(20)"), "%s", e.message);
  gs_instance_free(in);
  gs_author_free(a);
  gs_device_close(d);
}
