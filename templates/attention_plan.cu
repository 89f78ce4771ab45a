// attention_plan.cu: which tiles of a batch there are, longest first, once a batch: one block makes
// the list that all layers and all heads go through.
//
// A tile is TILE rows of one document (queries or keys). The list is its length, then pairs: the
// document and the tile's number in it, or -1 and the number of a tile of rows past the last
// document. The cost of a tile is how many tiles of the other side it meets; of key tiles it is
// made to fall along a document, so that a tile comes after those before it in the document.
// Costs of key tiles that are alike count as equal, so that the tiles of short documents stay
// together; what is equal keeps its order, but that of 32 key tiles the first of all their
// documents come first: the second of a document waits for it. The list is the same in every run.

//@ tiles
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 0,
          @{PARAMS}) {
  GS_SHARED(i32, scan, 3 * @{THREADS}); // sums in turn in two parts; documents
  GS_SHARED(i32, near, @{THREADS});     // starts of the first documents
  const auto start_of = [&](i64 b) {
    return b < @{THREADS} ? (int)near[b] : (int)gs_geti(starts, b);
  };
  GS_SHARED(f32, scratch, 32);
  @{COUNT_TILES}
  @{COST_TILES}
  @{FALL}
  @{SORT}
  const int past = (int)((@{ROWS} - gs_geti(@{CU}, B1 - 1) + @{TILE} - 1) / @{TILE});
  for (int i = GS_TID; i < past; i += @{THREADS}) {
    gs_puti(@{LIST}, 1 + 2 * (i64)(tiles + i), -1);
    gs_puti(@{LIST}, 2 + 2 * (i64)(tiles + i), i);
  }
  if (GS_TID == 0) {
    gs_puti(@{LIST}, 0, tiles + past);
    gs_puti(take, 0, 0);
  }
}
//@ count_tiles
int tiles = 0; // of the documents so far
for (i64 b0 = 0; b0 < B1; b0 += @{THREADS}) {
  const i64 b = b0 + GS_TID;
  const int rows = b + 1 < B1 ? (int)(gs_geti(@{CU}, b + 1) - gs_geti(@{CU}, b)) : 0;
  const int own = (rows + @{TILE} - 1) / @{TILE};
  @{SUM_BEFORE}
  if (b < B1) gs_puti(starts, b, tiles + before);
  if (b0 == 0) near[GS_TID] = tiles + before;
  tiles += all;
}
GS_SYNC();
//@ sum_before
int half = 0; // of scan: where the sums are
GS_SYNC();
scan[GS_TID] = own;
GS_SYNC();
for (int d = 1; d < @{THREADS}; d *= 2) {
  const int sum = scan[half + GS_TID] + (GS_TID >= d ? scan[half + GS_TID - d] : 0);
  half = @{THREADS} - half;
  scan[half + GS_TID] = sum;
  GS_SYNC();
}
const int before = scan[half + GS_TID] - own, all = scan[half + @{THREADS} - 1];
//@ find
int doc = 0; // the last document whose tiles begin at or before number i
i64 step = 1;
while (step * 2 < B1) step *= 2;
for (; step > 0; step /= 2)
  if (doc + step + 1 < B1 && start_of(doc + step) <= i) doc += (int)step;
