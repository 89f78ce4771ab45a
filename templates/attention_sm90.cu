// attention_sm90.cu: attention on sm_90a. A tile of queries stays, tiles of keys and values stream
// past; one warpgroup moves (a warp takes items, a warp loads), the others multiply (64 queries).
//
//   q y [T, K, G, D]   k v [S, K, D]   lse [T, K, G]   cu_q cu_k [B1]
//   q_tiles: count, then pairs (document, tile of queries); -1: rows that no document has
//
// An item is a tile of TILE_M queries of a head. Its tiles of keys come from the last to the first.
// While a warpgroup computes a tile's exponentials, the tensor cores have its product with v of the
// tile before and (PINGPONG) the other warpgroups' products. Where shared memory holds the queries
// of two items (Q_STAGES), an item's first product goes on beside the end of the item before.
// The maximum is followed in steps (a row's exponentials are up to 2^8): whether a row is rescaled
// hangs on that row alone; a warp leaves the multiplication out where none of its rows is, which
// changes no bit.

//@ forward
@{BANNER}
GS_KERNEL_MANY(@{ENTRY}, @{THREADS}, @{BLOCKS}, 0,
               @{PARAMS}) {
  constexpr int WG = @{TILE_M} / 64, PANELS = (@{DP} + 63) / 64, SLOTS = 3;
  constexpr int Q_SIZE = 64 * PANELS * 64, KV_SIZE = @{TILE_N} * PANELS * 64; // elements
  constexpr int K_AT = @{Q_STAGES} * WG * Q_SIZE * 2, V_AT = K_AT + @{STAGES} * KV_SIZE * 2;
  constexpr int BARS_AT = V_AT + @{STAGES} * KV_SIZE * 2;
  // An item's words. KIND: its document, -1 for rows of none, -2 after the last item.
  constexpr int KIND = 0, HEAD = 1, ROW = 2, ROWS = 3, QI = 4, KEY = 5, N_Q = 6, N_K = 7, LOW = 8;
  constexpr int TILES = 9, FREE_LOW = 10, FREE_HIGH = 11, WORDS = 12;
  // What is there, and what may be written anew.
  constexpr int ITEM_FULL = 0, ITEM_EMPTY = SLOTS, Q_FULL = 2 * SLOTS;
  constexpr int Q_EMPTY = Q_FULL + @{Q_STAGES}, K_FULL = Q_EMPTY + @{Q_STAGES};
  constexpr int K_EMPTY = K_FULL + @{STAGES};
  constexpr int V_FULL = K_EMPTY + @{STAGES}, V_EMPTY = V_FULL + @{STAGES};
  constexpr int V_LANDED = V_EMPTY + @{STAGES}, BARS = V_LANDED + 1;
  GS_DYNAMIC(@{TYPE}, q_tile, 0, @{Q_STAGES} * WG * Q_SIZE);
  GS_DYNAMIC(@{TYPE}, k_tile, K_AT, @{STAGES} * KV_SIZE);
  GS_DYNAMIC(@{TYPE}, v_tile, V_AT, @{STAGES} * KV_SIZE);
  GS_DYNAMIC(gs_mbar, bars, BARS_AT, BARS);
  GS_DYNAMIC(int, item, BARS_AT + (BARS * 8 + 15) / 16 * 16, SLOTS * WORDS);
  const int wg = GS_WARP / 4 - 1; // -1: moves
  if (GS_TID == 0) { // full: one thread arrives; empty: each warp that reads
    for (int i = 0; i < BARS; i++) gs_mbar_init(bars, i, @{ARRIVALS});
    gs_mbar_ready();
  }
  GS_SYNC();
  if (wg < 0) {
    GS_REGISTERS_DOWN(@{REGISTERS_DOWN});
    if (GS_WARP == 0) {
      @{LOAD}
    } else if (GS_TID == 32) {
      @{TAKE}
    }
  } else {
    GS_REGISTERS_UP(@{REGISTERS_UP});
    @{MULTIPLY}
  }
}
//@ arrivals
i < ITEM_EMPTY ? 1 : i < Q_FULL ? 4 * WG + 1 : i < Q_EMPTY ? 1 : i < K_FULL ? 4 * WG
 : i < K_EMPTY ? 1 : i < V_FULL ? 4 * WG : i < V_EMPTY ? 1 : i < V_LANDED ? 4 * WG : 1
