// attention_sm90_backward.cu: dq, dk, dv of attention for sm_90a: TMA, wgmma, roles for warps.
//
// A block takes items, a key tile of a document and a kv head, and keeps dk and dv of it in
// registers while it goes over the query tiles that see it, last to first, and for each over the G
// query heads. Scores stand turned, keys by queries: so P and dS leave the accumulators as left
// operands of dv += P dy, dk += dS q, and dS alone goes through shared memory, for dq = dS' k.
// Warpgroups 1 and 2 compute: where D <= 128 each has half of the keys; above, half of the columns
// of dk, dv and dq, and both take the scores. Warpgroup 0 serves them: a warp loads, one mends
// tiles that go past a document's end, one waits for turns, one adds dq.
//
// dq of a query tile is summed in dq_acc f32 (its places: attention_prepare.cu) over the key tiles
// that it sees, ascending: an item adds its part of (query tile, head) when its turn has come, the
// first one stores, and the last one writes dq itself. BULK 1: a warp adds a step's part from
// shared memory; 0: the computing warps do, from registers. A wait is only for items that stand
// before it in the list, also of blocks that have one taken ahead. FAST_DQ 1: no turns; dq_acc
// begins as zeros, and attention_prepare.cu makes dq of it.
// CLUSTER 2: two blocks have an item together, steps in turns, and join dk and dv at its end.
// WAVE entries of the list are taken for one kv head before the next: they read the same q and dy.
//
// The loader takes the next item before an item's last steps, so that nothing waits for the list.
// Items lie in two slots in turns: steps of this block (-1: no more items), kv head, key tile,
// document, first query, queries, first key, keys, last query tile that sees the key tile, the
// document's padded tile, first query tile that sees it, the step before which the next item is
// taken.
//
// stats [2, HEADS, ROWS] f32: lse * log2(e) and delta by padded tiles (attention_prepare.cu).

//@ main
@{BANNER}
@{OPEN}(@{ENTRY}, 384, @{OPEN_MORE},
          @{PARAMS}) {
  GS_DYNAMIC(@{TYPE}, tiles, 0, @{TILE_COUNT}); // k, v, q [STAGES_Q], dy [STAGES_DY], ds [2]
  GS_DYNAMIC(f32, near, @{AT_NEAR}, @{TILE_Q} * (@{STAGES_Q} + @{STAGES_DY})); // lse, delta
  GS_DYNAMIC(f32, sums, @{AT_SUMS}, @{SUMS}); // dq of a step
  @{CLUSTER_ARRAYS}
  // two items of 12, marks of 4 turns, the mender's job, jobs, loads before the item, all takers
  GS_DYNAMIC(i32, slots, @{AT_SLOTS}, 40);
  GS_DYNAMIC(gs_mbar, bars, @{AT_BARS}, @{BARS});
  constexpr int Q_TILE = @{TILE_Q} * @{PANELS} * 64, K_TILE = @{TILE_N} * @{PANELS} * 64;
  constexpr int V_AT = K_TILE, Q_AT = 2 * K_TILE, DY_AT = Q_AT + @{STAGES_Q} * Q_TILE;
  constexpr int DS_AT = DY_AT + @{STAGES_DY} * Q_TILE, DS_TILE = @{TILE_Q} * @{TILE_N};
  constexpr int KV_FULL = 0, SLOT_FREE = 2, KV_EMPTY = 4, MEND = 5, MENDED = 6, DQ_BEFORE = 7;
  constexpr int DQ_FULL = 8, DQ_FREE = 9, Q_FULL = 10, Q_EMPTY = Q_FULL + @{STAGES_Q};
  constexpr int DY_FULL = Q_EMPTY + @{STAGES_Q}, DY_EMPTY = DY_FULL + @{STAGES_DY};
  constexpr int TURN = DY_EMPTY + @{STAGES_DY}, TURN_DONE = TURN + 4, TURN_FREE = TURN + 8;
  const int q_tiles = (int)((T + @{TILE_Q} - 1) / @{TILE_Q} + B1); // padded tiles of queries
  if (GS_TID == 0) {
    for (int i = 0; i < 2; i++) gs_mbar_init(bars, KV_FULL + i, 1);
    for (int i = 0; i < 2; i++) gs_mbar_init(bars, SLOT_FREE + i, @{HELPERS});
    gs_mbar_init(bars, KV_EMPTY, 8);
    gs_mbar_init(bars, DQ_BEFORE, 1);
    gs_mbar_init(bars, DQ_FULL, 8);
    gs_mbar_init(bars, DQ_FREE, 1);
    gs_mbar_init(bars, MEND, 1);
    gs_mbar_init(bars, MENDED, 1);
    for (int i = 0; i < @{STAGES_Q}; i++) gs_mbar_init(bars, Q_FULL + i, 1);
    for (int i = 0; i < @{STAGES_Q}; i++) gs_mbar_init(bars, Q_EMPTY + i, 8);
    for (int i = 0; i < @{STAGES_DY}; i++) gs_mbar_init(bars, DY_FULL + i, 1);
    for (int i = 0; i < @{STAGES_DY}; i++) gs_mbar_init(bars, DY_EMPTY + i, 8);
    for (int i = 0; i < 4; i++) {
      gs_mbar_init(bars, TURN + i, 1);
      gs_mbar_init(bars, TURN_DONE + i, 8);
      gs_mbar_init(bars, TURN_FREE + i, 1);
    }
    for (int i = 0; i < 40; i++) slots[i] = 0;
    gs_mbar_ready();
    slots[12] = slots[23] = slots[37] = slots[38] = 0;
    slots[39] = (int)(GS_NBLOCKS / @{CLUSTER});
  }
  GS_SYNC();
  @{CLUSTER_SYNC}
  if (GS_WARP < 4) {
    GS_REGISTERS_DOWN(@{FEW});
    @{EACH_STEP}
    if (GS_WARP == 0) {
      @{LOADER}
    } else if (GS_WARP == 3) {
      @{MENDER}
#if !@{FAST_DQ}
    } else if (GS_WARP == 1) {
      @{TURN_WAITER}
#endif
#if @{BULK} || !@{FAST_DQ}
    } else if (GS_WARP == 2) {
      @{ADDER}
#endif
    } else {
      @{IDLE}
    }
  } else {
    GS_REGISTERS_UP(@{MANY});
    @{CONSUMER}
  }
}

