// attention_sm80_backward.cu: attention's backward pass by mma.sync, ldmatrix and cp.async.
//
// An item is a key tile (an entry of the plan's k_tiles) and a kv head: dk and dv stay in registers
// while the block goes, from last to first, through the query tiles that see the key tile, each for
// all query heads of the kv head (so that the blocks of a head go in step whatever the length of
// their items); what it has for dq is added into dq_acc. Scores lie as [key, query]:
// WARPS_N x WARPS_M warps share them, then the same warps share dk and dv as [key, D], and
// WARPS_Q x WARPS_D share dq.
//   q dy [T, K, G, D]   k v dk dv [S, K, D]   dq_acc [T, HEADS, DQ], DQ: D to 16
//   stats [2][HEADS][QT TILE_M]: lse * log2(e) (infinity where p is to be 0), then dy.y, by rows of
//   query tiles: tile m of a document is number (cu_q[doc] + doc * TILE_M) / TILE_M + m of QT
//   turn [HEADS][QT]: how many key tiles have added to a query tile's dq_acc
// In dq_acc each 16 columns lie as a lane has them: column 8 j + 2 t + e at 4 t + 2 j + e.
// A hole that is a piece's name is that piece, expanded with the same holes.

//@ main
@{BANNER}
GS_KERNEL_MANY(@{ENTRY}, @{THREADS}, @{BLOCKS}, 0,
               @{PARAMS}) {
  GS_DYNAMIC(@{TYPE}, k_tile, 0, @{TILE_N} * @{DP});
  GS_DYNAMIC(@{TYPE}, v_tile, @{TILE_N} * @{DP} * 2, @{TILE_N} * @{DP});
  GS_DYNAMIC(@{TYPE}, q_ring, @{TILE_N} * @{DP} * 4, @{STAGES} * @{TILE_M} * @{DP});
  GS_DYNAMIC(@{TYPE}, dy_ring, (@{TILE_N} * 2 + @{STAGES} * @{TILE_M}) * @{DP} * 2,
             @{STAGES} * @{TILE_M} * @{DP});
  GS_DYNAMIC(@{TYPE}, p_tile, (@{TILE_N} + @{STAGES} * @{TILE_M}) * @{DP} * 4,
             @{TILE_N} * @{TILE_M});
  GS_DYNAMIC(@{TYPE}, ds_tile,
             (@{TILE_N} + @{STAGES} * @{TILE_M}) * @{DP} * 4 + @{TILE_N} * @{TILE_M} * 2,
             @{TILE_N} * @{TILE_M});
  GS_SHARED(f32, lse_ring, @{STAGES} * @{TILE_M});
  GS_SHARED(f32, delta_ring, @{STAGES} * @{TILE_M});
  GS_SHARED(i32, meet, 1);
  // What is known of the item rests in shared memory, so that it takes no registers meanwhile;
  // bases: the first query's row, the number of its tile, how many tiles are numbered; owed: the
  // turn that is to be passed on, and in owed_number what it becomes (0: none is).
  enum { AT_ROWS, AT_N0, AT_KV, AT_LISTED, AT_N_Q, AT_N_K, AT_TILE, AT_M_END, AT_STEPS, AT_ITEMS };
  enum { HELD = AT_ITEMS + 1 };
  GS_SHARED(i32, held, HELD);
  GS_SHARED(i64, bases, 3);
  GS_SHARED(i64, owed, 1);
  GS_SHARED(i32, owed_number, 1);
  @{QUERY_LOADS}
  const int all = (int)gs_geti(k_tiles, 0) * @{KH};
  if (GS_TID == 0) held[AT_ITEMS] = all;
  for (int item = GS_TAKEN(GS_TICKET(take, all, (int)GS_NBLOCKS), meet); item < held[AT_ITEMS];
       item = GS_TAKEN(GS_TICKET(take, (int)held[AT_ITEMS], (int)GS_NBLOCKS), meet)) {
    {
      const int entry = item / @{KH}, kv = item % @{KH};
      @{BACKWARD_BEGIN}
    }
    @{BACKWARD_STEPS}
    @{BACKWARD_END}
  }
}
//@ backward_begin
const int listed = (int)gs_geti(k_tiles, 1 + 2 * entry), doc = listed < 0 ? 0 : listed;
const int tile = (int)gs_geti(k_tiles, 2 + 2 * entry), n0 = tile * @{TILE_N};
const bool tail = listed < 0; // rows that belong to no document: nobody sees them
const i64 q_row = gs_geti(cu_q, doc), k_row = gs_geti(cu_k, tail ? B1 - 1 : doc) + n0;
const int n_q = tail ? 0 : (int)(gs_geti(cu_q, doc + 1) - q_row);
const int n_k = (int)((tail ? S : gs_geti(cu_k, doc + 1)) + n0 - k_row);
const int rows = n_k - n0 < @{TILE_N} ? n_k - n0 : @{TILE_N}, past = n_k - n_q;
// Keys from `from` to `to` are those that query qi sees.
const auto keys = [&](int qi, int &from, int &to) {
  @{KEYS}
  from = first;
  to = last;
};
@{QUERY_TILES}
GS_TILE_COPY(@{TILE_N}, @{DP}, @{D}, @{THREADS}, k_tile, 0, k, k_row * k_ld + kv * @{D}, k_ld,
             tail ? 0 : rows);
