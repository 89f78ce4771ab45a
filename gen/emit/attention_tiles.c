/* attention_tiles.c: the templates that work on tiles with matrix units: which, and its sizes by
 * the heads' length and the machine's shared memory. */
#include "emit/attention.h"

#include <string.h>

typedef struct tiles {
  int dp;                /* heads' length as it lies in shared memory */
  int m, n, stages, q_stages, blocks;
  int warps_n, warps_m, warps_q, warps_d; /* backward of sm_80: how warps share its products */
  int threads;
  int64_t shared;
} tiles;

static int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

static bool is_hopper(const att *a) {
  return strcmp(a->e->caps->arch, "sm_90a") == 0;
}

static gs_count persistent(const att *a, int blocks) {
  return (gs_count){.coef = (int64_t)a->e->caps->sm_count * blocks, .div = 1};
}

static const char *name_text(att *a, const tiles *t) {
  return fmt(&a->k, "tile_m=%d tile_n=%d stages=%d threads=%d blocks=%d", t->m, t->n, t->stages,
             t->threads, t->blocks);
}

/* ---- forward, mma.sync ---- */

static int padded(int64_t d) {
  static const int sizes[] = {16, 32, 48, 64, 96, 128, 192, 256};
  int i = 0;
  while (sizes[i] < d) i++;
  return sizes[i];
}

static tiles forward_sizes(const att *a) {
  int64_t room = a->e->caps->shared_per_block;
  tiles t = {.dp = padded(a->size), .m = 128, .n = 64, .stages = 1, .blocks = 2, .threads = 128};
  if (room < 110000 && t.dp > 64)
    t.m = 64, t.blocks = t.dp <= 128 ? 2 : 1;
  else if (room >= 110000 && t.dp > 128)
    t.threads = 256, t.blocks = 1;
  else if (room >= 110000 && t.dp <= 64)
    t.n = 128;
  t.shared = (int64_t)(t.m + 2 * t.stages * t.n) * t.dp * 2;
  return t;
}

static void forward_sm80(att *a) {
  tiles t = forward_sizes(a);
  att_plan(a, false, t.m, t.n);
  att_begin(a);
  att_kernel x = {.file = "attention_sm80",
                  .piece = "forward",
                  .threads = t.threads,
                  .shared = t.shared,
                  .prelude = GS_PRELUDE_TILES,
                  .grid = persistent(a, t.blocks),
                  .tunables = name_text(a, &t),
                  .updates = "take"};
  att_int(a, &x, "DP", t.dp);
  att_int(a, &x, "BLOCKS", t.blocks);
  att_int(a, &x, "TILE_M", t.m);
  att_int(a, &x, "TILE_N", t.n);
  att_int(a, &x, "STAGES", t.stages);
  att_int(a, &x, "WARP_M", t.m / (t.threads / 32));
  att_write(a, &x);
}

/* ---- forward, wgmma ---- */

static tiles hopper_forward_sizes(const att *a) {
  tiles t = {.dp = (int)round_up(a->size, 16), .m = 128, .n = 128, .stages = 2, .blocks = 1};
  if (a->size <= 64)
    t.m = a->is_plain ? 192 : 128; /* a score of its own takes registers */
  else if (a->size > 128)
    t.n = a->size <= 192 ? 112 : 80;
  t.q_stages = a->size <= 128 ? 2 : 1;
  int64_t panels = (t.dp + 63) / 64, groups = t.m / 64;
  int64_t bars = 2 * t.q_stages * groups + 7 + 4 * t.stages;
  t.threads = (int)(128 * (groups + 1));
  t.shared = t.q_stages * groups * 8192 * panels + (int64_t)2 * t.stages * t.n * 128 * panels +
             round_up(bars * 8, 16) + 144;
  return t;
}

