// prelude_cuda_tiles.cuh: tiles of 16-bit elements in shared memory and products of them
// (mma.sync, ldmatrix, cp.async), for sm_80 and later; comes after prelude_cuda.cuh.
//
// A tile is ROWS x COLS elements (bf16 or f16) from element `at` of a shared array, `at` a multiple
// of 64, COLS one of 16. Where an element lies inside it (16-byte pieces of a row are swapped so
// that eight rows meet all banks) is known here only: tiles are written by GS_TILE_COPY and
// GS_TILE_PUT and read by GS_MMA and GS_TILE_STORE. GS_ words are called by all threads of a warp
// (or, where said, of the block) together.
//
// Accumulators of a warp's product of 16 M x 8 N elements are f32 acc[M][N][4]: element e of
// acc[m][n] is at row 16 m + gs_acc_row(GS_LANE, e), column 8 n + gs_acc_col(GS_LANE, e).

GS_FN int gs_acc_row(int lane, int e) {
  return (lane >> 2) + 8 * (e >> 1);
}
GS_FN int gs_acc_col(int lane, int e) {
  return 2 * (lane & 3) + (e & 1);
}

// Computed anew at each use, rather than kept in a register from one loop's turn to the next.
GS_FN int gs_afresh(int v) {
  asm volatile("" : "+r"(v));
  return v;
}
// Of `width` pieces that lie side by side each row has its own order: piece c is at c ^ of(row).
template <int COLS> struct gs_swizzle {
  static_assert(COLS % 16 == 0, "a tile's columns are a multiple of 16");
  static constexpr int pieces = COLS / 8;
  static constexpr int width = pieces % 8 == 0 ? 8 : pieces % 4 == 0 ? 4 : 2;
  static GS_FN int of(int row) {
    return width == 8 ? row & 7 : width == 4 ? row >> 1 & 3 : row >> 2 & 1;
  }
  static GS_FN int place(int row, int piece) { return (row * pieces + (piece ^ of(row))) * 8; }
};

// ---- operands ----

// gs_rows<COLS>(s, at, row, col): element (i, k) of the operand is the tile's (row + i, col + k);
// gs_cols<COLS>(s, at, row, col): it is the tile's (row + k, col + i). row is a multiple of 16; col
// is a multiple of 64, or of the columns taken where those are 16, 32 or 64, or, where the columns
// taken are no power of two, of 16.
template <int COLS, bool TURNED, class T> struct gs_view {
  static constexpr int cols = COLS;
  static constexpr bool turned = TURNED;
  typedef T element;
  const T *s;
  int row, col;
};
template <int COLS, class T> GS_FN gs_view<COLS, false, T> gs_rows(T *s, int at, int row, int col) {
  return gs_view<COLS, false, T>{s + at, row, col};
}
template <int COLS, class T> GS_FN gs_view<COLS, true, T> gs_cols(T *s, int at, int row, int col) {
  return gs_view<COLS, true, T>{s + at, row, col};
}
// 16 x 16 elements of a left operand, as the lanes of a warp hold them.
template <class T> struct gs_frag {
  typedef T element;
  unsigned w[4];
};
// Accumulators, rounded to T, as a left operand: gs_frags(p, acc), p[M][N / 2] of acc[M][N][4].
template <class T> struct gs_pair;
template <> struct gs_pair<bf16> {
  static GS_FN unsigned of(f32 a, f32 b) {
    unsigned w;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a));
    return w;
  }
};
template <> struct gs_pair<f16> {
  static GS_FN unsigned of(f32 a, f32 b) {
    unsigned w;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a));
    return w;
  }
};
template <class T, int M, int N>
GS_FN void gs_frags(gs_frag<T> (&p)[M][N / 2], const f32 (&acc)[M][N][4]) {
  GS_UNROLL for (int m = 0; m < M; m++) GS_UNROLL for (int n = 0; n < N; n++) {
    p[m][n / 2].w[2 * (n & 1)] = gs_pair<T>::of(acc[m][n][0], acc[m][n][1]);
    p[m][n / 2].w[2 * (n & 1) + 1] = gs_pair<T>::of(acc[m][n][2], acc[m][n][3]);
  }
}

// ---- products ----