GS_TILE_COPY(@{TILE_N}, @{DP}, @{D}, @{THREADS}, v_tile, 0, v, k_row * v_ld + kv * @{D}, v_ld,
             tail ? 0 : rows);
if (GS_TID == 0) {
  held[AT_ROWS] = rows;
  held[AT_N0] = n0;
  held[AT_KV] = kv;
  held[AT_LISTED] = listed;
  held[AT_N_Q] = n_q;
  held[AT_N_K] = n_k;
  held[AT_TILE] = tile;
  held[AT_M_END] = m_end;
  held[AT_STEPS] = m_end > m_first ? (m_end - m_first) * @{G} : 0;
  bases[0] = q_row;
  bases[1] = (q_row + doc * @{TILE_M}) / @{TILE_M};
  bases[2] = (T + @{TILE_M} - 1) / @{TILE_M} + B1;
  owed_number[0] = 0;
}
//@ backward_steps
f32 sum_k[@{TILE_N} / @{WARPS_N} / 16][@{DP} / @{WARPS_M} / 8][4] = {};
f32 sum_v[@{TILE_N} / @{WARPS_N} / 16][@{DP} / @{WARPS_M} / 8][4] = {};
const int wn = GS_WARP / @{WARPS_M} * (@{TILE_N} / @{WARPS_N});
const int wm = GS_WARP % @{WARPS_M} * (@{TILE_M} / @{WARPS_M});
const int wd = GS_WARP % @{WARPS_M} * (@{DP} / @{WARPS_M});
GS_SYNC();
load(0);
for (int step = 0; step < held[AT_STEPS]; step++) {
  const int stage = step % @{STAGES}, place = stage * @{TILE_M} * @{DP};
  GS_COPY_WAIT(0);
  GS_SYNC();
#if @{WANT_DQ} && !@{FAST_DQ}
  if (GS_WARP == 0 && step > 0) GS_TURN_PASS(turn, owed[0], owed_number[0]);
#endif
#if @{STAGES} > 1
  load(step + 1);
#endif
  @{BACKWARD_STEP}
#if @{STAGES} == 1
  GS_SYNC();
  load(step + 1);
#endif
}
GS_COPY_WAIT(0);
GS_SYNC();
#if @{WANT_DQ} && !@{FAST_DQ}
if (GS_WARP == 0 && owed_number[0] > 0) GS_TURN_PASS(turn, owed[0], owed_number[0]);
#endif
//@ query_tiles
// Query tiles m_first to m_end - 1 see this key tile; intervals never go back.
const int m_tiles = (n_q + @{TILE_M} - 1) / @{TILE_M};
int m_first = 0, m_end = m_tiles;
while (m_first < m_end) {
  const int m = (m_first + m_end) / 2, end = (m + 1) * @{TILE_M};
  int from, to;
  keys((end < n_q ? end : n_q) - 1 + past, from, to);
  if (to >= n0)
    m_end = m;
  else
    m_first = m + 1;
}
for (int most = m_tiles; m_end < most;) {
  const int m = (m_end + most) / 2;
  int from, to;
  keys(m * @{TILE_M} + past, from, to);
  if (from < n0 + rows)
    m_end = m + 1;
  else
    most = m;
}
//@ query_loads
// Begins the copies of a step (none past the last), and closes their group. Step by step, all heads
// of a query tile, then the tile before it.
const auto load = [&](int step) {
  if (step < held[AT_STEPS]) {
    const int at = step % @{STAGES}, g = step % @{G}, m = held[AT_M_END] - 1 - step / @{G};
    const i64 t = bases[0] + m * @{TILE_M}, h = held[AT_KV] * @{G} + g;
    const i64 all = bases[2], from = h * all + bases[1] + m;
    const int n = held[AT_N_Q] - m * @{TILE_M};
    GS_TILE_COPY(@{TILE_M}, @{DP}, @{D}, @{THREADS}, q_ring, at * @{TILE_M} * @{DP}, q,
                 t * q_ld + h * @{D}, q_ld, n);
    GS_TILE_COPY(@{TILE_M}, @{DP}, @{D}, @{THREADS}, dy_ring, at * @{TILE_M} * @{DP}, dy,
                 t * dy_ld + h * @{D}, dy_ld, n);
    GS_LINE_COPY(@{TILE_M}, @{THREADS}, lse_ring, at * @{TILE_M}, stats, from * @{TILE_M});
    GS_LINE_COPY(@{TILE_M}, @{THREADS}, delta_ring, at * @{TILE_M}, stats,
                 (@{HEADS} * all + from) * @{TILE_M});
  }
  GS_COPY_CLOSE();
};
//@ backward_step
f32 w[@{TILE_N} / @{WARPS_N} / 16][@{TILE_M} / @{WARPS_M} / 8][4] = {};
f32 u[@{TILE_N} / @{WARPS_N} / 16][@{TILE_M} / @{WARPS_M} / 8][4] = {};
GS_MMA(@{DP}, w, gs_rows<@{DP}>(k_tile, 0, wn, 0), gs_rows<@{DP}>(q_ring, place, wm, 0));
{
  @{SLOPES}
}
{
  const int n_q = held[AT_N_Q], n_k = held[AT_N_K], doc = held[AT_LISTED];
  const int n0 = held[AT_N0], m = held[AT_M_END] - 1 - step / @{G}, m0 = m * @{TILE_M};
  const auto keys = [&](int qi, int &from, int &to) {
    @{KEYS}
    from = first;
    to = last;
  };
  const int seen = n_q - m0 < @{TILE_M} ? n_q - m0 : @{TILE_M}, past = n_k - n_q;
  int low, high, ends, begins;
  keys(m0 + past, low, ends);
  keys(m0 + seen - 1 + past, begins, high);
  if (begins > n0 || ends < n0 + @{TILE_N} - 1) {
    @{BACKWARD_MASK}
  }
  @{AWAIT_TURN}
}
#if @{WARPS_M} > 1
GS_TILE_PUT(@{TILE_M}, p_tile, 0, wn, wm, w);
#endif
GS_TILE_PUT(@{TILE_M}, ds_tile, 0, wn, wm, u);
GS_SYNC();
#if @{WARPS_M} > 2
@{SUMS_SHARED}
#else
@{SUMS_OWN}
#endif
@{ADD_DQ}
//@ await_turn
#if @{WANT_DQ} && !@{FAST_DQ}
// Key tiles add to a query tile in ascending order, and the first stores. One warp waits for the
// block's turn before a barrier, and passes the last step's turn on after one.
if (GS_WARP == 0) {
  const i64 mine = (held[AT_KV] * @{G} + step % @{G}) * bases[2] + bases[1] + m;
  const int number = (int)held[AT_TILE] - low / @{TILE_N};
  GS_TURN_WAIT(turn, mine, number);
  if (GS_LANE == 0) {
    owed[0] = mine;
    owed_number[0] = number + 1;
  }
}
#endif
//@ sums_shared
#if @{WANT_DV}
GS_MMA(@{TILE_M}, sum_v, gs_rows<@{TILE_M}>(p_tile, 0, wn, 0),
       gs_cols<@{DP}>(dy_ring, place, 0, wd));
