// prelude_cuda_hopper.cuh: what only sm_90a has (TMA, mbarriers, wgmma, setmaxnreg) for kernels of
// tiles; stands after prelude_cuda_tiles.cuh, with the same rules. prelude_emu_hopper.h is its
// other half.
//
// A TILE [R][C] of 16-bit elements lies in dynamic shared memory as ceil(C / 64) PANELS [R][64],
// one after another (R * 64 elements each). A row of a panel is 128 bytes, 8 chunks of 16 bytes;
// chunk c of row r lies in place c ^ (r & 7) of its row (the 128-byte swizzle of TMA and wgmma). A
// panel begins at a multiple of 1024 bytes; R is a multiple of 8. A tile of f32 is the same with
// panels [R][32]. Such a kernel has no GS_SHARED beside GS_DYNAMIC, since that would shift the
// tiles.
//
// A WARPGROUP is 4 warps from a warp whose index is a multiple of 4. Functions gs_wg_... are called
// by all its 128 threads with the same arguments, but for the registers.

// ---- mbarriers: a phase ends when `count` arrivals and all announced bytes have come ----

typedef unsigned long long gs_mbar;

GS_FN unsigned gs_shared_at(const void *p) {
  return (unsigned)__cvta_generic_to_shared(p);
}
// One thread, before any use; then, by the same thread, gs_mbar_ready(), then a block barrier.
GS_FN void gs_mbar_init(gs_mbar *bars, int i, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(gs_shared_at(bars + i)), "r"(count)
               : "memory");
}
GS_FN void gs_mbar_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// One arrival, which releases what the thread did before.
GS_FN void gs_mbar_arrive(gs_mbar *bars, int i) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(gs_shared_at(bars + i)) : "memory");
}
// One arrival for a whole warp: after all its lanes came here.
GS_FN void gs_mbar_arrive_warp(gs_mbar *bars, int i) {
  __syncwarp();
  if (GS_LANE == 0) gs_mbar_arrive(bars, i);
}
// One arrival, and this phase ends not before `bytes` more have been copied.
GS_FN void gs_mbar_expect(gs_mbar *bars, int i, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   gs_shared_at(bars + i)),
               "r"(bytes)
               : "memory");
}
// Waits for the end of the phase of this parity (the first phase has 0): returns at once where the
// phase under way has the other parity. So a wait for parity 1 on a fresh barrier returns at once.
GS_FN void gs_mbar_wait(gs_mbar *bars, int i, int parity) {
  const unsigned at = gs_shared_at(bars + i);
  unsigned done;
  do {
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(at), "r"(parity)
                 : "memory");
  } while (!done);
}

// ---- TMA: a map stands for x[rows, heads, D] ----

struct alignas(64) gs_map {
  unsigned long long words[16];
};
#define GS_MAP(type, x) const __grid_constant__ gs_map x

