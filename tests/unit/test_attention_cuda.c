/* uses: gs_device gs_jit gs_emit gs_author gs_graph gs_assets */
/* Attention's kernels compiled by NVRTC for every kind of GPU: none keeps anything in local memory,
 * none computes in f64. Skipped, with a line, where there is no NVRTC. */
#include "device/offline.h"
#include "lua/layer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 64 };

typedef struct variant {
  gs_type type;
  int64_t K, G, D;
  int noptions, first; /* of the options below: how many, from which on */
} variant;

static int add_passes(gs_instance *in, const gs_caps *caps, const gs_kernel **all, int n) {
  static const gs_pass_kind kinds[] = {GS_PASS_FORWARD, GS_PASS_BACKWARD};
  gs_error e;
  for (int i = 0; i < 2; i++) {
    gs_pass *p;
    gs_launch_list *l;
    cr_assert_eq(gs_layer_pass(in, kinds[i], NULL, 0, NULL, 0, &p, &e), GS_OK, "%s", e.message);
    cr_assert_eq(gs_compile(p, caps, NULL, &l, &e), GS_OK, "%s", e.message);
    for (int k = 0; k < l->nkernels && n < MOST; k++) all[n++] = &l->kernels[k];
  }
  return n;
}

static void compile_all(const char *arch, const variant *v, int nv) {
  static const char *const names[] = {"window", "cap", "alibi", "sink", "fast_dq", "prefix"};
  static const double values[] = {40, 2.5, 1, 1, 1, 1};
  gs_error e;
  gs_device *d;
  gs_device_options o = {.compile_jobs = 2};
  if (gs_offline_open(arch, &o, &d, &e) != GS_OK) {
    printf("skipped: %s\n", e.message);
    return;
  }
  gs_author *a;
  gs_layer *l;
  gs_instance *in[8];
  const gs_kernel *all[MOST];
  gs_func *funcs[MOST];
  int n = 0;
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_layer_open(a, "attention", &l, &e), GS_OK, "%s", e.message);
  for (int i = 0; i < nv; i++) {
    int64_t sizes[GS_MAX_DIMS] = {-1, -1, -1, v[i].K, v[i].G, v[i].D};
    gs_choice c = {.dtype = v[i].type, .sizes = sizes};
    c.noptions = v[i].noptions;
    c.option_names = names + v[i].first;
    c.option_values = values + v[i].first;
    cr_assert_eq(gs_layer_instantiate(l, &c, &in[i], &e), GS_OK, "%s", e.message);
    n = add_passes(in[i], gs_caps_find(arch), all, n);
  }
  cr_assert_eq(gs_device_compile(d, all, n, funcs, &e), GS_OK, "%s", e.message);
  for (int i = 0; i < gs_offline_count(d); i++) {
    const gs_offline_kernel *k = gs_offline_at(d, i);
    cr_expect(k->use.local_bytes == 0 && k->use.doubles == 0,
              "%s for %s: %d bytes of local memory, %d instructions of f64", k->entry, arch,
              k->use.local_bytes, k->use.doubles);
  }
  for (int i = 0; i < nv; i++) gs_instance_free(in[i]);
  gs_author_free(a);
  gs_device_close(d);
}

static const variant usual[] = {{GS_BF16, 8, 4, 128, 0, 0}, {GS_F16, 3, 3, 64, 5, 0}};
/* More of what has tiles of its own: a window, sums for dq in any order, a prefix; a block pair. */
static const variant hopper[] = {{GS_BF16, 8, 4, 128, 0, 0}, {GS_F16, 3, 3, 64, 5, 0},
                                 {GS_BF16, 8, 8, 64, 1, 0},  {GS_BF16, 2, 2, 64, 1, 4},
                                 {GS_F16, 2, 2, 64, 1, 5},   {GS_BF16, 4, 7, 128, 0, 0}};

#define COMPILES(arch, variants)                                                                   \
  Test(attention_cuda, arch, .timeout = 300) {                                                     \
    compile_all(#arch, variants, sizeof variants / sizeof *variants);                              \
  }
COMPILES(sm_80, usual)
COMPILES(sm_89, usual)
COMPILES(sm_90a, hopper)
COMPILES(sm_100a, usual)
COMPILES(sm_120a, usual)