static void forward_sm90(att *a) {
  tiles t = hopper_forward_sizes(a);
  gs_box rows = {.rows = 64, .heads = 1, .columns = 64, .swizzle = 128}, keys = rows;
  att_plan(a, false, t.m, t.n);
  att_begin(a);
  att_kernel x = {.file = "attention_sm90",
                  .piece = "forward",
                  .threads = t.threads,
                  .shared = t.shared,
                  .prelude = GS_PRELUDE_HOPPER,
                  .grid = persistent(a, t.blocks),
                  .tunables = name_text(a, &t),
                  .updates = "take"};
  keys.rows = t.n;
  att_map(&x, "q", rows);
  att_map(&x, "k", keys);
  att_map(&x, "v", keys);
  att_int(a, &x, "DP", t.dp);
  att_int(a, &x, "BLOCKS", t.blocks);
  att_int(a, &x, "TILE_M", t.m);
  att_int(a, &x, "TILE_N", t.n);
  att_int(a, &x, "STAGES", t.stages);
  att_int(a, &x, "Q_STAGES", t.q_stages);
  att_int(a, &x, "PINGPONG", 1);
  att_int(a, &x, "REGISTERS_DOWN", t.m > 128 ? 32 : 40);
  att_int(a, &x, "REGISTERS_UP", t.m > 128 ? 160 : 232);
  if (a->is_plain) att_hole(&x, "SCORES", "");
  if (a->sink < 0) att_hole(&x, "SINK_JOINS", "");
  att_write(a, &x);
}

/* ---- before and after a backward kernel ---- */

/* coef for each row of each padded tile of queries: ceil(T / tile) + B1 of them. */
static gs_count padded_tiles(const att *a, int tile, int64_t coef) {
  return (gs_count){.coef = coef,
                    .div = 1,
                    .each = tile,
                    .dims = (gs_dims)1 << a->t,
                    .plus = coef,
                    .plus_dims = (gs_dims)1 << a->b};
}

static att_kernel prepare_piece(att *a, const char *piece, int tile) {
  att_begin(a);
  att_kernel x = {.file = "attention_prepare",
                  .piece = piece,
                  .threads = 256,
                  .prelude = GS_PRELUDE_TILES,
                  .grid = padded_tiles(a, tile, a->heads)};
  int lanes = 1;
  while (lanes * 8 < a->size) lanes *= 2;
  x.tunables = fmt(&a->k, "threads=256 tile=%d lanes=%d", tile, lanes);
  att_int(a, &x, "TILE_Q", tile);
  att_int(a, &x, "LANES", lanes);
  att_int(a, &x, "TURNS", 1);
  att_hole(&x, "DQ_ROW", att_fill(a, &x, "rows_tokens"));
  att_hole(&x, "CLEAR_UNSEEN", "");
  att_int(a, &x, "DP", round_up(a->size, 16));
  return x;
}

/* Lse and delta by padded tiles, and turns (or dq_acc) that nobody has had. */
static void prepare(att *a, int tile, bool fast) {
  bool dq = att_wants(a, "dq");
  att_temp(a, "stats", GS_F32, padded_tiles(a, tile, 2 * a->heads * tile));
  if (dq) att_temp(a, "dq_acc", GS_F32, att_count(a->heads * round_up(a->size, 16), a->t));
  if (dq && !fast) att_temp(a, "turn", GS_I32, padded_tiles(a, tile, a->heads));
  att_kernel x = prepare_piece(a, "prepare", tile);
  x.writes = "stats,turn,dq_acc";
  att_hole(&x, "CLEAR", !dq ? "" : att_fill(a, &x, fast ? "clear_dq" : "clear_turns"));
  att_write(a, &x);
}

/* dq from its sums, and the gradient of the sink's logit. */
static void finish(att *a, int tile, bool fast, int turned) {
  if (att_wants(a, "dq")) {
    att_kernel x = prepare_piece(a, "finish", tile);
    att_int(a, &x, "TURNED", turned);
    att_hole(&x, "ADDED", att_fill(a, &x, fast ? "added_always" : "added_turns"));
    att_write(a, &x);
  }
  if (!a->dsink) return;
  att_kernel x = prepare_piece(a, "sink", tile);
  x.threads = 1024;
  x.grid = (gs_count){.coef = a->heads, .div = 1};
  att_write(a, &x);
}