//@ cluster_arrays
GS_DYNAMIC(f32, joined, 0, @{NDV} * 128); // where k, v, q, dy were
GS_DYNAMIC(f32, number, @{AT_SLOTS} + 160, 4);

//@ keys_of
const auto keys_of = [&](int qi, int n_q, int n_k, int doc, int &from, int &to) {
  @{KEYS}
  from = first, to = last;
};

//@ loader
// Tiles that go past the document's end land for the mender, who hands them on.
@{KEYS_OF}
const bool leads = GS_LANE == 0;
int load = 0, round = -1; // before the first item: one of no steps
for (;;) {
  const int own = (round & 1) * 12;
  if (load - slots[38] == slots[own + 11]) {
    @{NEXT_ITEM}
  }
  const int i = load - slots[38];
  if (i < slots[own]) {
    @{LOAD_STEP}
    load++;
  } else {
    round++;
    @{LOADER_ROUND}
  }
}
if (leads) {
  @{MENDER_FREE}
  slots[36] = -1;
  gs_mbar_arrive(bars, MEND);
}

//@ mender_free
gs_mbar_wait(bars, MENDED, (slots[37] & 1) ^ 1);
slots[37] = slots[37] + 1;

//@ loader_round
GS_SYNCWARP();
if (leads) slots[38] = load; // at the item's begin
GS_SYNCWARP();
const int now = (round & 1) * 12;
if (slots[now] <= 0) {
  gs_mbar_wait(bars, KV_EMPTY, now == 0);
  if (leads) gs_mbar_arrive(bars, KV_FULL + now / 12);
  if (slots[now] < 0) break;
}

//@ load_step
const int t = @{RANK} + i * @{CLUSTER}, m = slots[own + 8] - t / @{G};
const int head = slots[own + 1] * @{G} + t % @{G};
const bool whole = (m + 1) * @{TILE_Q} <= slots[own + 5];
@{LOAD_Q}
if (i == 0) {
  @{LOAD_KV}
}
@{LOAD_DY}

//@ next_item
// Takes the next item while this one's last steps are under way.
@{LOADER_END}
const int next = 12 - own;
gs_mbar_wait(bars, SLOT_FREE + next / 12, ((round + 1) / 2 & 1) ^ 1);
@{NUMBER}
GS_SYNCWARP(); // all lanes have left what is written anew
if (leads) {
  @{TAKE}
}
GS_SYNCWARP(); // in two parts, for want of registers
if (leads && slots[next] >= 0) {
  @{PLACE_DOCUMENT}
}
GS_SYNCWARP();
if (slots[next] > 0) {
  @{TILES_SEEN}
}
GS_SYNCWARP();

//@ got_alone
gs_take(take, count * @{KH}, slots[39])

//@ got_cluster
(int)number[0]

