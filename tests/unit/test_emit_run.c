/* uses: gs_check gs_device gs_jit gs_emit gs_author gs_graph gs_assets */
/* Kernels run in the emulator at sizes that reach every schedule (chunks of a block, streamed rows,
 * tiles of columns, tails), against the float64 value within its bound. The texts are those of a
 * GPU, with all of the emulator's checks on, and the emulator's own. */
#include "check/case.h"
#include "layer_case.h"

#include "base/half.h"

#include <stdio.h>

static void round_to_storage(layer_case *c, bool saved) {
  for (int t = 0; t < gs_graph_ntensors(c->i->g); t++) {
    const gs_tensor *x = gs_graph_tensor_at(c->i->g, t);
    bool is_saved = x->role == GS_ROLE_SAVED || x->role == GS_ROLE_OUTPUT;
    if (is_saved != saved) continue;
    for (size_t k = 0; k < c->count[t]; k++) {
      unsigned char bits[8];
      gs_store_f64(bits, x->type, 0, c->tensor[t][k]);
      c->tensor[t][k] = gs_load_f64(bits, x->type, 0);
    }
  }
}

static gs_device *device(const char *arch, bool checked) {
  gs_device *d;
  gs_error e;
  gs_device_options o = {.checked = checked, .arch = arch, .compile_jobs = 2};
  cr_assert_eq(gs_device_open("emu", &o, &d, &e), GS_OK, "%s", e.message);
  return d;
}

/* Compiling adds tensors to the graph: those of the case are the first n. */
static void close_case(layer_case *c, int n) {
  for (int t = 0; t < n; t++) free(c->tensor[t]);
  free(c->tensor);
  free(c->count);
  gs_instance_free(c->i);
}

typedef struct spec {
  const char *layer;
  gs_type dtype;
  int64_t sizes[6];
} spec;

static void run_on(gs_device *d, const spec *s, int n) {
  gs_error e;
  gs_author *a;
  gs_check_report r = {0};
  gs_case *cases = calloc((size_t)n, sizeof *cases);
  layer_case *mine = calloc((size_t)n, sizeof *mine);
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  for (int k = 0; k < n; k++) {
    gs_choice c = {.dtype = s[k].dtype};
    int64_t sizes[GS_MAX_DIMS] = {0};
    memcpy(sizes, s[k].sizes, sizeof s[k].sizes);
    mine[k] = case_open(a, s[k].layer, sizes, &c, 1234 + (uint64_t)k);
    round_to_storage(&mine[k], false);
    case_forward(&mine[k]);
    round_to_storage(&mine[k], true);
    cases[k] = (gs_case){
        .i = mine[k].i, .tensor = mine[k].tensor, .ntensors = gs_graph_ntensors(mine[k].i->g)};
    memcpy(cases[k].sizes, mine[k].sizes, sizeof mine[k].sizes);
    snprintf(cases[k].label, sizeof cases[k].label, "case %d", k);
  }
  gs_check_options o = {0};
  gs_status st = gs_check_runs(cases, n, d, &o, &r, &e);
  cr_expect_eq(st, GS_OK, "%s", e.message);
  cr_expect(r.kernel_runs >= n && r.values > 0);
  for (int k = 0; k < n; k++) close_case(&mine[k], cases[k].ntensors);
  free(mine);
  free(cases);
  gs_author_free(a);
}

static void run(const spec *s, int n) {
  gs_device *gpu = device("sm_90a", true), *own = device(NULL, false);
  run_on(gpu, s, n);
  run_on(own, s, n);
  gs_device_close(gpu);
  gs_device_close(own);
}

#define RUN(...)                                                                                   \
  do {                                                                                             \
    const spec list[] = {__VA_ARGS__};                                                             \
    run(list, sizeof list / sizeof *list);                                                         \
  } while (0)

Test(run, rows_of_a_block, .timeout = 300) {
  RUN({"rmsnorm", GS_BF16, {3, 4096}}, {"rmsnorm", GS_F32, {2, 1537}},
      {"residual_rmsnorm", GS_F16, {5, 2888}});
}

Test(run, rows_too_long_for_registers, .timeout = 300) {
  RUN({"rmsnorm", GS_F32, {3, 20000}}, {"rmsnorm", GS_BF16, {2, 16392}});
}

Test(run, many_short_rows_and_their_columns, .timeout = 300) {
  RUN({"rmsnorm", GS_BF16, {300, 24}}, {"rmsnorm", GS_F32, {67, 7}}, {"rmsnorm", GS_F32, {64, 8}});
}

/* More rows than blocks and places in the ring of what is copied ahead. */
Test(run, rows_copied_ahead, .timeout = 300) {
  RUN({"layernorm", GS_BF16, {900, 2088}}, {"rmsnorm", GS_F32, {300, 2880}});
}

