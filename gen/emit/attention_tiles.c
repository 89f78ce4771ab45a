/* attention_tiles.c: the templates that work on tiles with matrix units: which, and its sizes by
 * the heads' length and the machine's shared memory. */
#include "emit/attention.h"

#include <string.h>

typedef struct tiles {
  int dp; /* heads' length as it lies in shared memory */
  int m, n, stages, q_stages, blocks, cluster;
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

/* Blocks that take items: as many as stay on the machine, or fewer where there are not so many
 * items, which are `heads` for each tile of dim. An item has `cluster` blocks. */
static gs_count persistent(const att *a, const tiles *t, int64_t heads, int dim, int tile) {
  int cluster = t->cluster > 1 ? t->cluster : 1;
  int64_t most = (int64_t)a->e->caps->sm_count * t->blocks;
  return (gs_count){.coef = heads * cluster,
                    .div = 1,
                    .cap = most - most % cluster,
                    .each = tile,
                    .dims = (gs_dims)1 << dim,
                    .plus = heads * cluster,
                    .plus_dims = (gs_dims)1 << a->b};
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

/* Rows of a key tile: by default `now`; tuned, one of those with which `rest` bytes and `each` a
 * row fit into a block's share of the shared memory. */
static int key_rows(const att *a, const char *template_name, int now, int64_t rest, int64_t each,
                    int blocks) {
  static const int64_t sizes[] = {32, 64, 96, 128};
  int64_t fits[4];
  int n = 0;
  for (int i = 0; i < 4; i++)
    if ((rest + each * sizes[i]) * blocks <= a->e->caps->shared_per_block) fits[n++] = sizes[i];
  return (int)tunable(a->e, template_name, "tile_n", now, fits, n);
}

/* Shared memory that a block may count on. On sm_100a the larger tiles keep some registers in
 * memory: there the smaller ones are taken. */
static int64_t room_of(const att *a) {
  bool smaller = strcmp(a->e->caps->arch, "sm_100a") == 0;
  return smaller ? 99 * 1024 : a->e->caps->shared_per_block;
}

static tiles forward_sizes(const att *a) {
  int64_t room = room_of(a);
  tiles t = {.dp = padded(a->size), .m = 128, .n = 64, .stages = 1, .blocks = 2, .threads = 128};
  if (room < 110000 && t.dp > 64)
    t.m = 64, t.blocks = t.dp <= 128 ? 2 : 1;
  else if (room >= 110000 && t.dp > 128)
    t.threads = 256, t.blocks = 1;
  else if (room >= 110000 && t.dp <= 64)
    t.n = 128;
  int64_t row = (int64_t)t.dp * 2;
  t.n = key_rows(a, "attention_sm80", t.n, t.m * row, 2 * t.stages * row, t.blocks);
  t.shared = (t.m + 2 * t.stages * t.n) * row;
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
                  .grid = persistent(a, &t, a->heads, a->t, t.m),
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
  int64_t rest = t.q_stages * groups * 8192 * panels + round_up(bars * 8, 16) + 144;
  int64_t row = 2 * t.stages * 128 * panels;
  t.threads = (int)(128 * (groups + 1));
  t.n = key_rows(a, "attention_sm90", t.n, rest, row, t.blocks);
  t.shared = rest + row * t.n;
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
                  .grid = persistent(a, &t, a->heads, a->t, t.m),
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

/* How a backward kernel sums dq, as attention_prepare.cu must know it. */
typedef struct sums {
  int tile, key_tile; /* rows of a tile of queries, of keys */
  int64_t dp;         /* columns of dq_acc */
  bool fast;          /* in any order, by atomic additions: dq_acc begins as zeros */
  bool bulk;          /* dq_acc lies [HEADS, T, dp], else [T, HEADS, dp] */
  bool finishes;      /* the backward kernel writes dq itself */
} sums;

/* coef for each row of each padded tile of queries: ceil(T / tile) + B1 of them. */
static gs_count padded_tiles(const att *a, int tile, int64_t coef) {
  return (gs_count){.coef = coef,
                    .div = 1,
                    .each = tile,
                    .dims = (gs_dims)1 << a->t,
                    .plus = coef,
                    .plus_dims = (gs_dims)1 << a->b};
}

/* each: how many heads a block takes one after the other, for one search of the document. */
static att_kernel prepare_piece(att *a, const char *piece, const sums *q, int each) {
  att_begin(a);
  att_kernel x = {.file = "attention_prepare",
                  .piece = piece,
                  .threads = 256,
                  .prelude = GS_PRELUDE_TILES,
                  .grid = padded_tiles(a, q->tile, a->heads / each)};
  int lanes = a->size <= 64 ? 8 : a->size <= 128 ? 16 : 32;
  x.tunables = fmt(&a->k, "threads=256 tile=%d lanes=%d", q->tile, lanes);
  att_int(a, &x, "TILE_Q", q->tile);
  att_int(a, &x, "TILE_N", q->key_tile);
  att_int(a, &x, "LANES", lanes);
  att_int(a, &x, "TURNS", 1);
  att_int(a, &x, "EACH", each);
  att_int(a, &x, "DP", q->dp);
  att_int(a, &x, "TURNED", q->bulk);
  att_piece(a, &x, "DQ_ROW", q->bulk ? "rows_heads" : "rows_tokens");
  return x;
}

/* Lse and delta by padded tiles, and turns (or dq_acc) that nobody has had. */
static void prepare(att *a, const sums *q) {
  bool dq = att_wants(a, "dq");
  att_temp(a, "stats", GS_F32, padded_tiles(a, q->tile, 2 * a->heads * q->tile));
  if (dq) att_temp(a, "dq_acc", GS_F32, att_count(a->heads * q->dp, a->t));
  if (dq && !q->fast) att_temp(a, "turn", GS_I32, padded_tiles(a, q->tile, a->heads));
  att_kernel x = prepare_piece(a, "prepare", q, a->heads % 4 == 0 ? 4 : 1);
  x.writes = "stats,turn,dq_acc";
  att_piece(a, &x, "CLEAR", !dq ? NULL : q->fast ? "clear_dq" : "clear_turns");
  bool unseen = dq && q->finishes;
  att_piece(a, &x, "CLEAR_UNSEEN", unseen ? "clear_unseen" : NULL);
  att_write(a, &x);
}

/* dq from its sums, and the gradient of the sink's logit. */
static void finish(att *a, const sums *q) {
  if (att_wants(a, "dq") && !q->finishes) {
    att_kernel x = prepare_piece(a, "finish", q, 1);
    att_piece(a, &x, "ADDED", q->fast ? "added_always" : "added_turns");
    att_write(a, &x);
  }
  if (!a->dsink) return;
  att_kernel x = prepare_piece(a, "sink", q, 1);
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
              {256, 0, 32, 32, {2, 2, 2, 2}, 1},  {256, 1, 64, 64, {4, 2, 2, 4}, 1}};
  tiles t = {.dp = padded(a->size), .blocks = 1};
  int large = room_of(a) >= 110000;
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

static void main_sm80(att *a, const tiles *t, const sums *q) {
  att_begin(a);
  att_kernel x = {.file = "attention_sm80_backward",
                  .piece = "main",
                  .threads = t->threads,
                  .shared = t->shared,
                  .prelude = GS_PRELUDE_TILES,
                  .grid = persistent(a, t, a->kheads, a->s, t->n),
                  .tunables = name_text(a, t),
                  .updates = "take,dq_acc,turn"};
  att_int(a, &x, "DP", t->dp);
  att_int(a, &x, "DQ", q->dp);
  att_int(a, &x, "BLOCKS", t->blocks);
  att_int(a, &x, "FAST_DQ", q->fast);
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

/* Leaves are loads by kind, too, but their values are at hand. */
static bool reads_memory(const att *a, int v) {
  const val *x = &a->e->vals[v];
  for (int l = 0; l < LEAVES; l++)
    if (a->leaf[l] == v) return false;
  bool reads = x->kind == VAL_LOAD;
  for (int i = 0; i < x->nargs; i++) reads |= reads_memory(a, x->arg[i]);
  return reads;
}

/* Whether a query sees from the document's first key to one that is known without memory: else
 * registers go to it. */
static bool has_simple_keys(const att *a) {
  return a->e->vals[a->first].kind == VAL_CONST && !reads_memory(a, a->last);
}

static tiles hopper_backward_sizes(const att *a) {
  static const int64_t clusters[] = {1, 2};
  tiles t = {.dp = (int)round_up(a->size, 16), .m = 64, .n = 128, .blocks = 1, .threads = 384};
  t.stages = 2;
  t.q_stages = a->size <= 128 ? 3 : 2;
  if (a->size <= 64 && a->is_plain && has_simple_keys(a) && !is_fast(a)) t.m = 128;
  if (a->size > 128 || (a->size > 64 && !a->is_plain)) t.n = 64;
  /* Few items: S 4096 of 4 heads are one a processor. */
  int by_default = a->kheads <= 4 && a->size > 64 && a->size <= 128 ? 2 : 1;
  t.cluster = (int)tunable(a->e, "attention_sm90_backward", "cluster", by_default, clusters, 2);
  return t;
}

/* Where things lie in shared memory, in bytes; elements of tiles have two. */
static void place_hopper(att *a, att_kernel *x, const tiles *t, int panels, const sums *q) {
  int rings = t->q_stages + t->stages, nbars = 22 + 2 * rings;
  int64_t count = (int64_t)(2 * t->n + rings * t->m) * panels * 64 + (int64_t)2 * t->m * t->n;
  int64_t parts = q->bulk ? t->m * q->dp : 4; /* of dq: f32 */
  int64_t near = 2 * count + (q->bulk ? 4 * parts : 128);
  int64_t slots = near + (int64_t)4 * t->m * rings, bars = slots + 192;
  att_int(a, x, "TILE_COUNT", count);
  att_int(a, x, "SUMS", parts);
  att_int(a, x, "AT_SUMS", 2 * count);
  att_int(a, x, "AT_NEAR", near);
  att_int(a, x, "AT_SLOTS", slots);
  att_int(a, x, "AT_BARS", bars);
  att_int(a, x, "BARS", nbars);
  x->shared = bars + 8 * nbars;
}

/* Two blocks that have an item together, or one. */
static void cluster_holes(att *a, att_kernel *x, int cluster) {
  bool pair = cluster > 1, small = a->size <= 64 && a->is_plain;
  att_int(a, x, "CLUSTER", cluster);
  att_hole(x, "OPEN", pair ? "GS_KERNEL_CLUSTER" : "GS_KERNEL");
  att_hole(x, "OPEN_MORE", pair ? "1, 2" : "0");
  att_int(a, x, "WAVE", pair ? 1 : small ? 8 : 32);
  att_int(a, x, "AHEAD", pair ? 0 : 3); /* steps before an item's end when the next one is taken */
  att_hole(x, "RANK", pair ? "GS_CLUSTER_RANK" : "0");
  att_piece(a, x, "GOT", pair ? "got_cluster" : "got_alone");
  att_piece(a, x, "CLUSTER_SYNC", pair ? "cluster_sync" : NULL);
  att_piece(a, x, "CLUSTER_ARRAYS", pair ? "cluster_arrays" : NULL);
  att_piece(a, x, "LOADER_END", pair ? "loader_end" : NULL);
  att_piece(a, x, "MENDER_SYNC", pair ? "mender_sync" : NULL);
  att_piece(a, x, "NUMBER", pair ? "number" : NULL);
  att_piece(a, x, "CLOSE", pair ? "close_cluster" : "close_alone");
}

/* How the parts of dq come together: from shared memory (bulk) or registers, in turns or not. */
static void dq_holes(att *a, att_kernel *x, const sums *q) {
  att_int(a, x, "BULK", q->bulk);
  att_int(a, x, "FAST_DQ", q->fast);
  att_int(a, x, "HELPERS", 8 + !q->fast + (q->bulk || !q->fast));
  att_hole(x, "TURNED_ROW", q->bulk ? "at" : "0");
  att_piece(a, x, "DQ_ROW", q->bulk ? "dq_row_bulk" : "dq_row_registers");
  att_piece(a, x, "TURN_WAITER", q->fast ? NULL : "turn_waiter");
  att_piece(a, x, "OPENS", !q->fast ? "opens" : NULL);
  att_piece(a, x, "PUT_DQ", q->fast ? "put_dq_fast" : "put_dq_turns");
  att_piece(a, x, "ADD_SUMS", q->fast ? "add_sums_fast" : "add_sums_turns");
  att_piece(a, x, "ADDER", q->bulk ? "adder_bulk" : "adder_turns");
  att_piece(a, x, "LEAVE_DQ", q->fast ? "leave_dq_fast" : "leave_dq_turns");
  att_piece(a, x, "ADD_DQ", q->bulk ? "add_dq_bulk" : "add_dq_registers");
  att_piece(a, x, "WAIT_BEFORE", q->bulk ? "wait_before_bulk" : "wait_before_registers");
  att_hole(x, "BEFORE", q->bulk ? "sums" : "dq_acc");
  att_piece(a, x, "DQ_FREE_WAIT", q->bulk ? "dq_free_wait" : NULL);
  att_piece(a, x, "DQ_LEFT", q->bulk ? "dq_left_bulk" : q->fast ? NULL : "dq_left_turns");
}

/* Sizes of tiles and products. Long heads, or a score of the author's, halve what a warpgroup has.
 */
static void tile_holes(att *a, att_kernel *x, const tiles *t, const sums *q) {
  bool wide = a->size > 128, narrow = a->size <= 64, halved = wide || t->n == 64;
  int panels = narrow ? 1 : wide ? 4 : 2;
  att_int(a, x, "TILE_Q", t->m);
  att_int(a, x, "TILE_N", t->n);
  att_int(a, x, "PANELS", panels);
  att_int(a, x, "SPLIT_D", halved);
  att_int(a, x, "NDV", wide ? 128 : halved ? 64 : t->dp);
  att_int(a, x, "NDQ", wide ? 128 : 64);
  att_int(a, x, "KD", t->dp);
  att_int(a, x, "DP", q->dp);
  att_int(a, x, "STAGES_Q", t->q_stages);
  att_int(a, x, "STAGES_DY", t->stages);
  att_int(a, x, "FEW", 24);
  att_int(a, x, "MANY", 240);
  att_hole(x, "NOTHING", a->is_plain ? "0.0f" : "-GS_INF");
  place_hopper(a, x, t, panels, q);
  att_piece(a, x, "WEIGHTS", a->is_plain ? "weights_plain" : "weights_score");
  att_piece(a, x, "SLOPES", a->is_plain ? "slopes_plain" : "slopes_score");
  const char *dk = narrow || wide ? "product_dk_shared" : "product_dk_registers";
  att_piece(a, x, "PRODUCT_DK", dk);
}

static void main_sm90(att *a, const tiles *t, const sums *q) {
  gs_box queries = {.rows = t->m, .heads = 1, .columns = 64, .swizzle = 128}, keys = queries;
  keys.rows = t->n;
  att_begin(a);
  att_kernel x = {.file = "attention_sm90_backward",
                  .piece = "main",
                  .threads = t->threads,
                  .prelude = GS_PRELUDE_HOPPER,
                  .grid = persistent(a, t, a->kheads, a->s, t->n),
                  .updates = "take,dq_acc,turn"};
  x.tunables =
      fmt(&a->k, "tile_q=%d tile_n=%d threads=%d cluster=%d", t->m, t->n, t->threads, t->cluster);
  att_map(&x, "q", queries);
  att_map(&x, "dy", queries);
  att_map(&x, "k", keys);
  att_map(&x, "v", keys);
  tile_holes(a, &x, t, q);
  cluster_holes(a, &x, t->cluster);
  dq_holes(a, &x, q);
  att_write(a, &x);
}

/* That of sm_90a makes all three gradients; where one is not wanted, or with a score of the
 * author's over long heads, that of sm_80 does it. */
static void backward(att *a) {
  bool dq = att_wants(a, "dq"), dk = att_wants(a, "dk"), dv = att_wants(a, "dv");
  bool wants_main = dq || dk || dv, hopper = is_hopper(a) && dq && dk && dv;
  hopper &= a->is_plain || a->size <= 128;
  tiles t = hopper ? hopper_backward_sizes(a) : backward_sizes(a);
  sums q = {.tile = t.m, .key_tile = t.n, .fast = is_fast(a)};
  q.bulk = hopper && a->size <= 128;
  q.finishes = hopper && !q.fast;
  q.dp = round_up(a->size, q.bulk ? 32 : 16);
  if (wants_main) att_plan(a, true, t.n, t.m);
  prepare(a, &q);
  if (wants_main && hopper) main_sm90(a, &t, &q);
  if (wants_main && !hopper) main_sm80(a, &t, &q);
  finish(a, &q);
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