//@ number
// The blocks of a cluster have an item together, steps in turns; the first takes its number.
if (leads) {
  @{MENDER_FREE}
  slots[36] = -2;
  gs_mbar_arrive(bars, MEND);
}
if (leads && GS_CLUSTER_RANK == 0) {
  const int got = gs_take(take, k_tiles[0] * @{KH}, slots[39]);
  GS_UNROLL
  for (int c = 0; c < @{CLUSTER}; c++) GS_CLUSTER_PUT(number, c, 0, (f32)got);
}
GS_CLUSTER_SYNC();

//@ loader_end
if (round >= 0) {
  if (leads) {
    @{MENDER_FREE}
    slots[36] = -3;
    gs_mbar_arrive(bars, MEND);
  }
  GS_CLUSTER_SYNC();
  GS_CLUSTER_SYNC();
}

//@ take
// The item's place in the list; steps stand for whether it may have any.
const int count = k_tiles[0], got = @{GOT};
slots[next] = -1, slots[next + 11] = 0;
if (got < count * @{KH}) {
  const int wave = got / (@{WAVE} * @{KH}), inside = got - wave * (@{WAVE} * @{KH});
  const int many = gs_within(count - wave * @{WAVE}, 1, @{WAVE});
  const int entry = wave * @{WAVE} + inside % many, doc = k_tiles[1 + 2 * entry];
  slots[next + 1] = inside / many, slots[next + 2] = k_tiles[2 + 2 * entry], slots[next + 3] = doc;
  slots[next] = doc < 0 ? 0 : 1;
}

//@ place_document
const int doc = slots[next + 3], b = doc < 0 ? (int)B1 - 1 : doc;
const int from_q = cu_q[b], from_k = cu_k[b];
slots[next + 4] = from_q, slots[next + 5] = doc < 0 ? 0 : cu_q[b + 1] - from_q;
slots[next + 6] = from_k, slots[next + 7] = (doc < 0 ? (int)S : cu_k[b + 1]) - from_k;
slots[next + 9] = from_q / @{TILE_Q} + b;

//@ tiles_seen
// Query tiles that see the key tile: from the first whose last query sees so far, to the last whose
// first query does not see only later keys. All values come from the slot, for want of registers.
int low = 0, high = (slots[next + 5] + @{TILE_Q} - 1) / @{TILE_Q}, from, to;
while (low < high) {
  const int n_q = slots[next + 5], n_k = slots[next + 7], mid = (low + high) / 2;
  keys_of(gs_within((mid + 1) * @{TILE_Q}, 0, n_q) - 1 + n_k - n_q, n_q, n_k, slots[next + 3], from,
          to);
  if (to >= slots[next + 2] * @{TILE_N})
    high = mid;
  else
    low = mid + 1;
  GS_SYNCWARP();
}
if (leads) slots[next + 10] = low;
high = (slots[next + 5] + @{TILE_Q} - 1) / @{TILE_Q};
while (low < high) {
  const int n_q = slots[next + 5], n_k = slots[next + 7], mid = (low + high) / 2;
  keys_of(mid * @{TILE_Q} + n_k - n_q, n_q, n_k, slots[next + 3], from, to);
  if (from >= gs_within((slots[next + 2] + 1) * @{TILE_N}, 0, n_k))
    high = mid;
  else
    low = mid + 1;
  GS_SYNCWARP();
}
GS_SYNCWARP();
if (leads) {
  const int seen = low - slots[next + 10];
  const int steps = (seen * @{G} + @{CLUSTER} - 1 - @{RANK}) / @{CLUSTER};
  slots[next] = steps, slots[next + 8] = low - 1;
  slots[next + 11] = gs_within(steps - @{AHEAD}, steps > 0 ? 1 : 0, steps);
}

//@ load_q
const int sq = load % @{STAGES_Q}, q_bar = whole ? Q_FULL + sq : MEND;
gs_mbar_wait(bars, Q_EMPTY + sq, (load / @{STAGES_Q} & 1) ^ 1);
if (leads && !whole) {
  @{MENDER_FREE}
  slots[32] = @{PANELS}, slots[33] = Q_AT + sq * Q_TILE, slots[34] = @{TILE_Q};
  slots[35] = slots[own + 5] - m * @{TILE_Q}, slots[36] = Q_FULL + sq;
}
if (leads) {
  const int row = slots[own + 4] + m * @{TILE_Q};
  const i64 place = ((i64)head * q_tiles + slots[own + 9] + m) * @{TILE_Q};
  gs_mbar_expect(bars, q_bar, Q_TILE * 2 + @{TILE_Q} * 4);
  GS_UNROLL
  for (int p = 0; p < @{PANELS}; p++)
    gs_tma_load(tiles, Q_AT + sq * Q_TILE + p * @{TILE_Q} * 64, q_map, bars, q_bar, p * 64, head,
                row);
  gs_bulk_load(near, sq * @{TILE_Q}, stats, place, @{TILE_Q}, bars, q_bar);
}