template <bool TURNED> GS_FN void gs_ldmatrix(unsigned (&w)[4], unsigned at) {
  if (TURNED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(at)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(at)
                 : "memory");
}
GS_FN void gs_mma_one(f32 (&c)[4], const gs_frag<bf16> &a, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b0), "r"(b1));
}
GS_FN void gs_mma_one(f32 (&c)[4], const gs_frag<f16> &a, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b0), "r"(b1));
}
// Where a lane's row of the four 8 x 8 matrices lies, for an operand that takes `taken` pieces of
// 8 columns; at(i, j): 16 i rows and 2 j pieces on.
template <class V, int TAKEN> struct gs_walk {
  typedef gs_swizzle<V::cols> S;
  static constexpr int width = S::width, line = S::pieces * 16; // bytes of a row
  static constexpr bool even = TAKEN % width == 0 || (TAKEN & (TAKEN - 1)) == 0;
  unsigned base;
  int piece, turn;
  // paired: the second matrix is 8 columns on, not 8 rows.
  GS_FN gs_walk(const V &v, bool paired) {
    const int lane = GS_LANE, high = lane >> 4, middle = lane >> 3 & 1;
    const int r = (lane & 7) + 8 * (paired ? high : middle);
    piece = v.col / 8 + (paired ? middle : high);
    turn = S::of(r);
    base = (unsigned)__cvta_generic_to_shared(v.s) + (unsigned)((v.row + r) * line);
    if (even) base += (unsigned)((piece ^ turn) * 16);
    base = (unsigned)gs_afresh((int)base);
  }
  GS_FN unsigned at(int i, int j) const {
    if (!even) return base + (unsigned)((piece + 2 * j) ^ turn) * 16u + (unsigned)(i * 16 * line);
    const int low = 2 * j & (width - 1), far = 2 * j - low;
    return (base ^ (unsigned)(low * 16)) + (unsigned)(far * 16 + i * 16 * line);
  }
};
// The left operand's part at k-step kk: from shared memory, or from registers.
template <int K, int M, class V> struct gs_left {
  typedef typename V::element T;
  typedef gs_frag<T> part[M];
  gs_walk<V, V::turned ? 2 * M : K / 8> walk;
  GS_FN gs_left(const V &v) : walk(v, V::turned) {}
  GS_FN void get(gs_frag<T> (&a)[M], int kk) const {
    GS_UNROLL for (int m = 0; m < M; m++)
      gs_ldmatrix<V::turned>(a[m].w, V::turned ? walk.at(kk, m) : walk.at(m, kk));
  }
};
template <int K, int M, class T> struct gs_left<K, M, gs_frag<T>[M][K / 16]> {
  const gs_frag<T> (&p)[M][K / 16];
  GS_FN gs_left(const gs_frag<T> (&v)[M][K / 16]) : p(v) {}
  GS_FN void get(gs_frag<T> (&a)[M], int kk) const {
    GS_UNROLL for (int m = 0; m < M; m++) a[m] = p[m][kk];
  }
};
// GS_MMA(K, acc, left, right): acc(i, j) += sum over k < K of left(i, k) right(j, k), k ascending
// in steps of 16. left: a view, or gs_frag<T> [M][K / 16]; right: a view; K a multiple of 16, N
// even.
template <int K, int M, int N, class A, class B>
GS_FN void gs_mma(f32 (&acc)[M][N][4], const A &left, const B &right) {
  static_assert(K % 16 == 0 && N % 2 == 0, "whole steps");
  typedef typename B::element T;
  const gs_left<K, M, A> a(left);
  const gs_walk<B, B::turned ? N : K / 8> b(right, !B::turned);
  GS_UNROLL for (int kk = 0; kk < K / 16; kk++) {
    gs_frag<T> part[M];
    a.get(part, kk);
    GS_UNROLL for (int n = 0; n < N; n += 2) {
      unsigned w[4];
      gs_ldmatrix<B::turned>(w, B::turned ? b.at(kk, n / 2) : b.at(n / 2, kk));
      GS_UNROLL for (int m = 0; m < M; m++) {
        gs_mma_one(acc[m][n], part[m], w[0], w[1]);
        gs_mma_one(acc[m][n + 1], part[m], w[2], w[3]);
      }
    }
  }
}
#define GS_MMA(K, acc, left, right) gs_mma<(K)>(acc, left, right)
// GS_FRAG_LOAD(p, left): a view's elements as gs_frag<T> p[M][K / 16], kept in registers.
template <class T, int M, int KS, class V>
GS_FN void gs_frag_load(gs_frag<T> (&p)[M][KS], const V &v) {
  const gs_left<16 * KS, M, V> a(v);
  GS_UNROLL for (int kk = 0; kk < KS; kk++) {
    gs_frag<T> part[M];
    a.get(part, kk);
    GS_UNROLL for (int m = 0; m < M; m++) p[m][kk] = part[m];
  }
}
#define GS_FRAG_LOAD(p, left) gs_frag_load(p, left)

// ---- tiles from and to memory ----