// One thread. A hint that the map will be used.
GS_FN void gs_map_ahead(const gs_map &map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
// One thread. Begins a copy of the box (the map's number of rows, one head, one panel of columns)
// from (row, head, column) to the panel at `at`; element (r, c) of it is 0 beyond the rows, heads,
// columns of the map. All bytes of the box, those of zeros too, count in phase of bars[i].
template <class T>
GS_FN void gs_tma_load(T *tile, int at, const gs_map &map, gs_mbar *bars, int i, int column,
                       int head, int row) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(gs_shared_at(tile + at)),
               "l"(&map), "r"(gs_shared_at(bars + i)), "r"(column), "r"(head), "r"(row)
               : "memory");
}
// One thread. Begins to add a panel of f32 to x at (row, head, column); what lies beyond x is left
// out. Belongs to the thread's open bulk group. Written by other threads before: gs_proxy_fence()
// by each of them, then a barrier.
GS_FN void gs_tma_add(const gs_map &map, const f32 *tile, int at, int column, int head, int row) {
  asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group"
               " [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
               "r"(gs_shared_at(tile + at)), "r"(column), "r"(head), "r"(row)
               : "memory");
}
// One thread. Begins to add `count` f32 of shared memory, as they lie there, to x[i] ...; both at a
// multiple of 16 bytes, count a multiple of 4. Same groups, same fence.
GS_FN void gs_bulk_add(f32 *x, i64 i, const f32 *shared, int at, int count) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                   x + i),
               "r"(gs_shared_at(shared + at)), "r"(count * 4)
               : "memory");
}
// The same, but x[i] ... become what lies in shared memory.
GS_FN void gs_bulk_store(f32 *x, i64 i, const f32 *shared, int at, int count) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(x + i),
               "r"(gs_shared_at(shared + at)), "r"(count * 4)
               : "memory");
}
// One thread. Begins a copy of `count` elements from x[i], as they lie there, to shared[at] ...:
// both at a multiple of 16 bytes, the bytes too; they count in the phase of bars[j].
template <class T>
GS_FN void gs_bulk_load(T *shared, int at, const T *x, i64 i, int count, gs_mbar *bars, int j) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1], %2, [%3];" ::"r"(gs_shared_at(shared + at)),
               "l"(x + i), "r"(count * (int)sizeof(T)), "r"(gs_shared_at(bars + j))
               : "memory");
}
// The same of what is soon written back to its place: until then the L2 cache keeps it.
template <class T>
GS_FN void gs_bulk_load_back(T *shared, int at, const T *x, i64 i, int count, gs_mbar *bars,
                             int j) {
  asm volatile("{\n.reg .b64 keep;\n"
               "createpolicy.fractional.L2::evict_last.b64 keep, 1.0;\n"
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
               " [%0], [%1], %2, [%3], keep;\n}" ::"r"(gs_shared_at(shared + at)),
               "l"(x + i), "r"(count * (int)sizeof(T)), "r"(gs_shared_at(bars + j))
               : "memory");
}
// Closes the thread's open bulk group. Waits until all but its last n groups have been read from
// shared memory (which may be written anew then), or are done: seen by whoever reads global memory
// after a release of this thread (gs_bulk_fence() between, where other blocks rely on it).
GS_FN void gs_bulk_close() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int N> GS_FN void gs_bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
template <int N> GS_FN void gs_bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
GS_FN void gs_bulk_fence() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// ---- order, roles ----

// By each thread that wrote shared memory in the ordinary way, before the barrier after which TMA
// or wgmma reads it.
GS_FN void gs_proxy_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Barrier `id` (1 ... 15; 0 is GS_SYNC) of `threads` threads, whole warps: sync arrives and waits,
// arrive only arrives.
GS_FN void gs_bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
GS_FN void gs_bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// All warps of a warpgroup, each in its branch of one if: gives registers back to the processor, or
// waits until there are so many; n is a multiple of 8, 24 ... 240.
#define GS_REGISTERS_DOWN(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n))
#define GS_REGISTERS_UP(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n))

// ---- tiles, element by element ----

// Where element (row, column) of the tile of `rows` rows at `at` lies.
template <class T> GS_FN int gs_tile_at(const T *, int at, int rows, int row, int column) {
  constexpr int wide = 128 / (int)sizeof(T), chunk = 16 / (int)sizeof(T);
  const int c = column % wide;
  return at + (column / wide * rows + row) * wide + ((c / chunk) ^ (row & 7)) * chunk + c % chunk;
}
// By the 32 lanes of a warp: rows from ... rows-1 of the tile's panels become 0, seen by wgmma and
// TMA after a barrier or an arrival.
template <int PANELS, class T> GS_FN void gs_tile_zero(T *tile, int at, int rows, int from) {
  constexpr int wide = 128 / (int)sizeof(T), chunk = 16 / (int)sizeof(T);
  GS_UNROLL for (int p = 0; p < PANELS; p++)
    for (int i = from * 8 + GS_LANE; i < rows * 8; i += 32)
      *(uint4 *)(tile + at + p * rows * wide + i * chunk) = make_uint4(0u, 0u, 0u, 0u);
  gs_proxy_fence();
}

// ---- wgmma: products of a warpgroup ----
//
// The accumulators of a 64 x N tile are f32 acc[N / 2] in each of the 128 threads: acc[e] is
// element (gs_wg_row(e), gs_wg_column(e)). Four neighbouring lanes have a row between them.
GS_FN int gs_wg_row(int e) {
  return (GS_WARP & 3) * 16 + (GS_LANE >> 2) + (e >> 1 & 1) * 8;
}
GS_FN int gs_wg_column(int e) {
  return (e >> 2) * 8 + (GS_LANE & 3) * 2 + (e & 1);
}