//@ load_dy
const int sd = load % @{STAGES_DY}, dy_bar = whole ? DY_FULL + sd : MEND;
gs_mbar_wait(bars, DY_EMPTY + sd, (load / @{STAGES_DY} & 1) ^ 1);
if (leads && !whole) {
  @{MENDER_FREE}
  slots[32] = @{PANELS}, slots[33] = DY_AT + sd * Q_TILE, slots[34] = @{TILE_Q};
  slots[35] = slots[own + 5] - m * @{TILE_Q}, slots[36] = DY_FULL + sd;
}
if (leads) {
  const int row = slots[own + 4] + m * @{TILE_Q};
  const i64 place = ((i64)(head + @{HEADS}) * q_tiles + slots[own + 9] + m) * @{TILE_Q};
  gs_mbar_expect(bars, dy_bar, Q_TILE * 2 + @{TILE_Q} * 4);
  GS_UNROLL
  for (int p = 0; p < @{PANELS}; p++)
    gs_tma_load(tiles, DY_AT + sd * Q_TILE + p * @{TILE_Q} * 64, dy_map, bars, dy_bar, p * 64, head,
                row);
  gs_bulk_load(near, (@{STAGES_Q} + sd) * @{TILE_Q}, stats, place, @{TILE_Q}, bars, dy_bar);
}

//@ load_kv
gs_mbar_wait(bars, KV_EMPTY, own == 0);
const int first_row = slots[own + 6] + slots[own + 2] * @{TILE_N};
const int left = slots[own + 7] - slots[own + 2] * @{TILE_N};
const int kv_bar = left < @{TILE_N} ? MEND : KV_FULL + own / 12;
if (leads && left < @{TILE_N}) {
  @{MENDER_FREE}
  slots[32] = 2 * @{PANELS}, slots[33] = 0, slots[34] = @{TILE_N};
  slots[35] = left, slots[36] = KV_FULL + own / 12;
}
if (leads) {
  gs_mbar_expect(bars, kv_bar, 4 * K_TILE);
  GS_UNROLL
  for (int p = 0; p < @{PANELS}; p++)
    gs_tma_load(tiles, p * @{TILE_N} * 64, k_map, bars, kv_bar, p * 64, slots[own + 1], first_row);
  GS_UNROLL
  for (int p = 0; p < @{PANELS}; p++)
    gs_tma_load(tiles, V_AT + p * @{TILE_N} * 64, v_map, bars, kv_bar, p * 64, slots[own + 1],
                first_row);
}

//@ mender
// Makes rows past the document's end zeros. slots 32 ...: panels, place, rows, rows of the
// document, which barrier waits for the tile; -1: no more. Or it takes part where all warps of a
// cluster meet: -2: once, for an item's number, -3: twice, at its end.
for (int jobs = 0;; jobs++) {
  gs_mbar_wait(bars, MEND, jobs & 1);
  const int waits = slots[36];
  if (waits == -1) break;
  if (waits >= 0) {
    for (int p = 0; p < slots[32]; p++)
      gs_tile_zero<1>(tiles, slots[33] + p * slots[34] * 64, slots[34], slots[35]);
    gs_mbar_arrive_warp(bars, waits);
  }
  @{MENDER_SYNC}
  gs_mbar_arrive_warp(bars, MENDED);
}

//@ mender_sync
if (waits <= -2) GS_CLUSTER_SYNC();
if (waits == -3) GS_CLUSTER_SYNC();

//@ each_step
// A helper goes through the steps of all items: query tile m, head.
const auto each_step = [&](auto work) {
  int step = 0;
  for (int round = 0;; round++) {
    @{CLUSTER_SYNC}
    gs_mbar_wait(bars, KV_FULL + (round & 1), round / 2 & 1);
    const int own = (round & 1) * 12;
    if (slots[own] < 0) break;
    for (int i = 0; i < slots[own]; i++, step++) {
      const int t = @{RANK} + i * @{CLUSTER};
      work(own, slots[own + 8] - t / @{G}, slots[own + 1] * @{G} + t % @{G}, step);
    }
    gs_mbar_arrive_warp(bars, SLOT_FREE + (gs_afresh(round) & 1));
    @{CLUSTER_SYNC}
    @{CLUSTER_SYNC}
  }
};

