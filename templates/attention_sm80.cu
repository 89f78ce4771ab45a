// attention_sm80.cu: attention's forward pass by mma.sync, ldmatrix and cp.async.
//
// Knows tiles, not formulas: which keys a query sees is an interval (KEYS), the score is SCORE's
// or, where PLAIN, scale * q.k. A block takes items (an entry of the plan's q_tiles and a head)
// until there are none. Each warp has WARP_M rows of the TILE_M queries; key tiles of TILE_N rows
// pass through two rings of STAGES places each, k and v half a step apart.
//   q y [T, K, G, D]   k v [S, K, D]   lse [T, K, G]
// A hole that is a piece's name is that piece, expanded with the same holes.

//@ forward
@{BANNER}
GS_KERNEL_MANY(@{ENTRY}, @{THREADS}, @{BLOCKS}, 0,
               @{PARAMS}) {
  GS_DYNAMIC(@{TYPE}, q_tile, 0, @{TILE_M} * @{DP});
  GS_DYNAMIC(@{TYPE}, k_ring, @{TILE_M} * @{DP} * 2, @{STAGES} * @{TILE_N} * @{DP});
  GS_DYNAMIC(@{TYPE}, v_ring, (@{TILE_M} + @{STAGES} * @{TILE_N}) * @{DP} * 2,
             @{STAGES} * @{TILE_N} * @{DP});
  GS_SHARED(i32, meet, 1);
  // What is known of the item rests in shared memory, so that it takes no registers meanwhile;
  // bases: where k and v begin; spans: the warps' key intervals.
  enum { AT_ROWS, AT_M0, AT_HEAD, AT_LISTED, AT_N_Q, AT_N_K, AT_TICKET, AT_END, AT_ITEMS, HELD };
  GS_SHARED(i32, held, HELD);
  GS_SHARED(i64, bases, 2);
  GS_SHARED(i32, spans, @{THREADS} / 8);
  @{TILE_LOADS}
  const int all = (int)gs_geti(q_tiles, 0) * @{HEADS};
  if (GS_TID == 0) held[AT_ITEMS] = all;
  for (int item = GS_TAKEN(GS_TICKET(take, all, (int)GS_NBLOCKS), meet); item < held[AT_ITEMS];
       item = GS_TAKEN((int)held[AT_TICKET], meet)) {
    int tile0 = 0;
    {
      const int ticket = GS_TICKET(take, (int)held[AT_ITEMS], (int)GS_NBLOCKS);
      const int entry = item / @{HEADS}, head = item % @{HEADS}, kv = head / @{G};
      @{FORWARD_BEGIN}
    }
    @{FORWARD_TILES}
    @{FORWARD_END}
  }
}
//@ tile_loads
// Each begins the copy of a tile of n keys (none from `end` on) and closes its group.
const auto load_k = [&](int tile, int end, i64 at, int n) {
  const int n0 = tile * @{TILE_N};
  if (tile < end)
    GS_TILE_COPY(@{TILE_N}, @{DP}, @{D}, @{THREADS}, k_ring,
                 tile % @{STAGES} * @{TILE_N} * @{DP}, k, at + n0 * k_ld, k_ld, n - n0);
  GS_COPY_CLOSE();
};
const auto load_v = [&](int tile, int end, i64 at, int n) {
  const int n0 = tile * @{TILE_N};
  if (tile < end)
    GS_TILE_COPY(@{TILE_N}, @{DP}, @{D}, @{THREADS}, v_ring,
                 tile % @{STAGES} * @{TILE_N} * @{DP}, v, at + n0 * v_ld, v_ld, n - n0);
  GS_COPY_CLOSE();
};
//@ forward_begin
const int listed = (int)gs_geti(q_tiles, 1 + 2 * entry), doc = listed < 0 ? 0 : listed;
const int m0 = (int)gs_geti(q_tiles, 2 + 2 * entry) * @{TILE_M};
const bool tail = listed < 0; // rows that belong to no document: no keys, and lse 0
const i64 q_row = gs_geti(cu_q, tail ? B1 - 1 : doc) + m0, k_row = gs_geti(cu_k, doc);
const int n_q = (int)((tail ? T : gs_geti(cu_q, doc + 1)) + m0 - q_row);
const int n_k = tail ? 0 : (int)(gs_geti(cu_k, doc + 1) - k_row);
const int rows = n_q - m0 < @{TILE_M} ? n_q - m0 : @{TILE_M}, qi0 = m0 + n_k - n_q;
const i64 k_at = k_row * k_ld + kv * @{D}, v_at = k_row * v_ld + kv * @{D};
// Keys from `from` to `to` are those that query qi sees.
const auto keys = [&](int qi, int &from, int &to) {
  @{KEYS}
  from = first;
  to = last;
};
int low = 0, high = -1, ends = -1, begins = 0;
if (!tail) {
  keys(qi0, low, ends);
  keys(qi0 + rows - 1, begins, high);
}
tile0 = low / @{TILE_N};
const int tile_end = high < low ? tile0 : high / @{TILE_N} + 1;
GS_TILE_COPY(@{TILE_M}, @{DP}, @{D}, @{THREADS}, q_tile, 0, q, q_row * q_ld + head * @{D}, q_ld,
             tail ? 0 : rows);