template <class T> struct gs_wg_half { static constexpr bool is = false; };
template <> struct gs_wg_half<f16> { static constexpr bool is = true; };

// The left operand [64][K] in registers, made of accumulators by rounding (to nearest even).
template <class T, int K> struct gs_wg_left {
  unsigned w[K / 4];
};
template <class T, int K>
GS_FN void gs_wg_round(gs_wg_left<T, K> &to, const f32 (&acc)[K / 2]) {
  GS_UNROLL for (int j = 0; j < K / 4; j++) {
    if (gs_wg_half<T>::is)
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(to.w[j]) : "f"(acc[2 * j + 1]), "f"(acc[2 * j]));
    else
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(to.w[j]) : "f"(acc[2 * j + 1]), "f"(acc[2 * j]));
  }
}

// Descriptor of an operand in a tile: by rows (K runs along a row) or by columns (K runs down the
// rows) 8 rows are 1024 bytes; by columns, panels are `panel` bytes apart. A step of 16 bytes is 1
// in the low word; the high word is the same for all. Made anew each time: else the steps' words
// are kept in registers from one round of a loop to the next.
GS_FN unsigned gs_wg_place(const void *p, int panel) {
  unsigned place = (gs_shared_at(p) & 0x3ffffu) >> 4 | (unsigned)(panel >> 4) << 16;
  asm volatile("" : "+r"(place));
  return place;
}
GS_FN unsigned long long gs_wg_at(unsigned place) {
  return (unsigned long long)(1u << 30 | 64u) << 32 | place;
}
// One instruction for each N: 64 x N += 64 x 16 times 16 x N. TA, TB: 1 for an operand by columns.
template <int N> struct gs_wgmma;
#define GS_WG_R16 "%0,%1,%2,%3,%4,%5,%6,%7"
#define GS_WG_D16 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), \
  "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define GS_WG_R32 GS_WG_R16 "," "%8,%9,%10,%11,%12,%13,%14,%15"
#define GS_WG_D32 GS_WG_D16, \
  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), \
  "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define GS_WG_R48 GS_WG_R32 "," "%16,%17,%18,%19,%20,%21,%22,%23"
#define GS_WG_D48 GS_WG_D32, \
  "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), \
  "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define GS_WG_R64 GS_WG_R48 "," "%24,%25,%26,%27,%28,%29,%30,%31"
#define GS_WG_D64 GS_WG_D48, \
  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), \
  "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define GS_WG_R80 GS_WG_R64 "," "%32,%33,%34,%35,%36,%37,%38,%39"
#define GS_WG_D80 GS_WG_D64, \
  "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), \
  "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define GS_WG_R96 GS_WG_R80 "," "%40,%41,%42,%43,%44,%45,%46,%47"
#define GS_WG_D96 GS_WG_D80, \
  "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), \
  "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define GS_WG_R112 GS_WG_R96 "," "%48,%49,%50,%51,%52,%53,%54,%55"
#define GS_WG_D112 GS_WG_D96, \
  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), \
  "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define GS_WG_R128 GS_WG_R112 "," "%56,%57,%58,%59,%60,%61,%62,%63"
#define GS_WG_D128 GS_WG_D112, \
  "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), \
  "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define GS_WG_R144 GS_WG_R128 "," "%64,%65,%66,%67,%68,%69,%70,%71"
#define GS_WG_D144 GS_WG_D128, \
  "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), \
  "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define GS_WG_R160 GS_WG_R144 "," "%72,%73,%74,%75,%76,%77,%78,%79"
#define GS_WG_D160 GS_WG_D144, \
  "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), \
  "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define GS_WG_R176 GS_WG_R160 "," "%80,%81,%82,%83,%84,%85,%86,%87"
#define GS_WG_D176 GS_WG_D160, \
  "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), \
  "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define GS_WG_R192 GS_WG_R176 "," "%88,%89,%90,%91,%92,%93,%94,%95"
#define GS_WG_D192 GS_WG_D176, \
  "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), \
  "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define GS_WG_R208 GS_WG_R192 "," "%96,%97,%98,%99,%100,%101,%102,%103"
#define GS_WG_D208 GS_WG_D192, \
  "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), \
  "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define GS_WG_R224 GS_WG_R208 "," "%104,%105,%106,%107,%108,%109,%110,%111"