//@ turn_waiter
// Says when the turn has come, with how many were before it, and whether it is the last, in slots
// 24 ... and 28 ...
@{KEYS_OF}
each_step([&](int own, int m, int head, int step) {
  const int n_q = slots[own + 5], n_k = slots[own + 7];
  int from, to, other;
  keys_of(m * @{TILE_Q} + n_k - n_q, n_q, n_k, slots[own + 3], from, other);
  const int end = gs_within((m + 1) * @{TILE_Q}, 0, n_q);
  keys_of(end - 1 + n_k - n_q, n_q, n_k, slots[own + 3], other, to);
  const int before = slots[own + 2] - from / @{TILE_N};
  const bool final = slots[own + 2] == to / @{TILE_N};
  const int r = step % 4;
  gs_mbar_wait(bars, TURN_FREE + r, (step / 4 & 1) ^ 1);
  if (GS_LANE == 0) slots[24 + r] = before, slots[28 + r] = final;
  if (before > 0) GS_TURN_WAIT(turn, (i64)head * q_tiles + slots[own + 9] + m, before);
  gs_mbar_arrive_warp(bars, TURN + r);
});

//@ adder_turns
// Passes the turn of what the consumers have added.
each_step([&](int own, int m, int head, int step) {
  const int r = step % 4;
  gs_mbar_wait(bars, TURN_DONE + r, step / 4 & 1);
  GS_TURN_PASS(turn, (i64)head * q_tiles + slots[own + 9] + m, slots[24 + r] + 1);
  gs_mbar_arrive_warp(bars, TURN_FREE + r);
});

//@ adder_bulk
// Adds what the consumers have left in `sums`; lane 0 does it all, since a bulk group belongs to a
// thread.
each_step([&](int own, int m, int head, int step) {
  const int count = gs_within(slots[own + 5] - m * @{TILE_Q}, 0, @{TILE_Q}) * @{DP};
  const i64 place = (head * T + slots[own + 4] + m * @{TILE_Q}) * @{DP};
  @{ADD_SUMS}
});

//@ add_sums_turns
// Of the last part the consumers make dq; they get the sum of those before it in `sums`.
const int r = step % 4;
gs_mbar_wait(bars, TURN + r, step / 4 & 1);
const int before = slots[24 + r];
const bool final = slots[28 + r];
if (GS_LANE == 0) {
  gs_bulk_fence();
  if (final && before > 0) {
    gs_mbar_expect(bars, DQ_BEFORE, count * 4);
    gs_bulk_load(sums, 0, dq_acc, place, count, bars, DQ_BEFORE);
  } else {
    gs_mbar_arrive(bars, DQ_BEFORE);
  }
}
gs_mbar_wait(bars, DQ_FULL, step & 1);
if (final) {
  gs_mbar_arrive_warp(bars, DQ_FREE);
} else {
  if (GS_LANE == 0) {
    if (before == 0)
      gs_bulk_store(dq_acc, place, sums, 0, count);
    else
      gs_bulk_add(dq_acc, place, sums, 0, count);
    gs_bulk_close();
    gs_bulk_wait_read<0>();
    gs_mbar_arrive(bars, DQ_FREE);
    gs_bulk_wait<0>();
    gs_bulk_fence();
  }
  GS_TURN_PASS(turn, (i64)head * q_tiles + slots[own + 9] + m, before + 1);
}
gs_mbar_arrive_warp(bars, TURN_FREE + r);

//@ add_sums_fast
gs_mbar_wait(bars, DQ_FULL, step & 1);
if (GS_LANE == 0) {
  gs_bulk_add(dq_acc, place, sums, 0, count);
  gs_bulk_close();
  gs_bulk_wait_read<0>();
  gs_mbar_arrive(bars, DQ_FREE);
}

//@ idle
for (int round = 0; @{CLUSTER} > 1; round++) {
  @{CLUSTER_SYNC}
  gs_mbar_wait(bars, KV_FULL + (round & 1), round / 2 & 1);
  if (slots[(round & 1) * 12] < 0) break;
  @{CLUSTER_SYNC}
  @{CLUSTER_SYNC}
}

//@ cluster_sync
GS_CLUSTER_SYNC();

