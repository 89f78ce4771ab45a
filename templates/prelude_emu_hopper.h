// prelude_emu_hopper.h: the functions of prelude_cuda_hopper.cuh for the host; stands after
// prelude_emu_tiles.h.
//
// Copies and products are done where they begin. The checked form keeps the results of products
// away (the accumulators hold a NaN) and reports whoever touches what is under way before he has
// waited; see runtime/device/emu/order.h. Tiles have the places that the hardware gives them.

// ---- barriers that count ----

struct gs_mbar {
  unsigned long long word;
};
template <class B> GS_FN void *gs_bar(B bars, int i, int line) {
  return gs_span(bars, i, 1, 0, line);
}
template <class B>
void gs_bar_make(gs_emu_thread *t, B bars, int i, int count, const char *name, int line) {
  GS_TILES(t)->bar_init(t, gs_bar(bars, i, line), name, i, count, line);
}
template <class B> void gs_bar_come(gs_emu_thread *t, B bars, int i, int bytes, int line) {
  GS_TILES(t)->bar_arrive(t, gs_bar(bars, i, line), bytes, line);
}
template <class B> void gs_bar_come_warp(gs_emu_thread *t, B bars, int i, int line) {
  t->rt->syncwarp(t, line);
  if ((t->tid & 31) == 0) gs_bar_come(t, bars, i, 0, line);
}
template <class B> void gs_bar_await(gs_emu_thread *t, B bars, int i, int parity, int line) {
  GS_TILES(t)->bar_wait(t, gs_bar(bars, i, line), parity, line);
}
#define gs_mbar_init(bars, i, count)                                                               \
  gs_bar_make(gs_meet(gs_here), bars, (i), (count), #bars, __LINE__)
#define gs_mbar_ready() (GS_TILES(gs_meet(gs_here))->bar_ready(gs_here.self, __LINE__))
#define gs_mbar_arrive(bars, i) gs_bar_come(gs_meet(gs_here), bars, (i), 0, __LINE__)
#define gs_mbar_arrive_warp(bars, i) gs_bar_come_warp(gs_meet(gs_here), bars, (i), __LINE__)
#define gs_mbar_expect(bars, i, bytes) gs_bar_come(gs_meet(gs_here), bars, (i), (bytes), __LINE__)
#define gs_mbar_wait(bars, i, parity) gs_bar_await(gs_meet(gs_here), bars, (i), (parity), __LINE__)

// ---- maps ----

struct gs_map {
  const gs_emu_map *m;
  gs_emu_thread *t;
};
#define GS_MAP(type, x) const gs_map x
template <> struct gs_param<gs_map> {
  static GS_FN gs_map get(gs_emu_thread *t, const gs_emu_arg *a, int i) {
    return gs_map{a[i].map, t};
  }
};
#define gs_map_ahead(map) ((void)sizeof(map))

// Where element (row, column) lies of a box's rows of 128 bytes, in elements.
template <class T> GS_FN int gs_panel_place(int row, int column) {
  constexpr int chunk = 16 / (int)sizeof(T);
  return row * (128 / (int)sizeof(T)) + ((column / chunk) ^ (row & 7)) * chunk + column % chunk;
}
// `count` elements of the map's tensor, which are inside.
template <class T>
GS_FN T *gs_map_span(const gs_map &map, i64 index, int count, int how, int line) {
#if defined(GS_CHECKED)
  return (T *)GS_TILES(map.t)->span(map.t, map.m->arg, 0, index, (int)sizeof(T), count, how, line);
#else
  return (T *)map.m->ptr + index;
#endif
}
// Calls f(place in the panel, element of the tensor or -1 outside it) for each 16 bytes of a box.
template <class T, class F>
GS_FN void gs_each_chunk(const gs_map &map, int column, int head, int row, F f) {
  const gs_emu_map &m = *map.m;
  constexpr int chunk = 16 / (int)sizeof(T);
  for (int r = 0; r < m.box[2]; r++)
    for (int h = 0; h < m.box[1]; h++)
      for (int c = 0; c < m.box[0]; c += chunk) {
        const bool inside =
            row + r < m.extent[2] && head + h < m.extent[1] && column + c < m.extent[0];
        const i64 at = (row + r) * m.row + (head + h) * m.head + column + c;
        const int line = r * m.box[1] + h;
        f(m.swizzle ? gs_panel_place<T>(line, c) : line * m.box[0] + c, inside ? at : -1);
      }
}
template <class S, class B>
void gs_map_load(gs_emu_thread *t, S tile, int at, const gs_map &map, B bars, int i, int column,
                 int head, int row, int line) {
  typedef typename gs_element_of<S>::type T;
  constexpr int chunk = 16 / (int)sizeof(T);
  void *bar = gs_bar(bars, i, line);
  GS_TILES(t)->bar_copies(t, bar, line);
  gs_each_chunk<T>(map, column, head, row, [&](int place, i64 from) {
    T *to = gs_span(tile, at + place, chunk, GS_EMU_WRITE | GS_EMU_BY_BAR, line);
    if (from < 0)
      __builtin_memset(to, 0, 16);
    else
      __builtin_memcpy(to, gs_map_span<T>(map, from, chunk, GS_EMU_READ, line), 16);
  });
  GS_TILES(t)->bar_landed(t, bar, map.m->box[0] * map.m->box[1] * map.m->box[2] * (int)sizeof(T),
                          line);
}
#define gs_tma_load(tile, at, map, bars, i, column, head, row)                                     \
  gs_map_load(gs_meet(gs_here), tile, (at), map, bars, (i), (column), (head), (row), __LINE__)
enum { GS_ADDS_LATER = GS_EMU_READ | GS_EMU_WRITE | GS_EMU_ADD | GS_EMU_BY_BULK };
template <class S>
void gs_map_add(const gs_map &map, S tile, int at, int column, int head, int row, int line) {
  gs_each_chunk<f32>(map, column, head, row, [&](int place, i64 to) {
    const f32 *from = gs_span(tile, at + place, 4, GS_EMU_READ | GS_EMU_BY_BULK, line);
    if (to < 0) return;
    f32 *y = gs_map_span<f32>(map, to, 4, GS_ADDS_LATER, line);
    for (int j = 0; j < 4; j++) gs_add_one(y + j, from[j]);
  });
}
#define gs_tma_add(map, tile, at, column, head, row)                                               \
  gs_map_add(map, tile, (at), (column), (head), (row), __LINE__)

// ---- bulk copies ----

template <class Y, class S> void gs_bulk_add(Y x, i64 i, S shared, int at, int count, int line) {
  for (int k = 0; k < count; k += 4) {
    const f32 *from = gs_span(shared, at + k, 4, GS_EMU_READ | GS_EMU_BY_BULK, line);
    f32 *y = gs_span(x, i + k, 4, GS_ADDS_LATER, line);
    for (int j = 0; j < 4; j++) gs_add_one(y + j, from[j]);
  }
}
#define gs_bulk_add(x, i, shared, at, count) gs_bulk_add(x, (i), shared, (at), (count), __LINE__)
template <class Y, class S> void gs_bulk_store(Y x, i64 i, S shared, int at, int count, int line) {
  for (int k = 0; k < count; k += 4) {
    const f32 *from = gs_span(shared, at + k, 4, GS_EMU_READ | GS_EMU_BY_BULK, line);
    f32 *y = gs_span(x, i + k, 4, GS_EMU_WRITE | GS_EMU_BY_BULK, line);
    for (int j = 0; j < 4; j++) y[j] = from[j];
  }
}
#define gs_bulk_store(x, i, shared, at, count)                                                     \
  gs_bulk_store(x, (i), shared, (at), (count), __LINE__)
template <class S, class X, class B>
void gs_bulk_bring(gs_emu_thread *t, S shared, int at, X x, i64 i, int count, B bars, int j,
                   int line) {
  typedef typename gs_element_of<S>::type T;
  constexpr int chunk = 16 / (int)sizeof(T);
  void *bar = gs_bar(bars, j, line);
  GS_TILES(t)->bar_copies(t, bar, line);
  for (int k = 0; k < count; k += chunk)
    __builtin_memcpy(gs_span(shared, at + k, chunk, GS_EMU_WRITE | GS_EMU_BY_BAR, line),
                     gs_span(x, i + k, chunk, GS_EMU_READ | GS_EMU_BY_BAR, line), 16);
  GS_TILES(t)->bar_landed(t, bar, count * (int)sizeof(T), line);
}
#define gs_bulk_load(shared, at, x, i, count, bars, j)                                             \
  gs_bulk_bring(gs_meet(gs_here), shared, (at), x, (i), (count), bars, (j), __LINE__)
#define gs_bulk_load_back gs_bulk_load
#define gs_bulk_close() (GS_TILES(gs_meet(gs_here))->bulk_close(gs_here.self, __LINE__))
#define gs_bulk_fence() ((void)0)

// ---- order, roles ----

#define gs_proxy_fence() (GS_TILES(gs_meet(gs_here))->fence(gs_here.self, __LINE__))
#define gs_bar_sync(id, threads)                                                                   \
  (GS_TILES(gs_meet(gs_here))->named(gs_here.self, (id), (threads), 1, __LINE__))
#define gs_bar_arrive(id, threads)                                                                 \
  (GS_TILES(gs_meet(gs_here))->named(gs_here.self, (id), (threads), 0, __LINE__))
#define gs_afresh(v) ((int)(v))
#define GS_REGISTERS_DOWN(n) (GS_TILES(gs_meet(gs_here))->registers(gs_here.self, (n), 0, __LINE__))
#define GS_REGISTERS_UP(n) (GS_TILES(gs_meet(gs_here))->registers(gs_here.self, (n), 1, __LINE__))

// ---- tiles, element by element ----

template <class P> GS_FN int gs_tile_at(P, int at, int rows, int row, int column) {
  typedef typename gs_element_of<P>::type T;
  constexpr int wide = 128 / (int)sizeof(T);
  return at + column / wide * rows * wide + gs_panel_place<T>(row, column % wide);
}

// ---- products of a warpgroup ----

GS_FN int gs_wg_row_of(int tid, int e) {
  return (tid >> 5 & 3) * 16 + ((tid & 31) >> 2) + (e >> 1 & 1) * 8;
}
GS_FN int gs_wg_column_of(int tid, int e) {
  return (e >> 2) * 8 + (tid & 3) * 2 + (e & 1);
}
#define gs_wg_row(e) gs_wg_row_of(gs_here.tid, (e))
#define gs_wg_column(e) gs_wg_column_of(gs_here.tid, (e))
GS_FN int gs_wg_lane_place_of(int tid, int row, int column, int e) {
  return (((column >> 4) + (e >> 3)) ^ (row & 1)) * 16 + (tid & 3) * 4;
}
#define gs_wg_lane_place(row, column, e) gs_wg_lane_place_of(gs_here.tid, (row), (column), (e))

template <class T, int K> struct gs_wg_left { unsigned w[K / 4]; };
template <class T, int K> GS_FN void gs_wg_round(gs_wg_left<T, K> &to, const f32 (&acc)[K / 2]) {
  for (int j = 0; j < K / 4; j++) to.w[j] = gs_pair<T>(acc[2 * j], acc[2 * j + 1]);
}
template <int N> GS_FN void gs_wg_hold(f32 (&)[N]) {}
template <int N> GS_FN void gs_wg_new(f32 (&acc)[N]) {
#if defined(GS_CHECKED)
  for (int j = 0; j < N; j++) acc[j] = gs_float(0x7fc00000u);
#endif
}

struct gs_wg_lane {
  f32 *acc;
  const unsigned *left;
};

// The functions whose template arguments are given: of the thread that calls them, in its line.
struct gs_wg_at {
  gs_emu_thread *t;
  int line;

  // ROWS x K elements of an operand that begins at `first` of a tile of TILE_ROWS rows, in rows, or
  // turned: [K][ROWS].
  template <int ROWS, int K, int TILE_ROWS, int COLUMNS, bool TURN, class P>
  void widen(f32 *out, P tile, int at, int first) const {
    typedef typename gs_element_of<P>::type T;
    constexpr int rows = COLUMNS ? K : ROWS, columns = COLUMNS ? ROWS : K;
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < columns; c += 8) {
        const int place = COLUMNS ? gs_tile_at(tile, at, TILE_ROWS, r, first + c)
                                  : gs_tile_at(tile, at, TILE_ROWS, first + r, c);
        const T *e = gs_span(tile, place, 8, GS_EMU_READ | GS_EMU_BY_WG, line);
        for (int j = 0; j < 8; j++) {
          const int i = COLUMNS ? c + j : r, k = COLUMNS ? r : c + j;
          out[TURN ? k * ROWS + i : i * K + k] = gs_to_f32(e[j]);
        }
      }
  }
  // acc of all lanes += a b, both widened, c behind them.
  template <int N, int K>
  void multiply(void *const *lanes, const f32 *a, const f32 *b, f32 *c, int more) const {
    f32 *acc[128];
    for (int lane = 0; lane < 128; lane++) {
      acc[lane] = ((const gs_wg_lane *)lanes[lane])->acc;
#if defined(GS_CHECKED)
      acc[lane] = GS_TILES(t)->wg_pending(t, lane, acc[lane], N / 2, line);
#endif
      for (int e = 0; e < N / 2; e++)
        c[gs_wg_row_of(lane, e) * N + gs_wg_column_of(lane, e)] = more ? acc[lane][e] : 0.0f;
    }
    gs_product<64, N, K>(t, c, a, b);
    for (int lane = 0; lane < 128; lane++)
      for (int e = 0; e < N / 2; e++)
        acc[lane][e] = c[gs_wg_row_of(lane, e) * N + gs_wg_column_of(lane, e)];
  }
  template <int N, int K, int A_ROWS, int A_COLUMNS, int B_ROWS, int B_COLUMNS, class A, class B>
  void product(f32 (&acc)[N / 2], A a, int a_at, int a_first, B b, int b_at, int b_first,
               int more) const {
    gs_wg_lane mine = {acc, nullptr};
    void *const *lanes = gs_gather(t, &mine, 128, line);
    if (lanes == nullptr) return;
    f32 *left = GS_TILES(t)->scratch(t, 64 * K + K * N + 64 * N), *right = left + 64 * K;
    widen<64, K, A_ROWS, A_COLUMNS, false>(left, a, a_at, a_first);
    widen<N, K, B_ROWS, B_COLUMNS, true>(right, b, b_at, b_first);
    multiply<N, K>(lanes, left, right, right + K * N, more);
    GS_TILES(t)->release(t, 128);
  }
  template <int N, int K, int B_ROWS, int B_COLUMNS, class T, class B>
  void product(f32 (&acc)[N / 2], const gs_wg_left<T, K> &a, B b, int b_at, int b_first,
               int more) const {
    gs_wg_lane mine = {acc, a.w};
    void *const *lanes = gs_gather(t, &mine, 128, line);
    if (lanes == nullptr) return;
    f32 *left = GS_TILES(t)->scratch(t, 64 * K + K * N + 64 * N), *right = left + 64 * K;
    for (int lane = 0; lane < 128; lane++)
      for (int j = 0; j < K / 4; j++) {
        const unsigned w = ((const gs_wg_lane *)lanes[lane])->left[j];
        f32 *to = left + gs_wg_row_of(lane, 2 * j) * K + gs_wg_column_of(lane, 2 * j);
        to[0] = gs_to_f32(T{(unsigned short)w});
        to[1] = gs_to_f32(T{(unsigned short)(w >> 16)});
      }
    widen<N, K, B_ROWS, B_COLUMNS, true>(right, b, b_at, b_first);
    multiply<N, K>(lanes, left, right, right + K * N, more);
    GS_TILES(t)->release(t, 128);
  }
  void open() const {
#if defined(GS_CHECKED)
    if (gs_gather(t, nullptr, 128, line) == nullptr) return;
    GS_TILES(t)->wg_open(t, line);
    GS_TILES(t)->release(t, 128);
#endif
  }
  void close() const {
#if defined(GS_CHECKED)
    if (gs_gather(t, nullptr, 128, line) == nullptr) return;
    GS_TILES(t)->wg_close(t, line);
    GS_TILES(t)->release(t, 128);
#endif
  }
  template <int PENDING, int N> void wait(f32 (&)[N]) const {
#if defined(GS_CHECKED)
    if (gs_gather(t, nullptr, 128, line) == nullptr) return;
    GS_TILES(t)->wg_wait(t, PENDING, line);
    GS_TILES(t)->release(t, 128);
#endif
  }
  template <int PENDING> void bulk_wait() const {
    GS_TILES(t)->bulk_wait(t, PENDING, 1, line);
  }
  template <int PENDING> void bulk_wait_read() const {
    GS_TILES(t)->bulk_wait(t, PENDING, 0, line);
  }

  // ---- accumulators and zeros to memory ----

  template <int PANELS, class P> void zero(P tile, int at, int rows, int from) const {
    typedef typename gs_element_of<P>::type T;
    constexpr int wide = 128 / (int)sizeof(T), chunk = 16 / (int)sizeof(T);
    for (int p = 0; p < PANELS; p++)
      for (int i = from * 8 + (t->tid & 31); i < rows * 8; i += 32)
        __builtin_memset(gs_span(tile, at + p * rows * wide + i * chunk, chunk, GS_EMU_WRITE, line),
                         0, 16);
    GS_TILES(t)->fence(t, line);
  }
  template <int N, class T, class P>
  void put(P tile, int at, int rows, int first, int column, const gs_wg_left<T, N> &v) const {
    for (int j = 0; j < N / 4; j++) {
      const int r = first + gs_wg_row_of(t->tid, 2 * j),
                c = column + gs_wg_column_of(t->tid, 2 * j);
      T *to = gs_span(tile, gs_tile_at(tile, at, rows, r, c), 2, GS_EMU_WRITE, line);
      to[0] = T{(unsigned short)v.w[j]};
      to[1] = T{(unsigned short)(v.w[j] >> 16)};
    }
  }
  template <int N, class T, class P>
  void put_turned(P tile, int at, int rows, int first, int column,
                  const gs_wg_left<T, N> &v) const {
    for (int e = 0; e < N / 2; e++) {
      const int r = column + gs_wg_column_of(t->tid, e), c = first + gs_wg_row_of(t->tid, e);
      *gs_span(tile, gs_tile_at(tile, at, rows, r, c), 1, GS_EMU_WRITE, line) =
          T{(unsigned short)(v.w[e / 2] >> 16 * (e & 1))};
    }
  }
  template <int N, class S, class A>
  void put_lanes(S to, int at, int width, int first, int column, A &acc) const {
    for (int e = 0; e < N / 2; e += (e & 2) ? 6 : 2) {
      const int row = first + gs_wg_row_of(t->tid, e);
      if (column + (e >> 3) * 16 >= width) continue;
      f32 *four = gs_span(to, at + row * width + gs_wg_lane_place_of(t->tid, row, column, e), 4,
                          GS_EMU_WRITE, line);
      four[0] = acc[e], four[1] = acc[e + 1], four[2] = acc[e + 4], four[3] = acc[e + 5];
    }
  }
  template <int N, class P>
  void put_f32(P tile, int at, int rows, int first, int column, const f32 (&acc)[N / 2]) const {
    for (int e = 0; e < N / 2; e += 2) {
      const int r = first + gs_wg_row_of(t->tid, e), c = column + gs_wg_column_of(t->tid, e);
      f32 *to = gs_span(tile, gs_tile_at(tile, at, rows, r, c), 2, GS_EMU_WRITE, line);
      to[0] = acc[e];
      to[1] = acc[e + 1];
    }
  }
  template <int N, class Y>
  void store(Y y, i64 at, i64 ld, int rows, int columns, const f32 (&acc)[N / 2]) const {
    typedef typename gs_element_of<Y>::type T;
    for (int e = 0; e < N / 2; e += 2) {
      const int r = gs_wg_row_of(t->tid, e), c = gs_wg_column_of(t->tid, e);
      if (r >= rows || c >= columns) continue;
      T *to = gs_span(y, at + r * ld + c, 2, GS_EMU_WRITE, line);
      to[0] = gs_round<T>::from(acc[e]);
      to[1] = gs_round<T>::from(acc[e + 1]);
    }
  }
};
#define GS_WG_HERE (gs_wg_at{gs_meet(gs_here), __LINE__})
#define gs_wg_open() GS_WG_HERE.open()
#define gs_wg_close() GS_WG_HERE.close()
#define gs_wg_product GS_WG_HERE.product
#define gs_wg_wait GS_WG_HERE.wait
#define gs_wg_put GS_WG_HERE.put
#define gs_wg_put_turned GS_WG_HERE.put_turned
#define gs_wg_put_f32 GS_WG_HERE.put_f32
#define gs_wg_put_lanes GS_WG_HERE.put_lanes
#define gs_wg_store GS_WG_HERE.store
#define gs_tile_zero GS_WG_HERE.zero
#define gs_bulk_wait GS_WG_HERE.bulk_wait
#define gs_bulk_wait_read GS_WG_HERE.bulk_wait_read