#endif
#if @{WANT_DK}
GS_MMA(@{TILE_M}, sum_k, gs_rows<@{TILE_M}>(ds_tile, 0, wn, 0),
       gs_cols<@{DP}>(q_ring, place, 0, wd));
#endif
//@ sums_own
// The warp's own queries first, from registers, then the other warp's.
gs_frag<@{TYPE}> own_p[@{TILE_N} / @{WARPS_N} / 16][@{TILE_M} / @{WARPS_M} / 16];
gs_frag<@{TYPE}> own_ds[@{TILE_N} / @{WARPS_N} / 16][@{TILE_M} / @{WARPS_M} / 16];
gs_frags(own_p, w);
gs_frags(own_ds, u);
#if @{WANT_DV}
GS_MMA(@{TILE_M} / @{WARPS_M}, sum_v, own_p, gs_cols<@{DP}>(dy_ring, place, wm, wd));
#endif
#if @{WANT_DV} && @{WARPS_M} == 2
GS_MMA(@{TILE_M} / 2, sum_v, gs_rows<@{TILE_M}>(p_tile, 0, wn, @{TILE_M} / 2 - wm),
       gs_cols<@{DP}>(dy_ring, place, @{TILE_M} / 2 - wm, wd));
#endif
#if @{WANT_DK}
GS_MMA(@{TILE_M} / @{WARPS_M}, sum_k, own_ds, gs_cols<@{DP}>(q_ring, place, wm, wd));
#endif
#if @{WANT_DK} && @{WARPS_M} == 2
GS_MMA(@{TILE_M} / 2, sum_k, gs_rows<@{TILE_M}>(ds_tile, 0, wn, @{TILE_M} / 2 - wm),
       gs_cols<@{DP}>(q_ring, place, @{TILE_M} / 2 - wm, wd));