//@ consumer
@{KEYS_OF}
constexpr int HALF = @{TILE_Q} / 2; // accumulators a thread has of keys by queries
const int w = GS_WARP / 4 - 1;
const int key_half = @{SPLIT_D} ? 0 : 64 * w, column_half = @{SPLIT_D} ? @{NDV} * w : 0;
const f32 scale_2 = scale * 1.44269504f;
int step = 0; // of all items: stages and parities follow from it
for (int round = 0;; round++) {
  @{CLUSTER_SYNC}
  gs_mbar_wait(bars, KV_FULL + (round & 1), round / 2 & 1);
  const int own = (round & 1) * 12;
  int left = slots[own];
  if (left < 0) break;
  f32 dk_acc[@{NDV} / 2], dv_acc[@{NDV} / 2];
  GS_UNROLL
  for (int e = 0; e < @{NDV} / 2; e++) dk_acc[e] = dv_acc[e] = 0.0f;
  if (left > 0) {
    @{PLACE}
    for (bool again = false; left > 0; left--, step++, again = true) {
      @{STEP}
      @{ADVANCE}
    }
    gs_wg_wait<0>(dk_acc);
    gs_mbar_arrive_warp(bars, Q_EMPTY + (step - 1) % @{STAGES_Q});
  }
  @{STORE}
}

//@ place
// The query tile's first query in its document; head; queries and keys of the document.
int m = (slots[own + 8] - @{RANK} / @{G}) * @{TILE_Q};
int head = slots[own + 1] * @{G} + @{RANK} % @{G};
const int n_q = slots[own + 5], n_k = slots[own + 7], first_key = slots[own + 2] * @{TILE_N};

//@ advance
const int tiles_on = (head + @{CLUSTER}) / @{G} - head / @{G};
head += @{CLUSTER} - tiles_on * @{G}, m -= tiles_on * @{TILE_Q};

//@ store
const int kv = slots[own + 1], rows = slots[own + 7] - slots[own + 2] * @{TILE_N} - key_half;
const i64 row = slots[own + 6] + slots[own + 2] * @{TILE_N} + key_half;
gs_mbar_arrive_warp(bars, KV_EMPTY);
gs_mbar_arrive_warp(bars, SLOT_FREE + (round & 1));
@{CLOSE}

//@ close_alone
@{STORE_DK}
@{STORE_DV}

//@ close_cluster
// The first block of the two gets the other's part of dk, the other one the first's of dv.
GS_CLUSTER_SYNC();
GS_UNROLL
for (int e = 0; e < @{NDV} / 2; e++)
  GS_CLUSTER_PUT(joined, 1 - GS_CLUSTER_RANK, e * 256 + GS_TID - 128,
                 GS_CLUSTER_RANK == 0 ? dv_acc[e] : dk_acc[e]);
GS_CLUSTER_SYNC();
if (GS_CLUSTER_RANK == 0) {
  GS_UNROLL
  for (int e = 0; e < @{NDV} / 2; e++) dk_acc[e] = dk_acc[e] + joined[e * 256 + GS_TID - 128];
  gs_proxy_fence();
  @{STORE_DK}
} else {
  GS_UNROLL
  for (int e = 0; e < @{NDV} / 2; e++) dv_acc[e] = joined[e * 256 + GS_TID - 128] + dv_acc[e];
  gs_proxy_fence();
  @{STORE_DV}
}

//@ store_dk
GS_UNROLL
for (int e = 0; e < @{NDV} / 2; e++) dk_acc[e] = dk_acc[e] * scale;
gs_wg_store<@{NDV}>(dk, row * dk_ld + kv * @{D} + column_half, dk_ld, rows, @{D} - column_half,
                    dk_acc);

//@ store_dv
gs_wg_store<@{NDV}>(dv, row * dv_ld + kv * @{D} + column_half, dv_ld, rows, @{D} - column_half,
                    dv_acc);

//@ step
{
  @{HEAD_VALUES}
  const int shift = m + n_k - n_q; // qi of the tile's first query
  const int sq = step % @{STAGES_Q}, near_q = sq * @{TILE_Q}, sd = step % @{STAGES_DY};
  @{BEGIN_X}
#if @{PLAIN}
  @{BEGIN_DP}
  gs_wg_wait<1>(x); // and for the dk of the step before
#else
  gs_wg_wait<0>(x); // dP has no registers yet
#endif
  if (again) gs_mbar_arrive_warp(bars, Q_EMPTY + (step - 1) % @{STAGES_Q});
  @{SEES_ALL}
  @{WEIGHTS}
#if !@{PLAIN}
  @{BEGIN_DP}
#endif
  gs_wg_open();
  gs_wg_product<@{NDV}, @{TILE_Q}, @{TILE_Q}, 1>(dv_acc, p, tiles, DY_AT + sd * Q_TILE,
                                                 column_half, 1);
  gs_wg_close();
  gs_wg_wait<@{PLAIN}>(dp); // and, where registers are short, for dv and what p takes
  gs_wg_left<@{TYPE}, @{TILE_Q}> slopes;
  @{SLOPES}
  const int ds_at = DS_AT + (@{SPLIT_D} ? w : step & 1) * DS_TILE;
  gs_wg_put(tiles, ds_at, @{TILE_N}, key_half, 0, slopes);
  gs_proxy_fence();
  gs_bar_sync(@{SPLIT_D} ? 1 + w : 1, @{SPLIT_D} ? 128 : 256);
  @{BEGIN_DQ_DK}
  gs_wg_wait<1>(dq_part); // and for dv
  gs_mbar_arrive_warp(bars, DY_EMPTY + sd);
  @{LEAVE_DQ}
}