// GS_TILE_COPY(ROWS, COLS, D, THREADS, s, at, x, i, ld, n), by the whole block: begins copies of a
// tile; element (r, c) becomes x[i + r ld + c] where r < n and c < D, else 0. i and ld multiples of
// 8, D too. Part of the threads' group of copies: GS_COPY_CLOSE, GS_COPY_WAIT, then a barrier.
GS_FN void gs_copy_piece(unsigned to, const void *from, bool there) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
template <int ROWS, int COLS, int D, int THREADS, class T>
GS_FN void gs_tile_copy(T *s, int at, const T *x, i64 i, i64 ld, int n) {
  typedef gs_swizzle<COLS> S;
  constexpr int count = ROWS * S::pieces;
  const unsigned to = (unsigned)__cvta_generic_to_shared(s + at);
  if (THREADS % S::pieces == 0 && THREADS / S::pieces % 8 == 0 && count % THREADS == 0) {
    constexpr int by = THREADS / S::pieces; // the same piece of every by-th row
    const int tid = gs_afresh(GS_TID), r = tid / S::pieces, c = tid % S::pieces;
    const T *from = x + (i + r * ld + c * 8);
    const i64 step = by * ld;
    const unsigned place = to + (unsigned)S::place(r, c) * 2u;
    GS_UNROLL for (int j = 0; j < ROWS / by; j++) {
      gs_copy_piece(place + (unsigned)(j * by * COLS * 2), from, r + j * by < n && c * 8 < D);
      from += step;
    }
  } else {
    for (int j = gs_afresh(GS_TID); j < count; j += THREADS) {
      const int r = j / S::pieces, c = j % S::pieces;
      const bool there = r < n && c * 8 < D;
      const T *from = x + (there ? i + r * ld + c * 8 : i);
      gs_copy_piece(to + (unsigned)S::place(r, c) * 2u, from, there);
    }
  }
}
#define GS_TILE_COPY(ROWS, COLS, D, THREADS, s, at, x, i, ld, n)                                   \
  gs_tile_copy<(ROWS), (COLS), (D), (THREADS)>(s, at, x, i, ld, n)
// GS_LINE_COPY(COUNT, THREADS, s, at, x, i), by the whole block: begins a copy of COUNT f32, a
// multiple of 4: s[at + j] becomes x[i + j]; at and i multiples of 4. In the group as above.
template <int COUNT, int THREADS> GS_FN void gs_line_copy(f32 *s, int at, const f32 *x, i64 i) {
  static_assert(COUNT % 4 == 0, "whole vectors");
  const unsigned to = (unsigned)__cvta_generic_to_shared(s + at);
  const int tid = gs_afresh(GS_TID);
  GS_UNROLL for (int by = 0; by < COUNT / 4; by += THREADS) {
    const int j = by + tid;
    if (j < COUNT / 4) gs_copy_piece(to + (unsigned)j * 16u, x + i + 4 * j, true);
  }
}
#define GS_LINE_COPY(COUNT, THREADS, s, at, x, i) gs_line_copy<(COUNT), (THREADS)>(s, at, x, i)
// GS_TILE_PUT(COLS, s, at, row, col, acc): a warp's accumulators, rounded, to the tile from (row,
// col), multiples of 16. Others read it after a barrier.
template <int COLS, int M, int N, class T>
GS_FN void gs_tile_put(T *s, int at, int row, int col, const f32 (&acc)[M][N][4]) {
  typedef gs_swizzle<COLS> S;
  const int lane = gs_afresh(GS_LANE);
  GS_UNROLL for (int m = 0; m < M; m++) GS_UNROLL for (int n = 0; n < N; n++)
      GS_UNROLL for (int h = 0; h < 2; h++) {
    const int r = row + 16 * m + gs_acc_row(lane, 2 * h);
    *(unsigned *)(s + at + S::place(r, col / 8 + n) + gs_acc_col(lane, 0)) =
        gs_pair<T>::of(acc[m][n][2 * h], acc[m][n][2 * h + 1]);
  }
}
#define GS_TILE_PUT(COLS, s, at, row, col, acc) gs_tile_put<(COLS)>(s, at, row, col, acc)
// GS_TILE_STORE(ROWS, COLS, D, THREADS, y, i, ld, s, at, n), by the whole block, after a barrier:
// y[i + r ld + c] becomes the tile's (r, c) where r < n and c < D.
template <int ROWS, int COLS, int D, int THREADS, class T>
GS_FN void gs_tile_store(T *y, i64 i, i64 ld, const T *s, int at, int n) {
  typedef gs_swizzle<COLS> S;
  if (THREADS % (D / 8) == 0) { // the same piece of every by-th row
    constexpr int by = THREADS / (D / 8);
    const int tid = gs_afresh(GS_TID), c = tid % (D / 8);
    for (int r = tid / (D / 8); r < ROWS && r < n; r += by)
      *(uint4 *)(y + (i + r * ld + c * 8)) = *(const uint4 *)(s + at + S::place(r, c));
  } else {
    for (int j = gs_afresh(GS_TID); j < ROWS * (D / 8); j += THREADS) {
      const int r = j / (D / 8), c = j % (D / 8);
      if (r < n) *(uint4 *)(y + (i + r * ld + c * 8)) = *(const uint4 *)(s + at + S::place(r, c));
    }
  }
}
#define GS_TILE_STORE(ROWS, COLS, D, THREADS, y, i, ld, s, at, n)                                  \
  gs_tile_store<(ROWS), (COLS), (D), (THREADS)>(y, i, ld, s, at, n)