Test(run, streamed_logits, .timeout = 300) {
  RUN({"cross_entropy", GS_BF16, {3, 20008}}, {"cross_entropy", GS_F32, {2, 9001}});
}

Test(run, rows_of_a_cluster, .timeout = 300) {
  RUN({"cross_entropy", GS_BF16, {3, 34008}}, {"cross_entropy", GS_BF16, {5, 33001}},
      {"cross_entropy", GS_F32, {3, 20003}}, {"cross_entropy", GS_F16, {2, 70002}});
}

Test(run, maps, .timeout = 300) {
  RUN({"swiglu", GS_BF16, {2, 5000}}, {"swiglu", GS_F32, {3, 333}}, {"rope", GS_BF16, {3, 5, 64}},
      {"rope", GS_F32, {2, 3, 6}}, {"rope_pair", GS_BF16, {3, 5, 2, 64}},
      {"rope_pair", GS_F32, {2, 32, 8, 128}}, {"rope_pair", GS_BF16, {2, 3, 2, 18}},
      {"lora", GS_F16, {3, 96}});
}

Test(run, tails_of_blocks_and_halves_of_rows, .timeout = 300) {
  RUN({"nf4_dequantize", GS_BF16, {3 * 4096 + 67}}, {"nf4_dequantize", GS_F32, {8189}},
      {"int8_dequantize", GS_F32, {1000}}, {"head_rmsnorm_rope", GS_BF16, {3, 5, 64}},
      {"qk_norm_rope", GS_F32, {2, 3, 2, 20}});
}

Test(run, flat_sums, .timeout = 300) {
  RUN({"grad_norm", GS_F32, {300001}}, {"adamw", GS_F32, {4099}}, {"mean_loss", GS_F32, {3001}},
      {"mean_loss", GS_F32, {1}});
}

Test(run, embedding_gradient, .timeout = 300) {
  RUN({"embedding", GS_BF16, {70, 30, 136}}, {"embedding", GS_F32, {5, 900, 7}});
}

Test(run, attention, .timeout = 300) {
  RUN({"attention", GS_F32, {37, 30, 4, 1, 3, 8}}, {"attention", GS_F16, {1, 1, 2, 1, 1, 17}},
      {"attention", GS_F32, {21, 21, 2, 3, 1, 64}});
}

static char path[4][512];

static const char *own(int i, const char *name) {
  snprintf(path[i], sizeof path[i], "%s/layers/emit/%s.lua", GS_TEST_DIR, name);
  return path[i];
}

Test(run, cut_where_a_row_cannot_hold_it, .timeout = 300) {
  RUN({own(0, "two_levels"), GS_BF16, {5, 1100}}, {own(1, "cut_outer"), GS_F32, {9, 70}},
      {own(2, "cut_inner"), GS_F32, {4, 3, 24}});
}

Test(run, views_and_in_place, .timeout = 300) {
  RUN({own(0, "views"), GS_BF16, {5, 11, 3, 16}}, {own(1, "in_place"), GS_F32, {9, 2, 12}},
      {own(2, "flat"), GS_BF16, {1003}});
}

Test(run, folds_of_lanes_warps_and_chunks, .timeout = 300) {
  RUN({own(0, "folds"), GS_F32, {5, 24}}, {own(1, "folds"), GS_F32, {70, 3}},
      {own(2, "folds"), GS_F32, {3, 1001}}, {own(3, "folds"), GS_F32, {2, 9000}});
}

Test(run, reductions_over_part_of_the_inner_dims, .timeout = 300) {
  RUN({own(0, "groupnorm_like"), GS_BF16, {3, 12, 10}},
      {own(1, "groupnorm_like"), GS_F32, {2, 6, 1030}}, {own(2, "blocks"), GS_BF16, {5, 96}},
      {own(3, "squares"), GS_F32, {2, 8, 24}});
  RUN({own(0, "squares_outer"), GS_BF16, {37, 24, 24}}, {own(1, "topk"), GS_F32, {9, 24}});
}

Test(run, keys_that_differ_along_the_row, .timeout = 300) {
  RUN({own(0, "row_keys"), GS_F32, {9, 5, 12}}, {own(1, "row_keys"), GS_BF16, {3, 40, 200}});
}

Test(run, sums_that_keep_different_dims, .timeout = 300) {
  RUN({own(0, "kept_dims"), GS_F32, {70, 3, 8}}, {own(1, "kept_dims"), GS_BF16, {9, 5, 200}},
      {own(2, "heads"), GS_BF16, {300, 3, 24}}, {own(3, "heads"), GS_F32, {3, 2, 1100}});
}