#define GS_WG_D224 GS_WG_D208, \
  "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), \
  "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define GS_WG_R240 GS_WG_R224 "," "%112,%113,%114,%115,%116,%117,%118,%119"
#define GS_WG_D240 GS_WG_D224, \
  "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), \
  "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define GS_WG_R256 GS_WG_R240 "," "%120,%121,%122,%123,%124,%125,%126,%127"
#define GS_WG_D256 GS_WG_D240, \
  "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), \
  "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
#define GS_WG_TEXT(N, TYPE) \
  "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" GS_WG_R##N "}, "
#define GS_WG_SHARED(N, TYPE, a, b, c, e, f) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #c ", 0;\n" GS_WG_TEXT(N, TYPE) \
               "%" #a ", %" #b ", p, 1, 1, %" #e ", %" #f ";\n}" \
               : GS_WG_D##N \
               : "l"(left), "l"(right), "r"(more), "n"(TA), "n"(TB))
#define GS_WG_LEFT(N, TYPE, a, b, c, e, f, g, h) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #f ", 0;\n" GS_WG_TEXT(N, TYPE) \
               "{%" #a ", %" #b ", %" #c ", %" #e "}, %" #g ", p, 1, 1, %" #h ";\n}" \
               : GS_WG_D##N \
               : "r"(l[0]), "r"(l[1]), "r"(l[2]), "r"(l[3]), "r"(more), "l"(right), "n"(TB))
#define GS_WGMMA(N, i0, i1, i2, i3, i4, i5, i6) \
  template <> struct gs_wgmma<N> { \
    typedef unsigned long long place; \
    template <bool HALF, int TA, int TB> \
    static GS_FN void shared(f32 *d, place left, place right, int more) { \
      if (HALF) \
        GS_WG_SHARED(N, "f16", i0, i1, i2, i3, i4); \
      else \
        GS_WG_SHARED(N, "bf16", i0, i1, i2, i3, i4); \
    } \
    template <bool HALF, int TB> \
    static GS_FN void left(f32 *d, const unsigned *l, place right, int more) { \
      if (HALF) \
        GS_WG_LEFT(N, "f16", i0, i1, i2, i3, i4, i5, i6); \
      else \
        GS_WG_LEFT(N, "bf16", i0, i1, i2, i3, i4, i5, i6); \
    } \
  };
GS_WGMMA(16, 8, 9, 10, 11, 12, 13, 14)
GS_WGMMA(32, 16, 17, 18, 19, 20, 21, 22)
GS_WGMMA(48, 24, 25, 26, 27, 28, 29, 30)
GS_WGMMA(64, 32, 33, 34, 35, 36, 37, 38)
GS_WGMMA(80, 40, 41, 42, 43, 44, 45, 46)
GS_WGMMA(96, 48, 49, 50, 51, 52, 53, 54)
GS_WGMMA(112, 56, 57, 58, 59, 60, 61, 62)
GS_WGMMA(128, 64, 65, 66, 67, 68, 69, 70)
GS_WGMMA(144, 72, 73, 74, 75, 76, 77, 78)
GS_WGMMA(160, 80, 81, 82, 83, 84, 85, 86)
GS_WGMMA(176, 88, 89, 90, 91, 92, 93, 94)
GS_WGMMA(192, 96, 97, 98, 99, 100, 101, 102)
GS_WGMMA(208, 104, 105, 106, 107, 108, 109, 110)
GS_WGMMA(224, 112, 113, 114, 115, 116, 117, 118)
GS_WGMMA(240, 120, 121, 122, 123, 124, 125, 126)
GS_WGMMA(256, 128, 129, 130, 131, 132, 133, 134)