const int index = i - start_of(doc);
//@ cost_tiles
f32 most_here = 0.0f;
for (int i = GS_TID; i < tiles; i += @{THREADS}) {
  @{FIND}
  const int n_q = (int)(gs_geti(cu_q, doc + 1) - gs_geti(cu_q, doc));
  const int n_k = (int)(gs_geti(cu_k, doc + 1) - gs_geti(cu_k, doc));
  @{COST}
  gs_puti(costs, i, cost);
  most_here = gs_max(most_here, (f32)cost);
}
const int most = (int)GS_BLOCK_MAX(most_here, scratch);
GS_SYNC();
//@ cost_of_queries
int from, to;
{
  const int qi = index * @{TILE} + n_k - n_q;
  @{KEYS}
  from = first;
}
{
  const int end = index * @{TILE} + @{TILE}, qi = (end < n_q ? end : n_q) - 1 + n_k - n_q;
  @{KEYS}
  to = last;
}
const int cost = to < from ? 0 : to / @{OTHER} - from / @{OTHER} + 1;
//@ cost_of_keys
const int low = index * @{TILE}, high = (low + @{TILE} < n_k ? low + @{TILE} : n_k) - 1;
const int others = (n_q + @{OTHER} - 1) / @{OTHER};
int begin = 0, end = others; // the first that sees `low` or a later key
while (begin < end) {
  const int m = (begin + end) / 2;
  const int qi = (m * @{OTHER} + @{OTHER} < n_q ? m * @{OTHER} + @{OTHER} : n_q) - 1 + n_k - n_q;
  @{KEYS}
  if (last >= low) end = m; else begin = m + 1;
}
const int first_tile = begin;
end = others; // the first that sees none up to `high`
while (begin < end) {
  const int m = (begin + end) / 2;
  const int qi = m * @{OTHER} + n_k - n_q;
  @{KEYS}
  if (first > high) end = m; else begin = m + 1;
}
const int cost = begin - first_tile;
//@ fall_along
int after = -1, most_after = 0; // document and cost of the tile that comes next
for (int r0 = 0; r0 < tiles; r0 += @{THREADS}) {
  const int r = r0 + GS_TID, i = r < tiles ? tiles - 1 - r : 0;
  @{FIND}
  int cost = (int)gs_geti(costs, i), half = 0;
  if (doc == after && cost < most_after) cost = most_after;
  GS_SYNC();
  scan[2 * @{THREADS} + GS_TID] = doc;
  scan[GS_TID] = cost;
  GS_SYNC();
  for (int d = 1; d < @{THREADS}; d *= 2) {
    const bool same = GS_TID >= d && scan[2 * @{THREADS} + GS_TID - d] == doc;
    const int other = same ? scan[half + GS_TID - d] : 0, own = scan[half + GS_TID];
    half = @{THREADS} - half;
    scan[half + GS_TID] = other > own ? other : own;
    GS_SYNC();
  }
  if (r < tiles) gs_puti(costs, i, scan[half + GS_TID]);
  after = scan[3 * @{THREADS} - 1];
  most_after = scan[half + @{THREADS} - 1];
}
GS_SYNC();
//@ sort
// Costs in at most as many classes as there are threads; each thread has one, in order.
int coarse = @{COARSE};
while (most >> coarse >= @{THREADS} - 1) coarse++;
const int round_up = (1 << coarse) - 1;
const int mine = @{THREADS} - 1 - GS_TID;
int own = 0;
for (int i = 0; i < tiles; i++) own += ((int)gs_geti(costs, i) + round_up) >> coarse == mine;
@{SUM_BEFORE}
scan[2 * @{THREADS} + GS_TID] = before; // where the next tile of the thread's class goes
for (int i0 = 0; i0 < tiles; i0 += @{THREADS}) {
  const bool inside = i0 + GS_TID < tiles;
  const int i = inside ? i0 + GS_TID : 0, n = tiles - i0 < @{THREADS} ? tiles - i0 : @{THREADS};
  @{FIND}
  const int one = inside ? ((int)gs_geti(costs, i) + round_up) >> coarse : @{THREADS};
  const int owner = @{THREADS} - 1 - one, rank = @{RANK}; // the thread that has its class
  GS_SYNC();
  scan[GS_TID] = owner;
  scan[@{THREADS} + GS_TID] = rank;
  GS_SYNC();
  int ahead = 0, behind = 0; // of its class, among those looked at together
  for (int j = 0; j < n; j++) {
    const bool same = scan[j] == owner;
    ahead += same && scan[@{THREADS} + j] < rank;
    behind += same && scan[@{THREADS} + j] > rank;
  }
  const int to_place = inside ? scan[2 * @{THREADS} + owner] + ahead : 0;
  GS_SYNC();
  if (inside) {
    if (behind == 0) scan[2 * @{THREADS} + owner] = to_place + 1;
    gs_puti(@{LIST}, 1 + 2 * (i64)to_place, doc);
    gs_puti(@{LIST}, 2 + 2 * (i64)to_place, index);
  }
}
GS_SYNC();
//@ rank_of_queries
GS_TID
//@ rank_of_keys
((GS_TID / 32 << 20) + (gs_within(index, 0, 32767) << 5) + GS_TID % 32)
