/* uses: gs_device gs_jit gs_emit gs_author gs_graph gs_assets */
/* Kernels of shipped layers, compiled by NVRTC: some at the sizes of real models for three
 * architectures, every layer at small sizes for one. They compile, none spills, and none computes
 * in f64. Skipped, with a line, where there is no NVRTC. */
#include "base/asset.h"
#include "device/offline.h"
#include "lua/layer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

typedef struct spec {
  const char *layer;
  int64_t sizes[6];
} spec;

static const spec specs[] = {
    {"rmsnorm", {0, 4096}},
    {"rmsnorm", {0, 576}},
    {"rmsnorm", {0, 16384}},
    {"residual_rmsnorm", {0, 4096}},
    {"swiglu", {0, 14336}},
    {"rope", {0, 32, 128}},
    {"rope_pair", {0, 32, 8, 128}},
    {"nf4_dequantize", {0}},
    {"adamw_storage_random", {0}},
    {"add", {0, 4096}},
    {"lora", {0, 4096}},
    {"cross_entropy", {0, 128256}},
    {"embedding", {0, 0, 4096}},
    {"mean_loss", {0}},
    {"adamw", {0}},
    {"grad_norm", {0}},
    {"attention", {0, 0, 0, 8, 4, 128}},
    {"attention", {0, 0, 0, 3, 3, 64}},
    {"layernorm", {0, 4096}},
    {"groupnorm", {0, 32, 10, 4096}},
    {"gated_rmsnorm", {0, 8, 512}},
    {"qk_norm_rope", {0, 32, 8, 128}},
    {"geglu_tanh", {0, 9216}},
    {"rope_partial", {0, 32, 80, 16}},
    {"rope_table", {0, 64}},
    {"emit/folds", {0, 4096}},
    {"emit/folds", {0, 256}},
    {"emit/groupnorm_like", {0, 96, 256}},
    {"emit/squares", {0, 512, 1024}},
    {"emit/blocks", {0, 4096}},
    {"emit/heads", {0, 32, 128}},
    {"emit/kept_dims", {0, 32, 128}},
    {"emit/topk", {0, 256}},
    {"good/own_rmsnorm", {0, 4096}},
    {"good/own_blocks", {0, 0, 64}},
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

static void look_at(const gs_device *d, const char *arch) {
  for (int i = 0; i < gs_offline_count(d); i++) {
    const gs_offline_kernel *k = gs_offline_at(d, i);
    cr_expect_eq(k->use.local_bytes, 0, "%s for %s keeps %d bytes in local memory", k->entry, arch,
                 k->use.local_bytes);
    cr_expect_eq(k->use.doubles, 0, "%s for %s has %d instructions of f64", k->entry, arch,
                 k->use.doubles);
  }
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
    char own[512]; /* a layer of the tests' own folder */
    bool is_own = strchr(specs[i].layer, '/') != NULL;
    snprintf(own, sizeof own, "%s/layers/%s.lua", GS_TEST_DIR, specs[i].layer);
    cr_assert_eq(gs_layer_open(a, is_own ? own : specs[i].layer, &l, &e), GS_OK, "%s", e.message);
    cr_assert_eq(gs_layer_instantiate(l, &c, &in[i], &e), GS_OK, "%s", e.message);
    n = add_passes(in[i], gs_caps_find(arch), all, n);
  }
  cr_assert_eq(gs_device_compile(d, all, n, funcs, &e), GS_OK, "%s", e.message);
  cr_expect(gs_offline_count(d) >= n / 2);
  look_at(d, arch);
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

/* ---- every layer that is shipped ---- */

static gs_device *open_offline(const char *arch) {
  gs_error e;
  gs_device *d;
  gs_device_options o = {.compile_jobs = 2};
  if (gs_offline_open(arch, &o, &d, &e) == GS_OK) return d;
  printf("skipped: %s\n", e.message);
  return NULL;
}

/* At sizes that are all the same, or else fall from dim to dim (a part of a row is shorter). */
static void compile_layer(gs_author *a, gs_device *d, const char *name) {
  gs_error e;
  gs_layer *l;
  gs_instance *in;
  const gs_kernel *all[MAX_KERNELS];
  gs_func *funcs[MAX_KERNELS];
  int64_t same[GS_MAX_DIMS], falling[GS_MAX_DIMS];
  for (int i = 0; i < GS_MAX_DIMS; i++) same[i] = 128, falling[i] = 4096 >> (i < 6 ? 2 * i : 12);
  gs_choice c = {.dtype = GS_BF16, .sizes = same};
  cr_assert_eq(gs_layer_open(a, name, &l, &e), GS_OK, "%s", e.message);
  if (gs_layer_instantiate(l, &c, &in, &e) != GS_OK) {
    c.sizes = falling;
    cr_assert_eq(gs_layer_instantiate(l, &c, &in, &e), GS_OK, "%s", e.message);
  }
  int n = add_passes(in, gs_caps_find("sm_90a"), all, 0);
  cr_expect_eq(gs_device_compile(d, all, n, funcs, &e), GS_OK, "%s", e.message);
  gs_instance_free(in);
}

Test(cuda, every_shipped_layer, .timeout = 600) {
  gs_error e;
  gs_author *a;
  gs_device *d = open_offline("sm_90a");
  if (!d) return;
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  int layers = 0;
  const gs_asset *file;
  for (size_t i = 0; (file = gs_asset_at(i)); i++) {
    const char *name = file->path + strlen("lua/layers/"), *dot = strrchr(file->path, '.');
    if (strncmp(file->path, "lua/layers/", 11) != 0 || !dot || strchr(name, '/')) continue;
    char stem[64];
    snprintf(stem, sizeof stem, "%.*s", (int)(dot - name), name);
    compile_layer(a, d, stem);
    layers++;
  }
  cr_expect(layers >= 10);
  look_at(d, "sm_90a");
  gs_author_free(a);
  gs_device_close(d);
}

/* The count of f64 instructions sees them. */
Test(cuda, doubles_are_seen) {
  gs_error e;
  gs_func *f;
  gs_device *d = open_offline("sm_90a");
  if (!d) return;
  gs_kernel k = {.entry = "doubles",
                 .text = "GS_KERNEL(doubles, 32, 1, GS_IN(f32, x), GS_OUT(f32, y)) {\n"
                         "  const double v = gs_get(x, GS_TID);\n"
                         "  gs_put(y, GS_TID, (f32)(v * v + 1.0 / 3.0));\n}\n",
                 .threads = 32,
                 .barrier_free = true};
  const gs_kernel *list[] = {&k};
  cr_assert_eq(gs_device_compile(d, list, 1, &f, &e), GS_OK, "%s", e.message);
  cr_expect(gs_offline_at(d, 0)->use.doubles > 0);
  gs_device_close(d);
}