// An operation has four steps: gs_wg_open() (registers and shared memory written before are seen);
// one or several products, which begin; gs_wg_close() makes a group of them; gs_wg_wait<n>(acc)
// waits for all but the last n groups: only then may acc be read or written, and the tiles and
// registers of the products be written. Groups end in order. Between open and wait<0> no other code
// touches acc.
GS_FN void gs_wg_open() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
GS_FN void gs_wg_close() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> GS_FN void gs_wg_hold(f32 (&acc)[N]) { // the compiler moves no use across
  GS_UNROLL for (int j = 0; j < N; j++) asm volatile("" : "+f"(acc[j])::"memory");
}
// Before a product with `more` 0: what acc holds is not needed, so that it takes no registers.
template <int N> GS_FN void gs_wg_new(f32 (&acc)[N]) {
  GS_UNROLL for (int j = 0; j < N; j++) asm volatile("" : "=f"(acc[j]));
}
template <int PENDING, int N> GS_FN void gs_wg_wait(f32 (&acc)[N]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
  gs_wg_hold(acc);
}
// An operand in shared memory is a tile of ROWS rows at `at`, of which it begins at `first`:
//   left,  COLUMNS 0: element (m, k) is (first + m, k) of the tile; 1: (k, first + m)
//   right, COLUMNS 0: element (k, n) is (first + n, k) of the tile; 1: (k, first + n)
// `first` is a multiple of 8; of 64 where COLUMNS is 1.
// acc [64][N] = left [64][K] times right [K][N], added to acc where `more` is not 0. K-steps of 16,
// ascending; inside a step the order is the hardware's.
template <int N, int K, int A_ROWS, int A_COLUMNS, int B_ROWS, int B_COLUMNS, class T>
GS_FN void gs_wg_product(f32 (&acc)[N / 2], const T *a, int a_at, int a_first, const T *b, int b_at,
                         int b_first, int more) {
  const unsigned left = gs_wg_place(
      a + a_at + (A_COLUMNS ? a_first * A_ROWS : a_first * 64), A_COLUMNS ? A_ROWS * 128 : 16);
  const unsigned right = gs_wg_place(
      b + b_at + (B_COLUMNS ? b_first * B_ROWS : b_first * 64), B_COLUMNS ? B_ROWS * 128 : 16);
  GS_UNROLL for (int k = 0; k < K / 16; k++) {
    const int l = A_COLUMNS ? k * 128 : k / 4 * (A_ROWS * 8) + k % 4 * 2; // 16 bytes each
    const int r = B_COLUMNS ? k * 128 : k / 4 * (B_ROWS * 8) + k % 4 * 2;
    gs_wgmma<N>::template shared<gs_wg_half<T>::is, A_COLUMNS, B_COLUMNS>(
        acc, gs_wg_at(left + l), gs_wg_at(right + r), k == 0 ? more : 1);
  }
}
// The same with the left operand in registers.
template <int N, int K, int B_ROWS, int B_COLUMNS, class T>
GS_FN void gs_wg_product(f32 (&acc)[N / 2], const gs_wg_left<T, K> &a, const T *b, int b_at,
                         int b_first, int more) {
  const unsigned right = gs_wg_place(
      b + b_at + (B_COLUMNS ? b_first * B_ROWS : b_first * 64), B_COLUMNS ? B_ROWS * 128 : 16);
  GS_UNROLL for (int k = 0; k < K / 16; k++) {
    const int r = B_COLUMNS ? k * 128 : k / 4 * (B_ROWS * 8) + k % 4 * 2;
    gs_wgmma<N>::template left<gs_wg_half<T>::is, B_COLUMNS>(acc, a.w + 4 * k, gs_wg_at(right + r),
                                                              k == 0 ? more : 1);
  }
}

// ---- accumulators to memory ----