/* What stays in registers along one set of dims is read along another. */
Test(run, registers_of_another_space, .timeout = 300) {
  RUN({own(0, "held_registers"), GS_F32, {5, 3, 4}},
      {own(1, "held_registers"), GS_F16, {9, 2, 24}});
}

Test(run, a_reduction_read_along_its_own_dim, .timeout = 300) {
  RUN({own(0, "captured"), GS_F32, {5, 3, 8}}, {own(1, "captured"), GS_BF16, {1, 5, 33}});
}

Test(run, a_sum_over_rows_read_at_another_index, .timeout = 300) {
  RUN({own(0, "sum_elsewhere"), GS_F32, {9, 3, 8}}, {own(1, "sum_elsewhere"), GS_BF16, {70, 2, 7}});
}

Test(run, grouped_sums_between_other_dims, .timeout = 300) {
  RUN({own(0, "grouped_middle"), GS_F32, {17, 4, 7}},
      {own(1, "grouped_middle"), GS_F32, {3, 5, 2}});
}

Test(run, indices_that_differ_from_lane_to_lane, .timeout = 300) {
  RUN({own(0, "lane_index"), GS_F32, {5, 2, 4}}, {own(1, "lane_index"), GS_BF16, {3, 5, 24}});
}

/* One element of a vector is a number of the row, of whatever type. */
Test(run, whole_numbers_where_an_index_is, .timeout = 300) {
  RUN({own(0, "where_index"), GS_F32, {5, 24}}, {own(0, "where_index"), GS_F32, {3, 1027}});
}

/* Blocks of a dim whose size a launch says: whole ones, a rest, less than one, one over. */
Test(run, blocks_of_an_outer_dim, .timeout = 300) {
  RUN({own(0, "block_codes"), GS_BF16, {1003}}, {own(0, "block_codes"), GS_F32, {64}},
      {own(0, "block_codes"), GS_F16, {1}}, {own(0, "block_codes"), GS_F32, {4097}},
      {own(1, "block_values"), GS_BF16, {1003}}, {own(1, "block_values"), GS_F32, {128}},
      {own(1, "block_values"), GS_BF16, {1}}, {own(1, "block_values"), GS_F16, {4097}});
  RUN({own(2, "merged_rows"), GS_F32, {300, 0, 4}}, {own(3, "merged_rows"), GS_BF16, {33, 0, 3}});
}

Test(run, tiles_of_a_matrix, .timeout = 300) {
  RUN({own(0, "tiles"), GS_BF16, {37, 24, 24, 24}}, {own(0, "tiles"), GS_F32, {16, 21, 21, 21}},
      {own(0, "tiles"), GS_F32, {1, 7, 7, 7}});
}

Test(run, gathers, .timeout = 300) {
  RUN({own(0, "gathers"), GS_BF16, {5, 9, 24}}, {own(0, "gathers"), GS_F32, {3, 1, 7}});
}

/* On the machine itself, unlike in the checked emulator, an index out of its dim reads the nearest
 * element that there is. */
Test(run, wild_indices_read_inside) {
  static const char text[] = "GS_KERNEL(wild, 32, 1, GS_IN(i64, x), GS_OUT(i64, y), GS_DIM(N)) {\n"
                             "  gs_puti(y, GS_TID, gs_inside(gs_geti(x, GS_TID), N));\n}\n";
  int64_t x[32], y[32];
  gs_error e;
  gs_func *f;
  gs_ptr p[2];
  gs_device *d = device(NULL, false);
  gs_kernel k = {.entry = "wild", .text = text, .threads = 32, .barrier_free = true};
  const gs_kernel *list[] = {&k};
  for (int i = 0; i < 32; i++) x[i] = i < 16 ? i - 8 : (int64_t)1 << (i + 20);
  cr_assert_eq(gs_device_compile(d, list, 1, &f, &e), GS_OK, "%s", e.message);
  for (int i = 0; i < 2; i++) cr_assert_eq(gs_device_alloc(d, sizeof x, &p[i], &e), GS_OK);
  cr_assert_eq(gs_device_upload(d, p[0], x, sizeof x, &e), GS_OK);
  gs_value args[] = {{.kind = GS_VALUE_PTR, .ptr = p[0], .bytes = sizeof x},
                     {.kind = GS_VALUE_PTR, .ptr = p[1], .bytes = sizeof x},
                     {.kind = GS_VALUE_I64, .i64 = 5}};
  cr_assert_eq(gs_device_launch(d, f, 1, args, 3, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_device_download(d, y, p[1], sizeof y, &e), GS_OK);
  for (int i = 0; i < 32; i++) cr_expect_eq(y[i], x[i] < 0 ? 0 : x[i] < 5 ? x[i] : 4);
  gs_device_close(d);
}
