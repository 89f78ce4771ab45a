// prelude_emu_tiles.h: the tile functions of prelude_cuda_tiles.cuh for the host; stands after
// prelude_emu.h.
//
// A tile lies in rows, one after another: nobody but these functions touches it. What a warp does
// together, its last lane does for all (gs_gather), with loops that the compiler vectorises. In the
// checked form the driver looks at every element, as prelude_emu.h has it; additions that come in
// turns may not race.

#define GS_TILES(t) ((t)->rt->tiles)

// Dynamic shared memory lies at its place behind the rest, so that arrays may share bytes.
#undef GS_DYNAMIC
GS_FN void *gs_dynamic(gs_emu_thread *t, unsigned at, i64 bytes, const char *name, int line) {
  if (at + bytes + t->shared_used > t->shared_limit) {
    t->shared_used += at + (unsigned)bytes;
    t->rt->shared_full(t, name, line);
  }
  return t->shared + GS_EMU_STATIC + at;
}

// ---- shared arrays and arguments, several elements at once ----

#if !defined(GS_CHECKED)
#define GS_DYNAMIC(type, name, at, count)                                                          \
  type *const name = static_cast<type *>(                                                          \
      gs_dynamic(gs_meet(gs_here), (at), (i64)sizeof(type) * (count), #name, __LINE__))
template <class P> struct gs_element_of;
template <class T> struct gs_element_of<T *> { typedef T type; };
template <class T> struct gs_element_of<const T *> { typedef T type; };
template <class T> GS_FN T *gs_span(T *x, i64 i, int, int, int) {
  return x + i;
}
template <class T> GS_FN int gs_argument(T *) {
  return 0;
}
GS_FN i32 *gs_words(i32 *x) {
  return x;
}
#else
GS_FN int gs_declare_at(gs_emu_thread *t, const char *name, int size, unsigned at, i64 count,
                        int line) {
  gs_dynamic(t, at, size * count, name, line);
  const unsigned used = t->shared_used, limit = t->shared_limit;
  t->shared_used = GS_EMU_STATIC + at + (unsigned)(size * count);
  t->shared_limit += GS_EMU_STATIC;
  const int number = t->rt->declare(t, name, size, count, line);
  t->shared_used = used;
  t->shared_limit = limit;
  return number;
}
#define GS_DYNAMIC(type, name, at, count)                                                          \
  const gs_inout<type> name = {                                                                    \
      {gs_here.self,                                                                               \
       gs_declare_at(gs_here.self, #name, (int)sizeof(type), (at), (count), __LINE__), true}}
template <class P> struct gs_element_of { typedef typename P::element type; };
template <class V> typename V::element *gs_span(V x, i64 i, int count, int how, int line) {
  return (typename V::element *)GS_TILES(x.p.t)->span(
      x.p.t, x.p.number, x.p.is_shared, i, (int)sizeof(typename V::element), count, how, line);
}
template <class V> int gs_argument(V x) {
  return x.p.number;
}
template <class V> i32 *gs_words(V) {
  return nullptr; // the driver finds it
}
#endif

// ---- one for all ----

GS_FN void *const *gs_gather(gs_emu_thread *t, void *mine, int lanes, int line) {
  return GS_TILES(t)->gather(t, mine, lanes, line);
}

// C[M][N] += A[M][K] B[K][N], k ascending, each step rounded; M a multiple of 4, N of 16.
#if !defined(GS_CHECKED)
typedef f32 gs_v16 __attribute__((vector_size(64), aligned(4)));
template <int M, int N, int K>
void gs_product(gs_emu_thread *, f32 *c, const f32 *a, const f32 *b) {
  for (int i = 0; i < M; i += 4)
    for (int j = 0; j < N; j += 16) {
      gs_v16 s0 = *(gs_v16 *)(c + i * N + j), s1 = *(gs_v16 *)(c + (i + 1) * N + j);
      gs_v16 s2 = *(gs_v16 *)(c + (i + 2) * N + j), s3 = *(gs_v16 *)(c + (i + 3) * N + j);
      const f32 *left = a + i * K;
      for (int k = 0; k < K; k++) {
        const gs_v16 right = *(const gs_v16 *)(b + k * N + j);
        s0 += left[k] * right;
        s1 += left[K + k] * right;
        s2 += left[2 * K + k] * right;
        s3 += left[3 * K + k] * right;
      }
      *(gs_v16 *)(c + i * N + j) = s0;
      *(gs_v16 *)(c + (i + 1) * N + j) = s1;
      *(gs_v16 *)(c + (i + 2) * N + j) = s2;
      *(gs_v16 *)(c + (i + 3) * N + j) = s3;
    }
}
#else
template <int M, int N, int K>
void gs_product(gs_emu_thread *t, f32 *c, const f32 *a, const f32 *b) {
  GS_TILES(t)->product(c, a, b, M, N, K);
}
#endif

// ---- accumulators and operands ----

GS_FN int gs_acc_row(int lane, int e) {
  return (lane >> 2) + 8 * (e >> 1);
}
GS_FN int gs_acc_col(int lane, int e) {
  return 2 * (lane & 3) + (e & 1);
}

template <int COLS, bool TURNED, class P> struct gs_view {
  static constexpr int cols = COLS;
  static constexpr bool turned = TURNED;
  typedef typename gs_element_of<P>::type element;
  P s;
  int at, row, col;
};
template <int COLS, class P> GS_FN gs_view<COLS, false, P> gs_rows(P s, int at, int row, int col) {
  return gs_view<COLS, false, P>{s, at, row, col};
}
template <int COLS, class P> GS_FN gs_view<COLS, true, P> gs_cols(P s, int at, int row, int col) {
  return gs_view<COLS, true, P>{s, at, row, col};
}
template <class T> struct gs_frag {
  typedef T element;
  unsigned w[4];
};
template <class T> GS_FN unsigned gs_pair(f32 a, f32 b) {
  return (unsigned)gs_round<T>::from(b).bits << 16 | gs_round<T>::from(a).bits;
}
template <class T, int M, int N>
GS_FN void gs_frags(gs_frag<T> (&p)[M][N / 2], const f32 (&acc)[M][N][4]) {
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++)
      for (int h = 0; h < 2; h++)
        p[m][n / 2].w[2 * (n & 1) + h] = gs_pair<T>(acc[m][n][2 * h], acc[m][n][2 * h + 1]);
}
// What word h of a lane's part of a left operand's 16 x 16 holds: two elements from here on.
GS_FN int gs_frag_row(int lane, int h) {
  return (lane >> 2) + 8 * (h & 1);
}
GS_FN int gs_frag_col(int lane, int h) {
  return 2 * (lane & 3) + 8 * (h >> 1);
}

// Elements (i, k) of a view, ROWS x K, in rows, or turned: [K][ROWS]. Eight that lie side by side
// are looked up at once.
template <int ROWS, int K, bool TURN, class V>
void gs_fetch_view(typename V::element *out, const V &v, int line) {
  typedef typename V::element T;
  constexpr int rows = V::turned ? K : ROWS, cols = V::turned ? ROWS : K;
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < cols; c += 8) {
      const T *e = gs_span(v.s, v.at + (v.row + r) * V::cols + v.col + c, 8, GS_EMU_READ, line);
      for (int j = 0; j < 8; j++) {
        const int i = V::turned ? c + j : r, k = V::turned ? r : c + j;
        out[TURN ? k * ROWS + i : i * K + k] = e[j];
      }
    }
}
template <int ROWS, int K, bool TURN, class V> void gs_widen_view(f32 *out, const V &v, int line) {
  typename V::element raw[ROWS * 16];
  for (int k0 = 0; k0 < K; k0 += 16) { // a fiber's stack is small
    V part = v;
    (V::turned ? part.row : part.col) += k0;
    gs_fetch_view<ROWS, 16, TURN>(raw, part, line);
    for (int n = 0; n < ROWS * 16; n++) {
      const int i = TURN ? n % ROWS : n / 16, k = TURN ? n / ROWS : n % 16;
      out[TURN ? (k0 + k) * ROWS + i : i * K + k0 + k] = gs_to_f32(raw[n]);
    }
  }
}

// ---- products ----

template <int M, int N, class A, class B> struct gs_mma_lane {
  f32 (*acc)[N][4];
  const A *left;
  const B *right;
};
// The left operand as [16 M][K]: of a view, which all lanes have, or of the lanes' registers.
template <int K, int M, int N, class L, class V>
void gs_left_of(f32 *a, void *const *lanes, const V *left, int line, const L *) {
  gs_widen_view<16 * M, K, false>(a, *left, line);
}
template <int K, int M, int N, class L, class T, int KS>
void gs_left_of(f32 *a, void *const *lanes, const gs_frag<T> (*)[M][KS], int, const L *) {
  static_assert(KS == K / 16, "");
  for (int lane = 0; lane < 32; lane++) {
    const auto &p = *((const L *)lanes[lane])->left;
    for (int m = 0; m < M; m++)
      for (int kk = 0; kk < KS; kk++)
        for (int h = 0; h < 4; h++) {
          f32 *to = a + (16 * m + gs_frag_row(lane, h)) * K + 16 * kk + gs_frag_col(lane, h);
          to[0] = gs_to_f32(T{(unsigned short)p[m][kk].w[h]});
          to[1] = gs_to_f32(T{(unsigned short)(p[m][kk].w[h] >> 16)});
        }
  }
}
template <int K, int M, int N, class A, class B>
void gs_mma(gs_emu_thread *t, f32 (&acc)[M][N][4], const A &left, const B &right, int line) {
  static_assert(K % 16 == 0 && N % 2 == 0, "whole steps");
  typedef gs_mma_lane<M, N, A, B> L;
  L mine = {acc, &left, &right};
  void *const *lanes = gs_gather(t, &mine, 32, line);
  if (lanes == nullptr) return;
  f32 *a = GS_TILES(t)->scratch(t, 16 * M * K + 8 * N * K + 16 * M * 8 * N);
  f32 *b = a + 16 * M * K, *c = b + 8 * N * K;
  gs_left_of<K, M, N, L>(a, lanes, &left, line, &mine);
  gs_widen_view<8 * N, K, true>(b, right, line);
  for (int lane = 0; lane < 32; lane++)
    for (int m = 0; m < M; m++)
      for (int n = 0; n < N; n++)
        for (int e = 0; e < 4; e++)
          c[(16 * m + gs_acc_row(lane, e)) * (8 * N) + 8 * n + gs_acc_col(lane, e)] =
              ((const L *)lanes[lane])->acc[m][n][e];
  gs_product<16 * M, 8 * N, K>(t, c, a, b);
  for (int lane = 0; lane < 32; lane++)
    for (int m = 0; m < M; m++)
      for (int n = 0; n < N; n++)
        for (int e = 0; e < 4; e++)
          ((const L *)lanes[lane])->acc[m][n][e] =
              c[(16 * m + gs_acc_row(lane, e)) * (8 * N) + 8 * n + gs_acc_col(lane, e)];
  GS_TILES(t)->release(t, 32);
}
#define GS_MMA(K, acc, left, right) gs_mma<(K)>(gs_meet(gs_here), acc, left, right, __LINE__)

template <class T, int M, int KS, class V>
void gs_frag_load(gs_emu_thread *t, gs_frag<T> (&p)[M][KS], const V &v, int line) {
  void *const *lanes = gs_gather(t, p, 32, line);
  if (lanes == nullptr) return;
  for (int kk = 0; kk < KS; kk++) {
    T raw[16 * M * 16];
    V part = v;
    (V::turned ? part.row : part.col) += 16 * kk;
    gs_fetch_view<16 * M, 16, false>(raw, part, line);
    for (int lane = 0; lane < 32; lane++)
      for (int m = 0; m < M; m++)
        for (int h = 0; h < 4; h++) {
          const T *e = raw + (16 * m + gs_frag_row(lane, h)) * 16 + gs_frag_col(lane, h);
          ((gs_frag<T>(*)[KS])lanes[lane])[m][kk].w[h] = (unsigned)e[1].bits << 16 | e[0].bits;
        }
  }
  GS_TILES(t)->release(t, 32);
}
#define GS_FRAG_LOAD(p, left) gs_frag_load(gs_meet(gs_here), p, left, __LINE__)

// ---- tiles from and to memory ----

template <int ROWS, int COLS, int D, int THREADS, class S, class X>
void gs_tile_copy(gs_emu_thread *t, S s, int at, X x, i64 i, i64 ld, int n, int line) {
  typedef typename gs_element_of<S>::type T;
  for (int j = t->tid; j < ROWS * (COLS / 8); j += THREADS) {
    const int r = j / (COLS / 8), c = j % (COLS / 8) * 8;
    T *to = gs_span(s, at + r * COLS + c, 8, GS_EMU_WRITE | GS_EMU_COPY, line);
    if (r < n && c < D)
      __builtin_memcpy(to, gs_span(x, i + r * ld + c, 8, GS_EMU_READ, line), 16);
    else
      __builtin_memset(to, 0, 16);
  }
}
#define GS_TILE_COPY(ROWS, COLS, D, THREADS, s, at, x, i, ld, n)                                   \
  gs_tile_copy<(ROWS), (COLS), (D), (THREADS)>(gs_meet(gs_here), s, at, x, i, ld, n, __LINE__)
template <int COUNT, int THREADS, class S, class X>
void gs_line_copy(gs_emu_thread *t, S s, int at, X x, i64 i, int line) {
  static_assert(COUNT % 4 == 0, "whole vectors");
  for (int j = 4 * t->tid; j < COUNT; j += 4 * THREADS)
    __builtin_memcpy(gs_span(s, at + j, 4, GS_EMU_WRITE | GS_EMU_COPY, line),
                     gs_span(x, i + j, 4, GS_EMU_READ, line), 16);
}
#define GS_LINE_COPY(COUNT, THREADS, s, at, x, i)                                                  \
  gs_line_copy<(COUNT), (THREADS)>(gs_meet(gs_here), s, at, x, i, __LINE__)
template <int COLS, int M, int N, class S>
void gs_tile_put(gs_emu_thread *t, S s, int at, int row, int col, const f32 (&acc)[M][N][4],
                 int line) {
  typedef typename gs_element_of<S>::type T;
  const int lane = t->tid & 31;
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++)
      for (int e = 0; e < 4; e += 2) {
        const int r = row + 16 * m + gs_acc_row(lane, e), c = col + 8 * n + gs_acc_col(lane, e);
        T *to = gs_span(s, at + r * COLS + c, 2, GS_EMU_WRITE, line);
        to[0] = gs_round<T>::from(acc[m][n][e]);
        to[1] = gs_round<T>::from(acc[m][n][e + 1]);
      }
}
#define GS_TILE_PUT(COLS, s, at, row, col, acc)                                                    \
  gs_tile_put<(COLS)>(gs_meet(gs_here), s, at, row, col, acc, __LINE__)
template <int ROWS, int COLS, int D, int THREADS, class Y, class S>
void gs_tile_store(gs_emu_thread *t, Y y, i64 i, i64 ld, S s, int at, int n, int line) {
  for (int j = t->tid; j < ROWS * (D / 8); j += THREADS) {
    const int r = j / (D / 8), c = j % (D / 8) * 8;
    if (r < n)
      __builtin_memcpy(gs_span(y, i + r * ld + c, 8, GS_EMU_WRITE, line),
                       gs_span(s, at + r * COLS + c, 8, GS_EMU_READ, line), 16);
  }
}
#define GS_TILE_STORE(ROWS, COLS, D, THREADS, y, i, ld, s, at, n)                                  \
  gs_tile_store<(ROWS), (COLS), (D), (THREADS)>(gs_meet(gs_here), y, i, ld, s, at, n, __LINE__)

// ---- rows of accumulators ----

template <int N> void gs_rows_of(gs_emu_thread *t, f32 (&v)[N], int op, int line) {
  void *const *lanes = gs_gather(t, v, 32, line);
  if (lanes == nullptr) return;
  for (int quad = 0; quad < 32; quad += 4)
    for (int j = 0; j < N; j++) {
      f32 in[4], two[4];
      for (int l = 0; l < 4; l++) in[l] = ((const f32 *)lanes[quad + l])[j];
      for (int l = 0; l < 4; l++)
        two[l] = op == GS_EMU_SUM ? in[l] + in[l ^ 2] : gs_max(in[l], in[l ^ 2]);
      for (int l = 0; l < 4; l++)
        ((f32 *)lanes[quad + l])[j] =
            op == GS_EMU_SUM ? two[l] + two[l ^ 1] : gs_max(two[l], two[l ^ 1]);
    }
  GS_TILES(t)->release(t, 32);
}
#define GS_ROWS_MAX(v) gs_rows_of(gs_meet(gs_here), v, GS_EMU_MAX, __LINE__)
#define GS_ROWS_SUM(v) gs_rows_of(gs_meet(gs_here), v, GS_EMU_SUM, __LINE__)
inline bool gs_any(gs_emu_thread *t, bool holds, int line) {
  int mine = holds;
  void *const *lanes = gs_gather(t, &mine, 32, line);
  if (lanes != nullptr) {
    int any = 0;
    for (int lane = 0; lane < 32; lane++) any |= *(const int *)lanes[lane];
    for (int lane = 0; lane < 32; lane++) *(int *)lanes[lane] = any;
    GS_TILES(t)->release(t, 32);
  }
  return *(volatile int *)&mine != 0;
}
#define GS_WARP_ANY(b) gs_any(gs_meet(gs_here), (b), __LINE__)

GS_FN f32 gs_exp2(f32 v) {
  const f32 c = v < -127.0f ? -127.0f : v > 129.0f ? 129.0f : v;
  const f32 t = c + 12582912.0f;
  const f32 r = (c - (t - 12582912.0f)) * 0.693147181f;
  f32 p = GS_MAD(r, 1.98412698e-4f, 1.38888889e-3f);
  p = GS_MAD(p, r, 8.33333333e-3f);
  p = GS_MAD(p, r, 4.16666667e-2f);
  p = GS_MAD(p, r, 1.66666667e-1f);
  p = GS_MAD(p, r, 0.5f);
  const gs_scale s = gs_exp2i(gs_bits(t) - 0x4b400000u);
  const f32 e = (1.0f + GS_MAD(p, r * r, r)) * s.a * s.b;
  return v < -126.0f ? 0.0f : e;
}

// ---- work items, turns, sums in memory ----

template <class C> int gs_number(gs_emu_thread *t, C counter, int items, int takers, int line) {
  return GS_TILES(t)->ticket(t, gs_words(counter), gs_argument(counter), items + takers - 1, line);
}
template <class C> int gs_ticket(gs_emu_thread *t, C counter, int items, int takers, int line) {
  return t->tid == 0 ? gs_number(t, counter, items, takers, line) : 0;
}
#define gs_take(counter, items, takers)                                                            \
  gs_number(gs_meet(gs_here), counter, items, takers, __LINE__)
template <class S> int gs_taken(gs_emu_thread *t, int ticket, S meet, int line) {
  t->rt->sync(t, line);
  if (t->tid == 0) *gs_span(meet, 0, 1, GS_EMU_WRITE, line) = ticket;
  t->rt->sync(t, line);
  const int number = *gs_span(meet, 0, 1, GS_EMU_READ, line);
  GS_TILES(t)->item(t, number);
  return number;
}
#define GS_TICKET(counter, items, takers)                                                          \
  gs_ticket(gs_meet(gs_here), counter, items, takers, __LINE__)
#define GS_TAKEN(ticket, meet) gs_taken(gs_meet(gs_here), ticket, meet, __LINE__)
template <class W> void gs_turn_wait(gs_emu_thread *t, W turns, i64 i, int value, int line) {
  if ((t->tid & 31) == 0)
    GS_TILES(t)->turn_wait(t, gs_words(turns), gs_argument(turns), i, value, line);
  t->rt->syncwarp(t, line);
}
template <class W> void gs_turn_pass(gs_emu_thread *t, W turns, i64 i, int value, int line) {
  t->rt->syncwarp(t, line);
  if ((t->tid & 31) == 0)
    GS_TILES(t)->turn_pass(t, gs_words(turns), gs_argument(turns), i, value, line);
}
#define GS_TURN_WAIT(turns, i, value) gs_turn_wait(gs_meet(gs_here), turns, i, value, __LINE__)
#define GS_TURN_PASS(turns, i, value) gs_turn_pass(gs_meet(gs_here), turns, i, value, __LINE__)

// One f32 in one step: other workers may add to it too.
GS_FN void gs_add_one(f32 *y, f32 v) {
#if defined(GS_CHECKED)
  *y += v;
#else
  gs_u32 old = __atomic_load_n((gs_u32 *)y, __ATOMIC_RELAXED), sum;
  do sum = gs_bits(gs_float(old) + v);
  while (!__atomic_compare_exchange_n((gs_u32 *)y, &old, sum, true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED));
#endif
}
template <int N, class Y>
void gs_add_f32(Y y, i64 i, const f32 (&v)[N], int line = __builtin_LINE()) {
  static_assert(N == 1 || N == 2 || N == 4, "1, 2 or 4 side by side");
  f32 *to = gs_span(y, i, N, GS_EMU_READ | GS_EMU_WRITE | GS_EMU_ADD, line);
  for (int j = 0; j < N; j++) gs_add_one(to + j, v[j]);
}