// ---- rows of accumulators ----

// GS_ROWS_MAX(v), GS_ROWS_SUM(v): each of f32 v[N] becomes that of the four lanes that share a row
// (lanes 4 i .. 4 i + 3), joined at distance 2, then 1; all N in one exchange.
template <class OP, int N> GS_FN void gs_rows_of(f32 (&v)[N]) {
  GS_UNROLL for (int j = 0; j < N; j++) v[j] = gs_group<OP, 4>(v[j]);
}
#define GS_ROWS_MAX(v) gs_rows_of<gs_op_max>(v)
#define GS_ROWS_SUM(v) gs_rows_of<gs_op_sum>(v)
// GS_WARP_ANY(b): whether it holds in any lane of the warp.
#define GS_WARP_ANY(b) (__any_sync(0xffffffffu, (b)) != 0)
// 2^v to 2 ulp; 0 for -infinity, subnormal results are 0.
GS_FN f32 gs_exp2(f32 v) {
  f32 e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(v));
  return e;
}

// ---- work items, turns, sums in memory ----

// GS_TICKET(counter, items, takers): takes the next number of a counter (i32 in global memory, 0 at
// first) for the block; what comes back means something only as GS_TAKEN's argument.
// GS_TAKEN(ticket, meet): that number, in every thread of the block; a barrier before and one
// inside; meet: a shared i32 of this use alone. A block stops at its first number that is not below
// `items`; the last of the `takers` blocks to stop leaves the counter 0. A block may reserve its
// next item while it works on one: it still takes items in ascending order.
// gs_take(counter, items, takers): the same number, for the one thread that calls it.
GS_FN int gs_take(i32 *counter, int items, int takers) {
  return (int)atomicInc((unsigned *)counter, (unsigned)(items + takers - 1));
}
GS_FN int gs_ticket(i32 *counter, int items, int takers) {
  return GS_TID == 0 ? gs_take(counter, items, takers) : 0;
}
GS_FN int gs_taken(int ticket, i32 *meet) {
  __syncthreads();
  if (GS_TID == 0) meet[0] = ticket;
  __syncthreads();
  return meet[0];
}
#define GS_TICKET(counter, items, takers) gs_ticket(counter, items, takers)
#define GS_TAKEN(ticket, meet) gs_taken(ticket, meet)
// GS_TURN_WAIT(turns, i, value): the warp waits until turns[i] == value, and sees all that was
// written before that turn was passed. GS_TURN_PASS(turns, i, value): the warp makes it value,
// after all that its lanes have written and added. turns: i32 in global memory, 0 at first.
GS_FN void gs_turn_wait(i32 *turns, i64 i, int value) {
  if (GS_LANE == 0) {
    int seen;
    do
      asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(turns + i) : "memory");
    while (seen != value);
  }
  __syncwarp();
}
GS_FN void gs_turn_pass(i32 *turns, i64 i, int value) {
  __syncwarp();
  if (GS_LANE == 0)
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(turns + i), "r"(value) : "memory");
}
#define GS_TURN_WAIT(turns, i, value) gs_turn_wait(turns, i, value)
#define GS_TURN_PASS(turns, i, value) gs_turn_pass(turns, i, value)
// gs_add_f32<N>(y, i, v): adds v to the N f32 from y[i] on, N 1, 2 or 4, naturally aligned, each
// sum rounded once, nothing read back. Additions of several blocks come in any order, but for
// turns.
template <int N> GS_FN void gs_add_f32(f32 *y, i64 i, const f32 (&v)[N]) {
#if __CUDA_ARCH__ >= 900
  if (N == 4)
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(y + i),
                 "f"(v[0]), "f"(v[1 % N]), "f"(v[2 % N]), "f"(v[3 % N])
                 : "memory");
  else if (N == 2)
    asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(y + i), "f"(v[0]),
                 "f"(v[1 % N])
                 : "memory");
  else
#endif
    GS_UNROLL for (int j = 0; j < N; j++)
      asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(y + i + j), "f"(v[j])
                   : "memory");
}