//@ take
// Items, one ahead of the one being loaded: what everybody must know of item n, in slot n % SLOTS.
bool more = true;
for (int n = 0; more; n++) {
  const int items = q_tiles[0] * @{HEADS}, number = gs_take(take, items, (int)GS_NBLOCKS);
  more = number < items;
  const int entry = more ? number / @{HEADS} : 0;
  const int doc = more ? q_tiles[1 + 2 * entry] : -2;
  const int m0 = more ? q_tiles[2 + 2 * entry] * @{TILE_M} : 0;
  const int at = doc >= 0 ? doc : (int)B1 - 1, to = doc >= 0 ? doc + 1 : (int)B1 - 1;
  const int q0 = cu_q[at], k0 = cu_k[at], n_k = cu_k[to] - k0;
  const int n_q = doc >= 0 ? cu_q[to] - q0 : (int)T - q0;
  const int rows = n_q - m0 < @{TILE_M} ? n_q - m0 : @{TILE_M};
  int low = 0, high = -1, free_low = 0, free_high = -1;
  if (doc >= 0) { // some query sees the keys first of the first query ... last of the last
    const int qi = m0 + n_k - n_q;
    @{KEYS}
    low = first;
    free_high = last;
  }
  if (doc >= 0) {
    const int qi = m0 + rows - 1 + n_k - n_q;
    @{KEYS}
    high = last;
    free_low = first;
  }
  const bool none = high < low; // then one tile, of which no key is seen
  const int own = n % SLOTS * WORDS;
  gs_mbar_wait(bars, ITEM_EMPTY + n % SLOTS, (n / SLOTS & 1) ^ 1);
  item[own + KIND] = doc;
  item[own + HEAD] = number % @{HEADS};
  item[own + ROW] = q0 + m0;
  item[own + ROWS] = rows;
  item[own + QI] = m0 + n_k - n_q;
  item[own + KEY] = k0;
  item[own + N_Q] = n_q;
  item[own + N_K] = n_k;
  item[own + LOW] = none ? 0 : low / @{TILE_N};
  item[own + TILES] = none ? 1 : high / @{TILE_N} - low / @{TILE_N} + 1;
  item[own + FREE_LOW] = none ? @{TILE_N} : free_low;
  item[own + FREE_HIGH] = none ? -1 : free_high;
  gs_mbar_arrive(bars, ITEM_FULL + n % SLOTS);
}
//@ load
// The order is that of use: k of tile i, then v of the tile before it; c tiles came before.
if (GS_LANE == 0) {
  gs_map_ahead(q_map);
  gs_map_ahead(k_map);
  gs_map_ahead(v_map);
}
int c = 0, landed = 0;
for (int n = 0;; n++) {
  const int own = n % SLOTS * WORDS;
  gs_mbar_wait(bars, ITEM_FULL + n % SLOTS, n / SLOTS & 1);
  if (item[own + KIND] == -2) break;
  const int tiles = item[own + TILES], kv = item[own + HEAD] / @{G};
  int key = item[own + KEY] + (item[own + LOW] + tiles) * @{TILE_N};
  for (int i = 0; i <= tiles; i++) {
    key -= @{TILE_N}; // the first of tile i
    if (i < tiles) {
      const int stage = (c + i) % @{STAGES};
      gs_mbar_wait(bars, K_EMPTY + stage, ((c + i) / @{STAGES} & 1) ^ 1);
      if (GS_LANE == 0) {
        gs_mbar_expect(bars, K_FULL + stage, KV_SIZE * 2);
        for (int p = 0; p < PANELS; p++)
          gs_tma_load(k_tile, stage * KV_SIZE + p * @{TILE_N} * 64, k_map, bars, K_FULL + stage,
                      p * 64, kv, key);
      }
    }
    if (i == 0) {
      @{LOAD_Q}
    } else {
      @{LOAD_V}
    }
  }
  c += tiles;
  gs_mbar_arrive_warp(bars, ITEM_EMPTY + n % SLOTS);
}
//@ load_q
const int stage = n % @{Q_STAGES};
gs_mbar_wait(bars, Q_EMPTY + stage, (n / @{Q_STAGES} & 1) ^ 1);
if (GS_LANE == 0) {
  gs_mbar_expect(bars, Q_FULL + stage, WG * Q_SIZE * 2);
  for (int w = 0; w < WG; w++) {
    for (int p = 0; p < PANELS; p++)
      gs_tma_load(q_tile, (stage * WG + w) * Q_SIZE + p * 64 * 64, q_map, bars, Q_FULL + stage,
                  p * 64, item[own + HEAD], item[own + ROW] + w * 64);
  }
}
//@ load_v
// Rows beyond the document's end become 0, since what lies there is another's.
const int stage = (c + i - 1) % @{STAGES};
const int there = item[own + KEY] + item[own + N_K] - key - @{TILE_N};
const int full = there < @{TILE_N} ? V_LANDED : V_FULL + stage;
gs_mbar_wait(bars, V_EMPTY + stage, ((c + i - 1) / @{STAGES} & 1) ^ 1);
if (GS_LANE == 0) {
  gs_mbar_expect(bars, full, KV_SIZE * 2);
  for (int p = 0; p < PANELS; p++)
    gs_tma_load(v_tile, stage * KV_SIZE + p * @{TILE_N} * 64, v_map, bars, full, p * 64, kv,
                key + @{TILE_N});
}
if (there < @{TILE_N}) {
  gs_mbar_wait(bars, V_LANDED, landed);
  landed ^= 1;
  gs_tile_zero<PANELS>(v_tile, stage * KV_SIZE, @{TILE_N}, there > 0 ? there : 0);
  gs_mbar_arrive_warp(bars, V_FULL + stage);
}
//@ multiply
constexpr f32 LOG2E = 1.44269504f;
const f32 unit = @{PLAIN} ? scale : 1.0f, c = unit * LOG2E, slack = 8.0f / c;
f32 out[@{DP} / 2], x[@{TILE_N} / 2];
int n = 0, i = 0; // the item, the tile: of all
gs_mbar_wait(bars, ITEM_FULL, 0);
bool more = item[0] != -2;
if (@{PINGPONG} && wg == WG - 1) gs_bar_arrive(1, 256);
if (more) {
  @{BEGIN}
  gs_wg_wait<0>(x);
}
while (more) { // x: the first tile's dot products
  const int own = n % SLOTS * WORDS, q_stage = n % @{Q_STAGES};
  const int head = item[own + HEAD], doc = item[own] < 0 ? 0 : item[own], kv = head / @{G};
  gs_mbar_arrive_warp(bars, K_EMPTY + i % @{STAGES});
  @{HEAD_VALUES}
  f32 m[2] = {-GS_INF, -GS_INF}, total[2] = {0.0f, 0.0f};
  GS_UNROLL
  for (int e = 0; e < @{DP} / 2; e++) out[e] = 0.0f;
  gs_wg_left<@{TYPE}, @{TILE_N}> p;
  int j = item[own + LOW] + item[own + TILES] - 1;
  {
    const int free_low = item[own + FREE_LOW], free_high = item[own + FREE_HIGH];
    @{SOFTEN}
  }
  gs_mbar_wait(bars, V_FULL + i % @{STAGES}, i / @{STAGES} & 1);
  gs_wg_round(p, x);
  for (j--; j >= item[own + LOW]; j--) {
    @{STEP}
  }
  gs_mbar_arrive_warp(bars, Q_EMPTY + q_stage);
  n++;
  gs_mbar_wait(bars, ITEM_FULL + n % SLOTS, n / SLOTS & 1);
  more = item[n % SLOTS * WORDS] != -2;
  const int stage = i % @{STAGES};
  i++;
  gs_wg_open();
  gs_wg_product<@{DP}, @{TILE_N}, @{TILE_N}, 1>(out, p, v_tile, stage * KV_SIZE, 0, 1);
  gs_wg_close();
  if (@{Q_STAGES} > 1) { // the next item's first product goes on beside this one's end
    @{BEGIN}
  }
  gs_wg_wait<@{Q_STAGES} - 1>(out);
  gs_mbar_arrive_warp(bars, V_EMPTY + stage);
  @{FINISH}
  gs_mbar_arrive_warp(bars, ITEM_EMPTY + (n - 1) % SLOTS);
  if (@{Q_STAGES} == 1) {
    @{BEGIN}
  }
  gs_wg_wait<0>(x);
}
//@ begin
// After the last item it is done once more with what is there, and not used: a branch around
// a product would keep it from running beside other code.
if (more) {
  gs_mbar_wait(bars, Q_FULL + n % @{Q_STAGES}, n / @{Q_STAGES} & 1);
  gs_mbar_wait(bars, K_FULL + i % @{STAGES}, i / @{STAGES} & 1);
}
const int q_next = (more ? n : n - 1) % @{Q_STAGES}, k_next = (more ? i : i - 1) % @{STAGES};
gs_wg_open();
gs_wg_product<@{TILE_N}, @{DP}, 64, 0, @{TILE_N}, 0>(x, q_tile, (q_next * WG + wg) * Q_SIZE, 0,
                                                     k_tile, k_next * KV_SIZE, 0, 0);