//@ begin_x
f32 x[HALF];
gs_wg_new(x);
gs_mbar_wait(bars, Q_FULL + sq, step / @{STAGES_Q} & 1);
gs_wg_open();
gs_wg_product<@{TILE_Q}, @{KD}, @{TILE_N}, 0, @{TILE_Q}, 0>(x, tiles, 0, key_half, tiles,
                                                     Q_AT + sq * Q_TILE, 0, 0);
gs_wg_close();

//@ begin_dp
f32 dp[HALF];
gs_wg_new(dp);
gs_mbar_wait(bars, DY_FULL + sd, step / @{STAGES_DY} & 1);
gs_wg_open();
gs_wg_product<@{TILE_Q}, @{KD}, @{TILE_N}, 0, @{TILE_Q}, 0>(dp, tiles, V_AT, key_half, tiles,
                                                     DY_AT + sd * Q_TILE, 0, 0);
gs_wg_close();

//@ begin_dq_dk
const int part_row = @{TILE_Q} == 128 ? 64 * w : 0;
const int part_column = @{TILE_Q} == 128 ? 0 : @{NDQ} * w;
f32 dq_part[@{NDQ} / 2];
gs_wg_new(dq_part);
gs_wg_open();
gs_wg_product<@{NDQ}, @{TILE_N}, @{TILE_N}, 1, @{TILE_N}, 1>(dq_part, tiles, ds_at, part_row, tiles,
                                                      0, part_column, 0);
gs_wg_close();
@{PRODUCT_DK}
gs_wg_close();

//@ product_dk_registers
gs_wg_product<@{NDV}, @{TILE_Q}, @{TILE_Q}, 1>(dk_acc, slopes, tiles, Q_AT + sq * Q_TILE,
                                               column_half, 1);

//@ product_dk_shared
gs_wg_product<@{NDV}, @{TILE_Q}, @{TILE_N}, 0, @{TILE_Q}, 1>(
    dk_acc, tiles, ds_at, key_half, tiles, Q_AT + sq * Q_TILE, column_half, 1);

//@ sees_all
int from_low, to_low, from_high, to_high;
const int tile_end = m + @{TILE_Q} < n_q ? m + @{TILE_Q} : n_q;
keys_of(shift, n_q, n_k, slots[own + 3], from_low, to_low);
keys_of(tile_end - 1 + n_k - n_q, n_q, n_k, slots[own + 3], from_high, to_high);
const bool masked = !(from_high <= first_key && to_low >= first_key + @{TILE_N} - 1 &&
                      first_key + @{TILE_N} <= n_k);

//@ weights_plain
GS_UNROLL
for (int e = 0; e < HALF; e++)
  x[e] = gs_exp2(gs_fma(x[e], scale_2, -near[near_q + gs_wg_column(e)]));
if (masked) {
  @{MASK}
}
gs_wg_left<@{TYPE}, @{TILE_Q}> p;
gs_wg_round(p, x);

//@ mask
GS_UNROLL
for (int e = 0; e < HALF; e += 4) {
  GS_UNROLL
  for (int c = 0; c < 2; c++) {
    int from, to;
    keys_of(shift + gs_wg_column(e + c), n_q, n_k, slots[own + 3], from, to);
    const int ki = first_key + key_half + gs_wg_row(0);
    if (ki < from || ki > to) x[e + c] = @{NOTHING};
    if (ki + 8 < from || ki + 8 > to) x[e + c + 2] = @{NOTHING};
  }
}

//@ slopes_plain
GS_UNROLL
for (int e = 0; e < HALF; e++)
  x[e] = x[e] * (dp[e] - near[(@{STAGES_Q} + sd) * @{TILE_Q} + gs_wg_column(e)]);
gs_wg_round(slopes, x);

//@ weights_score
// x stays as it is, -inf where a query does not see the key: the exponential is taken again in
// slopes, since p in f32 has no registers.
if (masked) {
  @{MASK}
}
f32 weight[HALF];
GS_UNROLL
for (int e = 0; e < HALF; e++) {
  const int qi = shift + gs_wg_column(e), ki = first_key + key_half + gs_wg_row(e);
  const f32 s = x[e] * scale;
  @{SCORE}
  const f32 all = gs_exp2(gs_fma(z, 1.44269504f, -near[near_q + gs_wg_column(e)]));
  weight[e] = x[e] == -GS_INF ? 0.0f : all;
  GS_SYNCWARP(); // one after the other, for want of registers
}
gs_wg_left<@{TYPE}, @{TILE_Q}> p;
gs_wg_round(p, weight);