/* ---- backward, mma.sync ---- */

static tiles backward_sizes(const att *a) {
  /* by the padded length of heads; large: above 110 KB of shared memory a block */
  static const struct {
    int dp, large, m, n, warps[4], stages;
  } rows[] = {{16, 0, 128, 128, {8, 1, 8, 1}, 2}, {16, 1, 128, 128, {8, 1, 8, 1}, 2},
              {32, 0, 64, 128, {8, 1, 4, 2}, 2},  {32, 1, 64, 128, {8, 1, 4, 2}, 2},
              {48, 0, 128, 128, {8, 1, 8, 1}, 1}, {48, 1, 128, 128, {8, 1, 8, 1}, 2},
              {64, 0, 64, 128, {4, 2, 4, 2}, 2},  {64, 1, 128, 128, {4, 2, 4, 2}, 2},
              {96, 0, 64, 64, {4, 2, 4, 2}, 1},   {96, 1, 64, 128, {4, 2, 4, 2}, 2},
              {128, 0, 64, 64, {4, 2, 4, 2}, 1},  {128, 1, 64, 128, {4, 2, 2, 4}, 2},
              {192, 0, 32, 64, {4, 2, 2, 4}, 1},  {192, 1, 64, 64, {2, 4, 4, 2}, 2},
              {256, 0, 32, 32, {2, 2, 2, 2}, 1},  {256, 1, 64, 64, {2, 4, 2, 4}, 1}};
  tiles t = {.dp = padded(a->size), .blocks = 1};
  int large = a->e->caps->shared_per_block >= 110000;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].dp != t.dp || rows[i].large != large) continue;
    t.m = rows[i].m, t.n = rows[i].n, t.stages = rows[i].stages;
    t.warps_n = rows[i].warps[0], t.warps_m = rows[i].warps[1];
    t.warps_q = rows[i].warps[2], t.warps_d = rows[i].warps[3];
  }
  t.threads = 32 * t.warps_n * t.warps_m;
  t.shared = (int64_t)(t.n + t.stages * t.m) * t.dp * 4 + (int64_t)t.m * t.n * 4;
  return t;
}

/* Option fast_dq: sums for dq in whatever order, by atomic additions. */
static bool is_fast(const att *a) {
  const gs_instance *i = a->e->pass->instance;
  const gs_layer_decl *d = gs_layer_declaration(i->layer);
  for (int k = 0; k < d->noptions; k++)
    if (strcmp(d->options[k], "fast_dq") == 0) return i->options[k] == 1;
  return false;
}

static void main_sm80(att *a, const tiles *t, bool fast) {
  att_begin(a);
  att_kernel x = {.file = "attention_sm80_backward",
                  .piece = "main",
                  .threads = t->threads,
                  .shared = t->shared,
                  .prelude = GS_PRELUDE_TILES,
                  .grid = persistent(a, t->blocks),
                  .tunables = name_text(a, t),
                  .updates = "take,dq_acc,turn"};
  att_int(a, &x, "DP", t->dp);
  att_int(a, &x, "DQ", round_up(a->size, 16));
  att_int(a, &x, "BLOCKS", t->blocks);
  att_int(a, &x, "FAST_DQ", fast);
  att_int(a, &x, "TILE_M", t->m);
  att_int(a, &x, "TILE_N", t->n);
  att_int(a, &x, "STAGES", t->stages);
  att_int(a, &x, "WARPS_N", t->warps_n);
  att_int(a, &x, "WARPS_M", t->warps_m);
  att_int(a, &x, "WARPS_Q", t->warps_q);
  att_int(a, &x, "WARPS_D", t->warps_d);
  att_write(a, &x);
}

/* ---- backward, wgmma ---- */

static tiles hopper_backward_sizes(const att *a) {
  tiles t = {.dp = (int)round_up(a->size, 16), .m = 64, .n = 128, .blocks = 1, .threads = 384};
  t.stages = 2;
  t.q_stages = a->size <= 128 ? 3 : 2;
  if (a->size <= 64) t.m = 128;
  if (a->size > 128) t.n = 64;
  return t;
}

