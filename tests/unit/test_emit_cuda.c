/* uses: gs_device gs_jit gs_emit gs_author gs_graph gs_assets */
/* Every shipped layer's kernels, compiled by NVRTC for three architectures at the sizes of real
 * models: they compile, and none spills. Skipped, with a line, where there is no NVRTC. */
#include "device/offline.h"
#include "lua/layer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

typedef struct spec {
  const char *layer;
  int64_t sizes[4];
} spec;

static const spec specs[] = {
    {"rmsnorm", {0, 4096}},
    {"rmsnorm", {0, 576}},
    {"rmsnorm", {0, 16384}},
    {"residual_rmsnorm", {0, 4096}},
    {"swiglu", {0, 14336}},
    {"rope", {0, 32, 128}},
    {"add", {0, 4096}},
    {"lora", {0, 4096}},
    {"cross_entropy", {0, 128256}},
    {"embedding", {0, 0, 4096}},
    {"mean_loss", {0}},
    {"adamw", {0}},
    {"grad_norm", {0}},
    {"attention", {0, 8, 4, 128}},
    {"attention", {0, 3, 3, 64}},
};
enum { NSPECS = sizeof specs / sizeof *specs, MAX_KERNELS = 256 };

static int add_passes(gs_instance *in, const gs_caps *caps, const gs_kernel **all, int n) {
  static const gs_pass_kind kinds[] = {GS_PASS_FORWARD, GS_PASS_BACKWARD, GS_PASS_TERMINAL};
  gs_error e;
  for (int i = 0; i < 3; i++) {
    if (kinds[i] != GS_PASS_FORWARD && in->nbackward == 0) continue;
    bool is_loss = strcmp(gs_layer_declaration(in->layer)->name, "cross_entropy") == 0;
    if (kinds[i] == GS_PASS_TERMINAL && !is_loss) continue;
    gs_pass *p;
    gs_launch_list *l;
    cr_assert_eq(gs_layer_pass(in, kinds[i], NULL, 0, NULL, 0, &p, &e), GS_OK, "%s", e.message);
    cr_assert_eq(gs_compile(p, caps, NULL, &l, &e), GS_OK, "%s", e.message);
    for (int k = 0; k < l->nkernels; k++) all[n++] = &l->kernels[k];
    cr_assert(n < MAX_KERNELS - 8);
  }
  return n;
}

static void compile_all(const char *arch, gs_type dtype) {
  gs_error e;
  gs_device *d;
  gs_device_options o = {.compile_jobs = 2};
  if (gs_offline_open(arch, &o, &d, &e) != GS_OK) {
    printf("skipped: %s\n", e.message);
    return;
  }
  gs_author *a;
  gs_instance *in[NSPECS];
  const gs_kernel *all[MAX_KERNELS];
  gs_func *funcs[MAX_KERNELS];
  int n = 0;
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  for (int i = 0; i < NSPECS; i++) {
    gs_layer *l;
    gs_choice c = {.dtype = dtype, .sizes = specs[i].sizes};
    cr_assert_eq(gs_layer_open(a, specs[i].layer, &l, &e), GS_OK, "%s", e.message);
    cr_assert_eq(gs_layer_instantiate(l, &c, &in[i], &e), GS_OK, "%s", e.message);
    n = add_passes(in[i], gs_caps_find(arch), all, n);
  }
  cr_assert_eq(gs_device_compile(d, all, n, funcs, &e), GS_OK, "%s", e.message);
  cr_expect(gs_offline_count(d) >= n / 2);
  for (int i = 0; i < gs_offline_count(d); i++) {
    const gs_offline_kernel *k = gs_offline_at(d, i);
    cr_expect_eq(k->use.local_bytes, 0, "%s for %s keeps %d bytes in local memory", k->entry, arch,
                 k->use.local_bytes);
  }
  for (int i = 0; i < NSPECS; i++) gs_instance_free(in[i]);
  gs_author_free(a);
  gs_device_close(d);
}

Test(cuda, sm_80_f16, .timeout = 300) {
  compile_all("sm_80", GS_F16);
}
Test(cuda, sm_90a_bf16, .timeout = 300) {
  compile_all("sm_90a", GS_BF16);
}
Test(cuda, sm_100a_f32, .timeout = 300) {
  compile_all("sm_100a", GS_F32);
}