// Rounds the warpgroup's [64][N] (from gs_wg_round) into rows first ... first+63, columns column
// ... of a tile of `rows` rows; `column` a multiple of 16. _turned: element (m, n) becomes (column
// + n, first + m) of the tile; `first` a multiple of 8. gs_proxy_fence() and a barrier before TMA
// or wgmma read it.
GS_FN void gs_wg_stmatrix(unsigned at, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a),
               "r"(b), "r"(c), "r"(d)
               : "memory");
}
GS_FN void gs_wg_stmatrix_turned(unsigned at, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
template <int N, class T>
GS_FN void gs_wg_put(T *tile, int at, int rows, int first, int column, const gs_wg_left<T, N> &v) {
  const int row = first + (GS_WARP & 3) * 16 + (GS_LANE & 15);
  GS_UNROLL for (int j = 0; j < N / 16; j++) {
    const int c = column + 16 * j + (GS_LANE >> 4) * 8;
    gs_wg_stmatrix(gs_shared_at(tile + gs_tile_at(tile, at, rows, row, c)), v.w[4 * j],
                   v.w[4 * j + 1], v.w[4 * j + 2], v.w[4 * j + 3]);
  }
}
template <int N, class T>
GS_FN void gs_wg_put_turned(T *tile, int at, int rows, int first, int column,
                            const gs_wg_left<T, N> &v) {
  const int c = first + (GS_WARP & 3) * 16 + (GS_LANE >> 3 & 1) * 8;
  GS_UNROLL for (int j = 0; j < N / 16; j++) {
    const int row = column + 16 * j + (GS_LANE >> 4) * 8 + (GS_LANE & 7);
    gs_wg_stmatrix_turned(gs_shared_at(tile + gs_tile_at(tile, at, rows, row, c)), v.w[4 * j],
                          v.w[4 * j + 1], v.w[4 * j + 2], v.w[4 * j + 3]);
  }
}
// The same unrounded, to a tile of f32 (panels of 32 columns); `column` a multiple of 8.
template <int N>
GS_FN void gs_wg_put_f32(f32 *tile, int at, int rows, int first, int column,
                         const f32 (&acc)[N / 2]) {
  GS_UNROLL for (int e = 0; e < N / 2; e += 2) {
    const int place =
        gs_tile_at(tile, at, rows, first + gs_wg_row(e), column + gs_wg_column(e));
    *(float2 *)(tile + place) = make_float2(acc[e], acc[e + 1]);
  }
}
// Where the four values e, e + 1, e + 4, e + 5 (e = 8 j or 8 j + 2) of a lane lie among `width` f32
// of their row: 4 (lane & 3) on in a group of 16, which is number column / 16 + j, the last bit
// turned in odd rows (no bank is met twice). _put_lanes: all of them, to rows first ... of shared
// memory; groups from `width` on are left out. Then gs_proxy_fence() and a barrier for a bulk
// operation.
GS_FN int gs_wg_lane_place(int row, int column, int e) {
  return (((column >> 4) + (e >> 3)) ^ (row & 1)) * 16 + (GS_LANE & 3) * 4;
}
template <int N>
GS_FN void gs_wg_put_lanes(f32 *to, int at, int width, int first, int column,
                           const f32 (&acc)[N / 2]) {
  GS_UNROLL for (int e = 0; e < N / 2; e += (e & 2) ? 6 : 2) {
    const int row = first + gs_wg_row(e), place = gs_wg_lane_place(row, column, e);
    if (column + (e >> 3) * 16 < width)
      *(float4 *)(to + at + row * width + place) =
          make_float4(acc[e], acc[e + 1], acc[e + 4], acc[e + 5]);
  }
}
// Rounds acc into y[at + row * ld + column] where row < rows and column < columns (a multiple of
// 8); at and ld at multiples of 16 bytes. Lanes exchange, so that each writes 16 bytes, four 64
// together.
template <int N, class T>
GS_FN void gs_wg_store(T *y, i64 at, i64 ld, int rows, int columns, const f32 (&acc)[N / 2]) {
  gs_wg_left<T, N> v;
  gs_wg_round(v, acc);
  const int j = GS_LANE & 3;
  GS_UNROLL for (int g = 0; g < N; g += 32) GS_UNROLL for (int half = 0; half < 2; half++) {
    unsigned w[4]; // w[c]: this lane's two columns of chunk g / 8 + c
    GS_UNROLL for (int c = 0; c < 4; c++) w[c] = g + 8 * c < N ? v.w[g / 4 + 2 * c + half] : 0u;
    const bool odd = j & 1, high = j & 2;
    const unsigned a = __shfl_xor_sync(0xffffffffu, odd ? w[0] : w[1], 1);
    const unsigned b = __shfl_xor_sync(0xffffffffu, odd ? w[2] : w[3], 1);
    const unsigned p0 = odd ? a : w[0], p1 = odd ? w[1] : a; // chunk j & 1, two lanes' words
    const unsigned q0 = odd ? b : w[2], q1 = odd ? w[3] : b; // chunk (j & 1) + 2
    const unsigned c0 = __shfl_xor_sync(0xffffffffu, high ? p0 : q0, 2);
    const unsigned c1 = __shfl_xor_sync(0xffffffffu, high ? p1 : q1, 2);
    const uint4 all = high ? make_uint4(c0, c1, q0, q1) : make_uint4(p0, p1, c0, c1);
    const int row = gs_wg_row(2 * half), column = g + 8 * j;
    if (row < rows && column < columns) *(uint4 *)(y + at + row * ld + column) = all;
  }
}