/* Where things lie in shared memory, in bytes; elements of tiles have two. */
static void place_hopper(att *a, att_kernel *x, const tiles *t, int panels) {
  int rings = t->q_stages + t->stages;
  int64_t count = (int64_t)(2 * t->n + rings * t->m) * panels * 64 + (int64_t)2 * t->m * t->n;
  int64_t near = 2 * count, slots = near + (int64_t)4 * t->m * rings, bars = slots + 128;
  int nbars = 15 + 2 * rings;
  att_int(a, x, "TILE_COUNT", count);
  att_int(a, x, "AT_NEAR", near);
  att_int(a, x, "AT_SLOTS", slots);
  att_int(a, x, "AT_BARS", bars);
  att_int(a, x, "BARS", nbars);
  x->shared = bars + 8 * nbars;
}

static void main_sm90(att *a, const tiles *t, bool fast) {
  bool wide = a->size > 128;
  int panels = a->size <= 64 ? 1 : wide ? 4 : 2;
  gs_box queries = {.rows = t->m, .heads = 1, .columns = 64, .swizzle = 128}, keys = queries;
  keys.rows = t->n;
  att_begin(a);
  att_kernel x = {.file = "attention_sm90_backward",
                  .piece = "main",
                  .threads = t->threads,
                  .prelude = GS_PRELUDE_HOPPER,
                  .grid = persistent(a, t->blocks),
                  .tunables = name_text(a, t),
                  .updates = "take,dq_acc,turn"};
  att_map(&x, "q", queries);
  att_map(&x, "dy", queries);
  att_map(&x, "k", keys);
  att_map(&x, "v", keys);
  att_int(a, &x, "TILE_Q", t->m);
  att_int(a, &x, "TILE_N", t->n);
  att_int(a, &x, "PANELS", panels);
  att_int(a, &x, "SPLIT_D", wide);
  att_int(a, &x, "NDV", wide ? 128 : t->dp);
  att_int(a, &x, "NDQ", wide ? 128 : 64);
  att_int(a, &x, "KD", t->dp);
  att_int(a, &x, "DP", t->dp);
  att_int(a, &x, "AHEAD", a->size > 64 && !wide);
  att_int(a, &x, "STAGES_Q", t->q_stages);
  att_int(a, &x, "STAGES_DY", t->stages);
  att_int(a, &x, "FAST_DQ", fast);
  att_hole(&x, "OPEN", "GS_KERNEL");
  att_hole(&x, "OPEN_MORE", "0");
  att_hole(&x, "NOTHING", a->is_plain ? "0.0f" : "-GS_INF");
  place_hopper(a, &x, t, panels);
  att_hole(&x, "WEIGHTS", att_fill(a, &x, a->is_plain ? "weights_plain" : "weights_score"));
  att_hole(&x, "SLOPES", att_fill(a, &x, a->is_plain ? "slopes_plain" : "slopes_score"));
  att_hole(&x, "PUT_DQ", att_fill(a, &x, fast ? "put_dq_fast" : "put_dq_turns"));
  att_write(a, &x);
}

static void backward(att *a) {
  bool wants_main = att_wants(a, "dq") || att_wants(a, "dk") || att_wants(a, "dv");
  bool hopper = false, fast = is_fast(a);
  tiles t = hopper ? hopper_backward_sizes(a) : backward_sizes(a);
  if (wants_main) att_plan(a, true, t.n, t.m);
  prepare(a, t.m, fast);
  if (wants_main && hopper) main_sm90(a, &t, fast);
  if (wants_main && !hopper) main_sm80(a, &t, fast);
  finish(a, t.m, fast, 0);
}

bool att_tiles(att *a) {
  bool fits = (a->type == GS_BF16 || a->type == GS_F16) && a->size % 8 == 0 && a->size <= 256;
  if (!fits) return false;
  if (a->e->pass->kind == GS_PASS_BACKWARD)
    backward(a);
  else if (is_hopper(a))
    forward_sm90(a);
  else
    forward_sm80(a);
  return true;
}