//@ slopes_score
GS_UNROLL
for (int e = 0; e < HALF; e++) {
  const int qi = shift + gs_wg_column(e), ki = first_key + key_half + gs_wg_row(e);
  const f32 s = x[e] * scale;
  @{SCORE}
  const f32 weight_e = gs_exp2(gs_fma(z, 1.44269504f, -near[near_q + gs_wg_column(e)]));
  const f32 dz = weight_e * (dp[e] - near[(@{STAGES_Q} + sd) * @{TILE_Q} + gs_wg_column(e)]);
  @{SLOPE}
  x[e] = x[e] == -GS_INF ? 0.0f : ds;
  GS_SYNCWARP();
}
gs_wg_round(slopes, x);

//@ leave_dq_turns
@{DQ_FREE_WAIT}
if (to_high / @{TILE_N} == first_key / @{TILE_N}) {
  @{WRITE_DQ}
} else {
  @{ADD_DQ}
}
@{DQ_LEFT}

//@ leave_dq_fast
@{DQ_FREE_WAIT}
@{ADD_DQ}
@{DQ_LEFT}

//@ dq_free_wait
gs_mbar_wait(bars, DQ_FREE, (step & 1) ^ 1);

//@ dq_left_bulk
gs_mbar_arrive_warp(bars, DQ_FULL);

//@ dq_left_turns
gs_mbar_arrive_warp(bars, TURN_DONE + step % 4);

//@ write_dq
// The last part. BEFORE holds the sum of those before it: `sums`, brought there when the turn had
// come, or dq_acc.
@{WAIT_BEFORE}
if (slots[24 + step % 4] > 0) {
  GS_UNROLL
  for (int e = 0; e < @{NDQ} / 2; e += (e & 2) ? 6 : 2) {
    const int at = part_row + gs_wg_row(e);
    const int lanes = gs_wg_lane_place(@{TURNED_ROW}, part_column, e);
    f32 four[4] = {};
    if (m + at < n_q && part_column + e / 8 * 16 < @{DP})
      gs_load<4>(four, @{BEFORE}, @{DQ_ROW} * @{DP} + lanes);
    dq_part[e] = four[0] + dq_part[e], dq_part[e + 1] = four[1] + dq_part[e + 1];
    dq_part[e + 4] = four[2] + dq_part[e + 4], dq_part[e + 5] = four[3] + dq_part[e + 5];
  }
}
GS_UNROLL
for (int e = 0; e < @{NDQ} / 2; e++) dq_part[e] = scale * dq_part[e];
const i64 row = slots[own + 4] + m + part_row;
gs_wg_store<@{NDQ}>(dq, row * dq_ld + head * @{D} + part_column, dq_ld, n_q - m - part_row,
                    @{D} - part_column, dq_part);

//@ wait_before_bulk
gs_mbar_wait(bars, DQ_BEFORE, step & 1);

//@ wait_before_registers
gs_mbar_wait(bars, TURN + step % 4, step / 4 & 1);

//@ add_dq_bulk
gs_wg_put_lanes<@{NDQ}>(sums, 0, @{DP}, part_row, part_column, dq_part);
gs_proxy_fence();

//@ add_dq_registers
@{OPENS}
GS_UNROLL
for (int e = 0; e < @{NDQ} / 2; e += (e & 2) ? 6 : 2) {
  const int at = part_row + gs_wg_row(e);
  const f32 four[4] = {dq_part[e], dq_part[e + 1], dq_part[e + 4], dq_part[e + 5]};
  const i64 place = @{DQ_ROW} * @{DP} + gs_wg_lane_place(@{TURNED_ROW}, part_column, e);
  if (m + at < n_q && part_column + e / 8 * 16 < @{DP}) {
    @{PUT_DQ}
  }
}

//@ opens
gs_mbar_wait(bars, TURN + step % 4, step / 4 & 1);
const bool opens = slots[24 + step % 4] == 0;

//@ dq_row_bulk
at

//@ dq_row_registers
((i64)(slots[own + 4] + m + at) * @{HEADS} + head)

//@ put_dq_turns
if (opens)
  gs_store<4>(dq_acc, place, four);
else
  gs_add_f32<4>(dq_acc, place, four);

//@ put_dq_fast
gs_add_f32<4>(dq_acc, place, four);