GS_UNROLL
for (int j = 0; j < @{STAGES}; j++) {
  load_k(tile0 + j, tile_end, k_at, n_k);
  if (j + 1 < @{STAGES}) load_v(tile0 + j, tile_end, v_at, n_k);
}
if (GS_TID == 0) {
  held[AT_ROWS] = rows;
  held[AT_M0] = m0;
  held[AT_HEAD] = head;
  held[AT_LISTED] = listed;
  held[AT_N_Q] = n_q;
  held[AT_N_K] = n_k;
  held[AT_TICKET] = ticket;
  held[AT_END] = tile_end;
  bases[0] = k_at;
  bases[1] = v_at;
}
// The same interval for the warp's own rows: what none of them sees is left out, what all see is
// not masked.
const int r0 = GS_WARP * @{WARP_M}, left = tail ? 0 : rows - r0;
if (GS_LANE == 0) {
  low = 0, high = -1, ends = -1, begins = 0;
  if (left > 0) {
    keys(qi0 + r0, low, ends);
    keys(qi0 + r0 + (left < @{WARP_M} ? left : @{WARP_M}) - 1, begins, high);
  }
  spans[4 * GS_WARP] = low;
  spans[4 * GS_WARP + 1] = high;
  spans[4 * GS_WARP + 2] = begins;
  spans[4 * GS_WARP + 3] = ends;
}
//@ forward_tiles
#if !@{PLAIN}
const int head = item % @{HEADS}, kv = head / @{G};
const int listed = (int)gs_geti(q_tiles, 1 + 2 * (item / @{HEADS})), doc = listed < 0 ? 0 : listed;
@{HEAD_VALUES}
#endif
@{SCALES}
const int r0 = GS_WARP * @{WARP_M};
f32 out[@{WARP_M} / 16][@{DP} / 8][4] = {};
f32 top[@{WARP_M} / 8], total[@{WARP_M} / 8];
GS_UNROLL
for (int j = 0; j < @{WARP_M} / 8; j++) {
  top[j] = -GS_INF;
  total[j] = 0.0f;
}
GS_SYNC();
for (int tile = tile0; tile < held[AT_END]; tile++) {
  const int n0 = tile * @{TILE_N}, place = tile % @{STAGES} * @{TILE_N} * @{DP};
  gs_frag<@{TYPE}> p[@{WARP_M} / 16][@{TILE_N} / 16];
  GS_COPY_WAIT(2 * @{STAGES} - 2);
  GS_SYNC();
  load_v(tile + @{STAGES} - 1, held[AT_END], bases[1], held[AT_N_K]);
  int span[4]; // first and last key of the warp's rows, and of those that all of them see
  gs_loadi<4>(span, spans, 4 * GS_WARP);
  const bool live = n0 <= span[1] && n0 + @{TILE_N} > span[0];
  if (live) {
    f32 w[@{WARP_M} / 16][@{TILE_N} / 8][4] = {};
    GS_MMA(@{DP}, w, gs_rows<@{DP}>(q_tile, 0, r0, 0), gs_rows<@{DP}>(k_ring, place, 0, 0));
    @{SCORES}
    if (span[2] > n0 || span[3] < n0 + @{TILE_N} - 1) {
      @{MASK}
    }
    @{SOFTMAX}
    gs_frags(p, w);
  }
  GS_COPY_WAIT(2 * @{STAGES} - 2);
  GS_SYNC();
  load_k(tile + @{STAGES}, held[AT_END], bases[0], held[AT_N_K]);
  if (live) GS_MMA(@{TILE_N}, out, p, gs_cols<@{DP}>(v_ring, place, 0, 0));
}
//@ scales
#if @{PLAIN}
// w holds q.k, with the sign of scale; its exponent is w * size * log2(e).
const bool turned = scale < 0.0f;
const f32 size = gs_max(gs_abs(scale), 1e-30f), unit = size * 1.44269504f;
#else
const f32 size = 1.0f, unit = 1.44269504f; // w holds z
#endif
//@ scores
#if @{PLAIN}
if (turned) {
  GS_UNROLL
  for (int m = 0; m < @{WARP_M} / 16; m++) GS_UNROLL for (int n = 0; n < @{TILE_N} / 8; n++)
    GS_UNROLL for (int e = 0; e < 4; e++) w[m][n][e] = -w[m][n][e];
}
#else
const int qi0 = held[AT_M0] + held[AT_N_K] - held[AT_N_Q] + r0;
GS_UNROLL
for (int m = 0; m < @{WARP_M} / 16; m++) GS_UNROLL for (int n = 0; n < @{TILE_N} / 8; n++)
  GS_UNROLL for (int e = 0; e < 4; e++) {
    const int qi = qi0 + 16 * m + gs_acc_row(GS_LANE, e);
    const int ki = n0 + 8 * n + gs_acc_col(GS_LANE, e);
    const f32 s = scale * w[m][n][e];
    @{SCORE}
    w[m][n][e] = z;
  }