#endif
//@ slopes
// w becomes p, u the slope of the score.
#if @{PLAIN}
const f32 unit = scale * 1.44269504f;
GS_UNROLL
for (int n = 0; n < @{TILE_M} / @{WARPS_M} / 8; n++) {
  f32 l[2];
  gs_load<2>(l, lse_ring, stage * @{TILE_M} + wm + 8 * n + gs_acc_col(GS_LANE, 0));
  GS_UNROLL
  for (int j = 0; j < @{TILE_N} / @{WARPS_N} / 16; j++) GS_UNROLL for (int e = 0; e < 4; e++)
    w[j][n][e] = gs_exp2(gs_fma(w[j][n][e], unit, -l[e % 2]));
}
#endif
GS_MMA(@{DP}, u, gs_rows<@{DP}>(v_tile, 0, wn, 0), gs_rows<@{DP}>(dy_ring, place, wm, 0));
#if !@{PLAIN}
@{PLACE_ONE}
#endif
GS_UNROLL
for (int n = 0; n < @{TILE_M} / @{WARPS_M} / 8; n++) {
  f32 d[2];
  gs_load<2>(d, delta_ring, stage * @{TILE_M} + wm + 8 * n + gs_acc_col(GS_LANE, 0));
#if @{PLAIN}
  GS_UNROLL
  for (int j = 0; j < @{TILE_N} / @{WARPS_N} / 16; j++) GS_UNROLL for (int e = 0; e < 4; e++)
    u[j][n][e] = w[j][n][e] * (u[j][n][e] - d[e % 2]);
#else
  f32 l[2];
  gs_load<2>(l, lse_ring, stage * @{TILE_M} + wm + 8 * n + gs_acc_col(GS_LANE, 0));
  GS_UNROLL
  for (int j = 0; j < @{TILE_N} / @{WARPS_N} / 16; j++) GS_UNROLL for (int e = 0; e < 4; e++) {
    @{SLOPE_ONE}
  }
#endif
}
//@ place_one
const int n_q = held[AT_N_Q], n_k = held[AT_N_K], past = n_k - n_q;
const int n0 = held[AT_N0], m0 = (held[AT_M_END] - 1 - step / @{G}) * @{TILE_M};
const int kv = held[AT_KV], head = kv * @{G} + step % @{G}, doc = held[AT_LISTED];
@{HEAD_VALUES}
//@ slope_one
const int qi = m0 + past + wm + 8 * n + gs_acc_col(GS_LANE, e);
const int ki = n0 + wn + 16 * j + gs_acc_row(GS_LANE, e);
const f32 s = scale * w[j][n][e];
@{SCORE}
const f32 p = gs_exp2(gs_fma(z, 1.44269504f, -l[e % 2])), dz = p * (u[j][n][e] - d[e % 2]);
@{SLOPE}
w[j][n][e] = p;
u[j][n][e] = ds;
//@ backward_mask
GS_UNROLL
for (int n = 0; n < @{TILE_M} / @{WARPS_M} / 8; n++) GS_UNROLL for (int h = 0; h < 2; h++) {
  const int r = wm + 8 * n + gs_acc_col(GS_LANE, h);
  int from, to;
  keys(m0 + past + r, from, to);
  from -= n0 + wn + gs_acc_row(GS_LANE, 0);
  to -= n0 + wn + gs_acc_row(GS_LANE, 0);
  GS_UNROLL
  for (int j = 0; j < @{TILE_N} / @{WARPS_N} / 16; j++) GS_UNROLL for (int e = 0; e < 2; e++)
    if (16 * j + 8 * e < from || 16 * j + 8 * e > to) {
      w[j][n][2 * e + h] = 0.0f;
      u[j][n][2 * e + h] = 0.0f;
    }
}
//@ add_dq
#if @{WANT_DQ}
{
  const int row0 = GS_WARP / @{WARPS_D} * (@{TILE_M} / @{WARPS_Q});
  const int col0 = GS_WARP % @{WARPS_D} * (@{DP} / @{WARPS_D});
  f32 part[@{TILE_M} / @{WARPS_Q} / 16][@{DP} / @{WARPS_D} / 8][4] = {};
  GS_MMA(@{TILE_N}, part, gs_cols<@{TILE_M}>(ds_tile, 0, 0, row0),
         gs_cols<@{DP}>(k_tile, 0, 0, col0));
  const int m0 = (held[AT_M_END] - 1 - step / @{G}) * @{TILE_M}, seen = held[AT_N_Q] - m0;
  const i64 head = held[AT_KV] * @{G} + step % @{G}, row = bases[0] + m0;
#if !@{FAST_DQ}
  const bool is_first = owed_number[0] == 1;
#endif
  GS_UNROLL
  for (int j = 0; j < @{TILE_M} / @{WARPS_Q} / 16; j++) GS_UNROLL for (int h = 0; h < 2; h++) {
    const int r = row0 + 16 * j + gs_acc_row(GS_LANE, 2 * h);
    const i64 at = ((row + r) * @{HEADS} + head) * @{DQ} + col0 + 4 * (GS_LANE % 4);
    GS_UNROLL
    for (int n = 0; n < @{DP} / @{WARPS_D} / 8; n += 2) {
      const f32 four[4] = {part[j][n][2 * h], part[j][n][2 * h + 1], part[j][n + 1][2 * h],
                           part[j][n + 1][2 * h + 1]};
      @{ADD_FOUR}
    }
  }
}
#endif
//@ add_four
const bool inside = r < seen && col0 + 8 * n < @{DQ};
#if @{FAST_DQ}
if (inside) gs_add_f32<4>(dq_acc, at + 8 * n, four);
#else
if (inside && is_first) gs_store<4>(dq_acc, at + 8 * n, four);
if (inside && !is_first) gs_add_f32<4>(dq_acc, at + 8 * n, four);
#endif
//@ backward_end
#if @{WANT_DK}
GS_UNROLL
for (int j = 0; j < @{TILE_N} / @{WARPS_N} / 16; j++)
  GS_UNROLL for (int n = 0; n < @{DP} / @{WARPS_M} / 8; n++) GS_UNROLL for (int e = 0; e < 4; e++)
    sum_k[j][n][e] *= scale;
GS_TILE_PUT(@{DP}, k_tile, 0, wn, wd, sum_k);
#endif
#if @{WANT_DV}
GS_TILE_PUT(@{DP}, v_tile, 0, wn, wd, sum_v);
#endif
GS_SYNC();
const int held_rows = held[AT_ROWS], held_kv = held[AT_KV], held_doc = held[AT_LISTED];
const i64 end_row = gs_geti(cu_k, held_doc < 0 ? B1 - 1 : held_doc) + held[AT_N0];
#if @{WANT_DK}
GS_TILE_STORE(@{TILE_N}, @{DP}, @{D}, @{THREADS}, dk, end_row * dk_ld + held_kv * @{D}, dk_ld,
              k_tile, 0, held_rows);
#endif
#if @{WANT_DV}
GS_TILE_STORE(@{TILE_N}, @{DP}, @{D}, @{THREADS}, dv, end_row * dv_ld + held_kv * @{D}, dv_ld,
              v_tile, 0, held_rows);
#endif
