// attention_prepare.cu: what stands before and after a backward main kernel of attention.
//
// Query tiles of TILE_Q rows have padded numbers: tile m of document b is (cu_q[b] + b * TILE_Q) /
// TILE_Q + m, so that documents of any length begin at aligned places; what lies past the last
// document counts as one more. QT = ceil(T / TILE_Q) + B1 tiles in all.
//   stats [2, HEADS, QT * TILE_Q] f32: lse * log2(e), and delta = sum over D of dy * y. +inf and 0
//     for rows that are none and for those that see no key: exp2(x - inf) is 0.
//   turn [HEADS, QT, TURNS] i32: how many have added to dq of that tile and head
//   dq_acc f32: a row's places in each 16 columns are in the order in which accumulators have them:
//     column {2 l, 2 l + 1, 8 + 2 l, 9 + 2 l}[i] at 4 l + i. ROWS rows_tokens: [T, HEADS, DP];
//     rows_heads: [HEADS, T, DP], and in rows that are odd in their query tile (TURNED 1) each two
//     groups of 16 have changed places.

//@ tile_of
// Document b of this block's query tile; its rows from row0 on of which `rows` are there; EACH
// heads from head0 on.
constexpr int SETS = @{HEADS} / @{EACH};
const int head0 = (int)(GS_BID % SETS) * @{EACH};
const i64 tile = GS_BID / SETS, tiles = (T + @{TILE_Q} - 1) / @{TILE_Q} + B1;
i64 b = 0;
for (i64 left = B1; left > 1;) { // 32 documents at a time: the last that begins not after it
  const i64 by = (left + 31) / 32, at = b + GS_LANE * by;
  const bool before =
      GS_LANE * by < left && (gs_geti(cu_q, at < B1 ? at : 0) + at * @{TILE_Q}) / @{TILE_Q} <= tile;
  const i64 found = gs_integer32(GS_WARP_SUM(before ? 1.0f : 0.0f)) - 1;
  b += found * by;
  left = left - found * by < by ? left - found * by : by;
}
const i64 begin = gs_geti(cu_q, b), m = tile - (begin + b * @{TILE_Q}) / @{TILE_Q};
const i64 row0 = begin + m * @{TILE_Q};
const bool document = b < B1 - 1;
const i64 rest = (document ? gs_geti(cu_q, b + 1) : T) - row0;
const int rows = (int)gs_within<i64>(rest, 0, @{TILE_Q});

//@ prepare
@{BANNER}
GS_KERNEL(@{ENTRY}, 256, 0,
          @{PARAMS}) {
  @{TILE_OF}
  const int lane = GS_TID % @{LANES};
  constexpr int PASSES = (@{TILE_Q} * @{LANES} + 255) / 256;
  for (int head = head0; head < head0 + @{EACH}; head++) {
    const i64 place = (head * tiles + tile) * @{TILE_Q}, all = @{HEADS} * tiles * @{TILE_Q};
    gs_packed<8, @{TYPE}> y_v[PASSES] = {}, dy_v[PASSES] = {};
    f32 lse_v[PASSES] = {};
    @{FETCH}
    @{DELTA}
    @{CLEAR}
    @{CLEAR_UNSEEN}
  }
}

//@ delta
GS_UNROLL
for (int r = 0; r < PASSES; r++) {
  const int at = r * (256 / @{LANES}) + GS_TID / @{LANES};
  f32 a[8], c[8], sum = 0.0f;
  gs_unpack(a, y_v[r]);
  gs_unpack(c, dy_v[r]);
  GS_UNROLL
  for (int i = 0; i < 8; i++) sum = gs_fma(a[i], c[i], sum);
  sum = GS_GROUP_SUM(@{LANES}, lane * 8 < @{D} ? sum : 0.0f);
  const bool live = document && at < rows, sees = live && lse_v[r] > -GS_INF;
  if (lane == 0 && at < @{TILE_Q}) {
    gs_put(stats, place + at, sees ? lse_v[r] * 1.44269504f : GS_INF);
    gs_put(stats, all + place + at, sees ? sum : 0.0f);
  }
}