gs_wg_close();
//@ step
const int free_low = item[own + FREE_LOW], free_high = item[own + FREE_HIGH];
const int v_stage = i % @{STAGES};
i++;
const int stage = i % @{STAGES}, phase = i / @{STAGES} & 1;
gs_mbar_wait(bars, K_FULL + stage, phase);
if (@{PINGPONG}) gs_bar_sync(1 + wg, 256);
gs_wg_open();
gs_wg_product<@{TILE_N}, @{DP}, 64, 0, @{TILE_N}, 0>(x, q_tile, (q_stage * WG + wg) * Q_SIZE, 0,
                                                     k_tile, stage * KV_SIZE, 0, 0);
gs_wg_close();
gs_wg_product<@{DP}, @{TILE_N}, @{TILE_N}, 1>(out, p, v_tile, v_stage * KV_SIZE, 0, 1);
gs_wg_close();
if (@{PINGPONG}) gs_bar_arrive(1 + (wg + 1) % WG, 256);
gs_wg_wait<1>(x);
gs_mbar_arrive_warp(bars, K_EMPTY + stage);
@{SOFTEN}
// No sum is negative, but ptxas can't know: else it would put the exponentials after the waits.
gs_mbar_wait(bars, V_FULL + stage, phase ^ (int)(total[0] + total[1] < 0.0f));
gs_wg_wait<0>(out);
gs_mbar_arrive_warp(bars, V_EMPTY + v_stage);
gs_wg_round(p, x);
if (grows) {
  GS_UNROLL
  for (int e = 0; e < @{DP} / 2; e++) out[e] *= shrink[e >> 1 & 1];
}
//@ soften
// x becomes the exponentials over the maximum that m follows.
const int k0 = j * @{TILE_N};
@{SCORES}
if (k0 < free_low) {
  @{MASK_LOW}
}
if (k0 + @{TILE_N} - 1 > free_high) {
  @{MASK_HIGH}
}
f32 most[2], base[2], shrink[2];
GS_UNROLL
for (int r = 0; r < 2; r++) {
  f32 a = x[2 * r], b = x[2 * r + 1];
  GS_UNROLL
  for (int e = 2 * r + 4; e < @{TILE_N} / 2; e += 4) {
    a = gs_max(a, x[e]);
    b = gs_max(b, x[e + 1]);
  }
  most[r] = gs_max(a, b);
}
GS_ROWS_MAX(most);
const bool grows = GS_WARP_ANY(most[0] > m[0] + slack || most[1] > m[1] + slack);
GS_UNROLL
for (int r = 0; r < 2; r++) {
  const f32 old = m[r];
  m[r] = most[r] > old + slack ? most[r] : old;
  shrink[r] = m[r] > old ? gs_exp2((old - m[r]) * c) : 1.0f;
  base[r] = m[r] == -GS_INF ? 0.0f : -m[r] * c;
}
GS_UNROLL
for (int r = 0; r < 2; r++) {
  f32 a = 0.0f, b = 0.0f;
  GS_UNROLL
  for (int e = 2 * r; e < @{TILE_N} / 2; e += 4) {
    x[e] = gs_exp2(gs_fma(x[e], c, base[r]));
    x[e + 1] = gs_exp2(gs_fma(x[e + 1], c, base[r]));
    a += x[e];
    b += x[e + 1];
  }
  total[r] = gs_fma(total[r], shrink[r], a + b);
}
//@ scores
// From the dot products to the author's scores.
const int qi0 = item[own + QI];
GS_UNROLL
for (int e = 0; e < @{TILE_N} / 2; e++) {
  const int qi = qi0 + wg * 64 + gs_wg_row(e), ki = k0 + gs_wg_column(e);
  const f32 s = scale * x[e];
  @{SCORE}
  x[e] = z;
}
//@ finish
// A row that sees no key has total 0; rows that no document has get zeros.
const int row = item[own + ROW], rows = item[own + ROWS];
f32 factor[2];
GS_ROWS_SUM(total);
GS_UNROLL
for (int r = 0; r < 2; r++) {
  const f32 sum = total[r];
  f32 top = m[r] * unit, all = sum, part = 1.0f;
  @{SINK_JOINS}
  factor[r] = all > 0.0f ? gs_div(part, all) : all == all ? 0.0f : all;
#if @{SAVE_LSE}
  const int t = wg * 64 + gs_wg_row(2 * r);
  if (t < rows && (GS_LANE & 3) == 0)
    gs_put(lse, (row + t) * lse_ld + head,
           item[own] < 0 ? 0.0f : all > 0.0f ? top + gs_log(all) : all == all ? -GS_INF : all);
#endif
}
GS_UNROLL
for (int e = 0; e < @{DP} / 2; e++) out[e] *= factor[e >> 1 & 1];
gs_wg_store<@{DP}>(y, (row + wg * 64) * y_ld + head * @{D}, y_ld, rows - wg * 64, @{D}, out);
//@ sink_joins
top = gs_max(top, sink);
part = gs_exp2((m[r] * unit - top) * LOG2E);
all = gs_fma(sum, part, gs_exp2((sink - top) * LOG2E));
//@ mask_low
int from[2];
GS_UNROLL
for (int r = 0; r < 2; r++) {
  const int qi = item[own + QI] + wg * 64 + gs_wg_row(2 * r), n_q = item[own + N_Q];
  const int n_k = item[own + N_K];
  @{KEYS}
  from[r] = first - k0 - gs_wg_column(0);
}
GS_UNROLL
for (int e = 0; e < @{TILE_N} / 2; e++)
  x[e] = (e >> 2) * 8 + (e & 1) >= from[e >> 1 & 1] ? x[e] : -GS_INF;
//@ mask_high
int upto[2];
GS_UNROLL
for (int r = 0; r < 2; r++) {
  const int qi = item[own + QI] + wg * 64 + gs_wg_row(2 * r), n_q = item[own + N_Q];
  const int n_k = item[own + N_K];
  @{KEYS}
  upto[r] = last - k0 - gs_wg_column(0);
}
GS_UNROLL
for (int e = 0; e < @{TILE_N} / 2; e++)
  x[e] = (e >> 2) * 8 + (e & 1) <= upto[e >> 1 & 1] ? x[e] : -GS_INF;