#endif
//@ mask
const int n_q = held[AT_N_Q], n_k = held[AT_N_K], doc = held[AT_LISTED];
const int row = held[AT_M0] + n_k - n_q + r0;
GS_UNROLL
for (int m = 0; m < @{WARP_M} / 16; m++) GS_UNROLL for (int h = 0; h < 2; h++) {
  const int qi = row + 16 * m + gs_acc_row(GS_LANE, 2 * h);
  @{KEYS}
  const int from = first - n0 - gs_acc_col(GS_LANE, 0), to = last - n0 - gs_acc_col(GS_LANE, 0);
  GS_UNROLL
  for (int n = 0; n < @{TILE_N} / 8; n++) GS_UNROLL for (int e = 0; e < 2; e++)
    if (8 * n + e < from || 8 * n + e > to) w[m][n][2 * h + e] = -GS_INF;
}
//@ softmax
// Exponents are taken from `top`, a row's largest score at the time when it was set. It is set anew
// when a score passes it by more than a factor of 2^8 in some row of the warp: then what was summed
// shrinks. y and lse are the same for any top.
f32 most[@{WARP_M} / 8];
bool passed = false;
GS_UNROLL
for (int j = 0; j < @{WARP_M} / 8; j++) {
  const int m = j / 2, h = 2 * (j % 2);
  most[j] = gs_max(w[m][0][h], w[m][0][h + 1]);
  GS_UNROLL
  for (int n = 1; n < @{TILE_N} / 8; n++)
    most[j] = gs_max(most[j], gs_max(w[m][n][h], w[m][n][h + 1]));
}
GS_ROWS_MAX(most);
GS_UNROLL
for (int j = 0; j < @{WARP_M} / 8; j++) passed = passed || (most[j] - top[j]) * unit > 8.0f;
if (GS_WARP_ANY(passed)) {
  GS_UNROLL
  for (int j = 0; j < @{WARP_M} / 8; j++) {
    const f32 now = gs_max(top[j], most[j]);
    const f32 shrink = now == -GS_INF ? 1.0f : gs_exp2((top[j] - now) * unit);
    top[j] = now;
    total[j] *= shrink;
    GS_UNROLL
    for (int n = 0; n < @{DP} / 8; n++) GS_UNROLL for (int e = 0; e < 2; e++)
      out[j / 2][n][2 * (j % 2) + e] *= shrink;
  }
}
GS_UNROLL
for (int j = 0; j < @{WARP_M} / 8; j++) {
  const f32 back = top[j] == -GS_INF ? 0.0f : top[j] * unit;
  GS_UNROLL
  for (int n = 0; n < @{TILE_N} / 8; n++) GS_UNROLL for (int e = 0; e < 2; e++) {
    f32 &x = w[j / 2][n][2 * (j % 2) + e];
    x = gs_exp2(gs_fma(x, unit, -back));
    total[j] += x;
  }
}
//@ forward_end
GS_ROWS_SUM(total);
GS_COPY_WAIT(0);
GS_SYNC();
const int held_rows = held[AT_ROWS], held_head = held[AT_HEAD], held_doc = held[AT_LISTED];
const i64 y_row = gs_geti(cu_q, held_doc < 0 ? B1 - 1 : held_doc) + held[AT_M0];
{
  @{ROW_ENDS}
}
GS_TILE_PUT(@{DP}, q_tile, 0, r0, 0, out);
GS_SYNC();
GS_TILE_STORE(@{TILE_M}, @{DP}, @{D}, @{THREADS}, y, y_row * y_ld + held_head * @{D}, y_ld, q_tile,
              0, held_rows);
//@ row_ends
#if @{SINK}
const int head = held_head, kv = head / @{G}, doc = held_doc < 0 ? 0 : held_doc;
@{HEAD_VALUES}
#endif
GS_UNROLL
for (int j = 0; j < @{WARP_M} / 8; j++) {
  const bool none = top[j] == -GS_INF; // sees no key
  const f32 z_top = none ? -GS_INF : top[j] * size;
  @{ROW_SUM}
  GS_UNROLL
  for (int n = 0; n < @{DP} / 8; n++) GS_UNROLL for (int e = 0; e < 2; e++) {
    f32 &x = out[j / 2][n][2 * (j % 2) + e];
    x = none ? 0.0f : x * share;
  }
#if @{SAVE_LSE}
  const int r = r0 + 16 * (j / 2) + gs_acc_row(GS_LANE, 2 * (j % 2));
  if (GS_LANE % 4 == 0 && r < held_rows)
    gs_put(lse, (y_row + r) * lse_ld + held_head, held_doc < 0 ? 0.0f : sum);
#endif
}
//@ row_sum
#if @{SINK}
const f32 above = gs_max(z_top, sink), part = none ? 0.0f : gs_exp(z_top - above);
const f32 all = gs_fma(total[j], part, sink == -GS_INF ? 0.0f : gs_exp(sink - above));
const f32 share = gs_div(part, all), sum = above + gs_log(all);
#else
const f32 share = gs_div(1.0f, total[j]), sum = z_top + gs_log(total[j]);
#endif