//@ fetch
// All at once, with no condition on a row of its own: those past the end take the last one's.
if (document && rows > 0) {
  GS_UNROLL
  for (int r = 0; r < PASSES; r++) {
    const int at = r * (256 / @{LANES}) + GS_TID / @{LANES};
    const i64 row = row0 + (at < rows ? at : rows - 1);
    const int column = head * @{D} + (lane * 8 < @{D} ? lane * 8 : 0);
    gs_fetch(y_v[r], y, row * y_ld + column);
    gs_fetch(dy_v[r], dy, row * dy_ld + column);
    lse_v[r] = gs_get(lse, row * lse_ld + head);
  }
}

//@ clear_turns
if (GS_TID < @{TURNS}) gs_puti(turn, (head * tiles + tile) * @{TURNS} + GS_TID, 0);

//@ clear_dq
if (document) {
  const f32 none[4] = {};
  for (int i = GS_TID; i < rows * (@{DP} / 4); i += 256) {
    const int at = i / (@{DP} / 4);
    gs_store<4>(dq_acc, @{DQ_ROW} * @{DP} + i % (@{DP} / 4) * 4, none);
  }
}

//@ rows_tokens
((row0 + at) * @{HEADS} + head)

//@ rows_heads
(head * T + row0 + at)

//@ clear_unseen
// No key tile sees these rows: nobody else writes their dq. (Others: by the main kernel.)
bool seen = false;
if (document) {
  const int doc = (int)b, n_q = (int)(gs_geti(cu_q, b + 1) - begin);
  const int n_k = (int)(gs_geti(cu_k, b + 1) - gs_geti(cu_k, b));
  const auto keys_of = [&](int qi, int &from, int &to) {
    @{KEYS}
    from = first, to = last;
  };
  int from, to, other;
  keys_of((int)m * @{TILE_Q} + n_k - n_q, from, other);
  keys_of((int)m * @{TILE_Q} + rows - 1 + n_k - n_q, other, to);
  seen = rows > 0 && to >= 0 && from < gs_within((to / @{TILE_N} + 1) * @{TILE_N}, 0, n_k);
}
const f32 none[8] = {};
for (int i = seen ? rows * (@{D} / 8) : GS_TID; i < rows * (@{D} / 8); i += 256)
  gs_store<8>(dq, (row0 + i / (@{D} / 8)) * dq_ld + head * @{D} + i % (@{D} / 8) * 8, none);

//@ finish
@{BANNER}
GS_KERNEL(@{ENTRY}, 256, 0,
          @{PARAMS}) {
  @{TILE_OF}
  const int head = head0;
  const bool any = document && @{ADDED};
  for (int i = GS_TID; i < rows * (@{DP} / 16); i += 256) {
    const int at = i / (@{DP} / 16), column = i % (@{DP} / 16) * 16;
    f32 all[16] = {};
    const int group = column / 16 ^ (at & @{TURNED});
    if (any) gs_load<16>(all, dq_acc, @{DQ_ROW} * @{DP} + group * 16);
    GS_UNROLL
    for (int c = 0; c < 16; c += 8) {
      f32 out[8];
      GS_UNROLL
      for (int j = 0; j < 8; j++) out[j] = scale * all[j / 2 * 4 + j % 2 + c / 4];
      if (column + c < @{D}) gs_store<8>(dq, (row0 + at) * dq_ld + head * @{D} + column + c, out);
    }
  }
}

//@ added_turns
gs_geti(turn, (head * tiles + tile) * @{TURNS}) != 0

//@ added_always
true

//@ sink
// dsink[head] = -sum over T of exp(sink - lse) * delta, in a fixed order.
@{BANNER}
GS_KERNEL(@{ENTRY}, 1024, 0,
          @{PARAMS}) {
  GS_SHARED(f32, meet, 32);
  const int head = (int)GS_BID, kv = head / @{G}, doc = 0;
  @{HEAD_VALUES}
  const i64 rows = ((T + @{TILE_Q} - 1) / @{TILE_Q} + B1) * @{TILE_Q};
  f32 sum = 0.0f;
  for (i64 i = GS_TID; i < rows; i += 1024) {
    const f32 l = gs_get(stats, head * rows + i);
    const f32 delta = gs_get(stats, (@{HEADS} + head) * rows + i);
    sum = sum - gs_exp2(gs_fma(sink, 1.44269504f, -l)) * delta;
  }
  sum = GS_BLOCK_SUM(sum, meet);
  if (GS_TID == 0) gs_put(@{DSINK}, (i64)kv * @{DSINK}_ld + head % @{G}, sum);
}
