// prelude_lint.h: the prelude's interface (templates/README.md) as declarations, for `gradsmith
// lint`.
//
// Nothing here runs: libclang parses a kernel's text behind this, and what lint looks for is a
// function of its own name (gs_here_tid, gs_meet_block ...) or an attribute. Parameters carry what
// they are as an annotation; a kernel's threads and barrier_free are constants beside it.

typedef float f32;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef signed char i8;
typedef unsigned gs_u32;
struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};
struct e4m3 {
  unsigned char bits;
};
struct e5m2 {
  unsigned char bits;
};
struct e8m0 {
  unsigned char bits;
};

#define GS_KERNEL(name, threads, barrier_free, ...)                                                \
  enum : int { name##_threads = (threads), name##_free = (barrier_free) };                         \
  extern "C" void name(__VA_ARGS__)
#define GS_KERNEL_CLUSTER(name, threads, blocks, cluster, ...)                                     \
  GS_KERNEL(name, threads, 0, __VA_ARGS__)
#define GS_KERNEL_MANY(name, threads, blocks, barrier_free, ...)                                   \
  GS_KERNEL(name, threads, barrier_free, __VA_ARGS__)
#define GS_IN(type, x) __attribute__((annotate("in " #type))) const type *x
#define GS_OUT(type, x) __attribute__((annotate("out " #type))) type *x
#define GS_INOUT(type, x) __attribute__((annotate("inout " #type))) type *x
#define GS_STEP(x) __attribute__((annotate("step f32"))) const f32 *x
#define GS_DIM(x) __attribute__((annotate("dim i64"))) const i64 x
#define GS_STRIDE(x) __attribute__((annotate("stride i64"))) const i64 x
#define GS_NUM(x) __attribute__((annotate("num f32"))) const f32 x
#define GS_FN inline
#define GS_CONST static constexpr
#define GS_TABLE(name, count) static constexpr f32 name[count]
#define GS_SHARED(type, name, count) __attribute__((annotate("shared"))) type name[count]
#define GS_DYNAMIC(type, name, at, count) GS_SHARED(type, name, count)
#define GS_UNROLL

int gs_here_tid();
int gs_here_lane();
int gs_here_warp();
i64 gs_here_bid();
i64 gs_here_nblocks();
#define GS_TID gs_here_tid()
#define GS_LANE gs_here_lane()
#define GS_WARP gs_here_warp()
#define GS_BID gs_here_bid()
#define GS_NBLOCKS gs_here_nblocks()

void gs_meet_sync();
void gs_meet_syncwarp();
f32 gs_meet_block(f32 v, f32 *scratch);
f32 gs_meet_warp(f32 v);
f32 gs_meet_group(int n, f32 v);
f32 gs_meet_exchange(f32 v, int n);
i64 gs_meet_exchange(i64 v, int n);
int gs_cluster_rank();
void gs_meet_cluster_sync();
template <class S> f32 gs_meet_cluster(int n, f32 v, S &meet);
template <class A, class S> void gs_meet_cluster_gather(int n, A &out, f32 v, S &meet);
template <class A> void gs_cluster_put(A &array, int to, i64 i, f32 v);
#define GS_SYNC() gs_meet_sync()
#define GS_LET_NEXT() ((void)0)
#define GS_WAIT_LAST() ((void)0)
#define GS_SYNCWARP() gs_meet_syncwarp()
#define GS_BLOCK_SUM_AT(v, s, at) gs_meet_block(v, (s) + (at))
#define GS_BLOCK_MAX_AT(v, s, at) gs_meet_block(v, (s) + (at))
#define GS_BLOCK_MIN_AT(v, s, at) gs_meet_block(v, (s) + (at))
#define GS_BLOCK_SUMS_AT(n, v, s, at)                                                              \
  for (f32 & gs_each : v) gs_each = gs_meet_block(gs_each, (s) + (at))
#define GS_BLOCK_SUM(v, s) gs_meet_block(v, s)
#define GS_BLOCK_MAX(v, s) gs_meet_block(v, s)
#define GS_BLOCK_MIN(v, s) gs_meet_block(v, s)
#define GS_WARP_SUM(v) gs_meet_warp(v)
#define GS_WARP_MAX(v) gs_meet_warp(v)
#define GS_WARP_MIN(v) gs_meet_warp(v)
#define GS_GROUP_SUM(n, v) gs_meet_group(n, v)
#define GS_GROUP_MAX(n, v) gs_meet_group(n, v)
#define GS_GROUP_MIN(n, v) gs_meet_group(n, v)
#define GS_CLUSTER_RANK gs_cluster_rank()
#define GS_CLUSTER_SYNC() gs_meet_cluster_sync()
#define GS_CLUSTER_PUT(array, to, i, v) gs_cluster_put(array, to, i, v)
#define GS_CLUSTER_GATHER(n, out, v, meet) gs_meet_cluster_gather(n, out, v, meet)
#define GS_CLUSTER_GATHER_AT(n, out, v, meet, at) gs_meet_cluster_gather(n, out, v, meet)
#define GS_CLUSTER_SUM_AT(n, v, meet, at) gs_meet_cluster(n, v, meet)
#define GS_CLUSTER_MAX_AT(n, v, meet, at) gs_meet_cluster(n, v, meet)
#define GS_CLUSTER_MIN_AT(n, v, meet, at) gs_meet_cluster(n, v, meet)
#define GS_CLUSTER_SUM(n, v, meet) gs_meet_cluster(n, v, meet)
#define GS_CLUSTER_MAX(n, v, meet) gs_meet_cluster(n, v, meet)
#define GS_CLUSTER_MIN(n, v, meet) gs_meet_cluster(n, v, meet)
#define GS_EXCHANGE(v, n) gs_meet_exchange(v, n)

// ---- elements ----

template <class T> f32 gs_to_f32(T v);
template <class T> f32 gs_get(const T *x, i64 i);
template <class T> void gs_put(T *y, i64 i, f32 v);
template <class T> i64 gs_geti(const T *x, i64 i);
template <class T, class I> void gs_puti(T *y, i64 i, I v);
template <int N, class T> void gs_load(f32 (&out)[N], const T *x, i64 i);
template <int N, class T> void gs_store(T *y, i64 i, const f32 (&v)[N]);
template <int N, class I, class T> void gs_loadi(I (&out)[N], const T *x, i64 i);
template <int N, class I, class T> void gs_storei(T *y, i64 i, const I (&v)[N]);
template <int N, class T> void gs_load_upto(f32 (&out)[N], const T *x, i64 i, int n);
template <int N, class T> void gs_store_upto(T *y, i64 i, const f32 (&v)[N], int n);
template <int N, class I, class T> void gs_loadi_upto(I (&out)[N], const T *x, i64 i, int n);
template <int N, class I, class T> void gs_storei_upto(T *y, i64 i, const I (&v)[N], int n);
template <int N, class T> struct gs_packed { T e[N]; };
template <int N, class T> void gs_fetch(gs_packed<N, T> &out, const T *x, i64 i);
template <int PASS = 0, int N, class T>
void gs_unpack(f32 (&out)[N], const gs_packed<N, T> &packed);
template <int N, class T> void gs_lowest(gs_packed<N, T> &m);
template <int N, class T> void gs_most(gs_packed<N, T> &m, const gs_packed<N, T> &x);
template <int N, class T> f32 gs_most_of(const gs_packed<N, T> &m);
template <int N, class T> f32 gs_top_of(const gs_packed<N, T> &x);
template <int N, class T> void gs_copy_ahead(T *to, int at, const T *x, i64 i);
template <int N> void gs_carry(f32 (&acc)[N], f32 *far, int at, int by);
template <int N> void gs_carried(f32 (&acc)[N], f32 *far, int at, int by);
void gs_copy_close();
void gs_copy_wait(int n);
#define GS_COPY_CLOSE() gs_copy_close()
#define GS_COPY_WAIT(n) gs_copy_wait(n)
f32 gs_step(const f32 *v);

// ---- arithmetic ----

constexpr f32 gs_inf = __builtin_inff();
#define GS_INF gs_inf
f32 gs_exp(f32 v);
i64 gs_apart(i64 v);
f32 gs_exp_near(f32 v);
f32 gs_exp_near(f32 v, f32 from);
f32 gs_near_scale(f32 scale, f32 from);
f32 gs_expm1(f32 v);
f32 gs_log(f32 v);
f32 gs_log1p(f32 v);
f32 gs_sqrt(f32 v);
f32 gs_rsqrt(f32 v);
f32 gs_tanh(f32 v);
f32 gs_sigmoid(f32 v);
f32 gs_softplus(f32 v);
f32 gs_sin(f32 v);
f32 gs_cos(f32 v);
f32 gs_erf(f32 v);
f32 gs_floor(f32 v);
f32 gs_abs(f32 v);
f32 gs_min(f32 a, f32 b);
f32 gs_max(f32 a, f32 b);
f32 gs_pow(f32 a, f32 b);
f32 gs_div(f32 a, f32 b);
f32 gs_fma(f32 a, f32 b, f32 c);
f32 gs_less(f32 v, bool holds);
template <int N, class T, class I> void gs_set(T (&v)[N], I at, T x);
f32 gs_round_bf16(f32 v);
f32 gs_round_f16(f32 v);
f32 gs_round_e4m3(f32 v);
f32 gs_round_e5m2(f32 v);
f32 gs_round_e8m0(f32 v);
f32 gs_round_rand_bf16(f32 v, f32 r);
f32 gs_round_rand_f16(f32 v, f32 r);
f32 gs_round_rand_e4m3(f32 v, f32 r);
f32 gs_round_rand_e5m2(f32 v, f32 r);
f32 gs_rand(i64 index, i64 site, i64 seed);

// ---- integers ----

i64 gs_integer(f32 v);
int gs_integer32(f32 v);
template <class I> I gs_within(I v, I lo, I hi);
template <class I, class N> I gs_inside(I i, N n);
template <class A, class B> decltype(A() + B()) gs_quotient(A a, B b);
template <class A, class B> decltype(A() + B()) gs_remainder(A a, B b);
template <int N> int gs_bucket(const f32 (&table)[N], f32 v);
template <int N, class I> f32 gs_lookup(const f32 (&table)[N], I i);

// ---- tiles (prelude_cuda_tiles.cuh): what a warp does together meets there ----

int gs_acc_row(int lane, int e);
int gs_acc_col(int lane, int e);
template <int COLS, class T> struct gs_view { typedef T element; };
template <int COLS, class T> gs_view<COLS, T> gs_rows(const T *s, int at, int row, int col);
template <int COLS, class T> gs_view<COLS, T> gs_cols(const T *s, int at, int row, int col);
template <class T> struct gs_frag { gs_u32 w[4]; };
template <class T, int M, int N>
void gs_frags(gs_frag<T> (&p)[M][N / 2], const f32 (&acc)[M][N][4]);
template <int K, int M, int N, class A, class B>
void gs_mma(f32 (&acc)[M][N][4], const A &left, const B &right);
template <class T, int M, int KS, class V> void gs_frag_load(gs_frag<T> (&p)[M][KS], const V &v);
#define GS_MMA(K, acc, left, right) (gs_meet_syncwarp(), gs_mma<(K)>(acc, left, right))
#define GS_FRAG_LOAD(p, left) (gs_meet_syncwarp(), gs_frag_load(p, left))
template <class T> void gs_tile_copy(T *s, int at, const T *x, i64 i, i64 ld, int n);
#define GS_TILE_COPY(ROWS, COLS, D, THREADS, s, at, x, i, ld, n) gs_tile_copy(s, at, x, i, ld, n)
void gs_line_copy(f32 *s, int at, const f32 *x, i64 i);
#define GS_LINE_COPY(COUNT, THREADS, s, at, x, i) gs_line_copy(s, at, x, i)
template <int M, int N, class T>
void gs_tile_put(T *s, int at, int row, int col, const f32 (&acc)[M][N][4]);
#define GS_TILE_PUT(COLS, s, at, row, col, acc) gs_tile_put(s, at, row, col, acc)
template <class T> void gs_tile_store(T *y, i64 i, i64 ld, const T *s, int at, int n);
#define GS_TILE_STORE(ROWS, COLS, D, THREADS, y, i, ld, s, at, n) gs_tile_store(y, i, ld, s, at, n)
template <int N> void gs_rows_of(f32 (&v)[N]);
#define GS_ROWS_MAX(v) (gs_meet_syncwarp(), gs_rows_of(v))
#define GS_ROWS_SUM(v) (gs_meet_syncwarp(), gs_rows_of(v))
#define GS_WARP_ANY(b) (gs_meet_warp((b) ? 1.0f : 0.0f) > 0.0f)
f32 gs_exp2(f32 v);
int gs_take(i32 *counter, int items, int takers);
int gs_ticket(i32 *counter, int items, int takers);
int gs_taken(i32 *meet); // the same in all threads
#define GS_TICKET(counter, items, takers) gs_ticket(counter, items, takers)
#define GS_TAKEN(ticket, meet) (gs_meet_sync(), (void)(ticket), gs_taken(meet))
void gs_turn(i32 *turns, i64 i, int value);
#define GS_TURN_WAIT(turns, i, value) (gs_meet_syncwarp(), gs_turn(turns, i, value))
#define GS_TURN_PASS(turns, i, value) (gs_meet_syncwarp(), gs_turn(turns, i, value))
template <int N> void gs_add_f32(f32 *y, i64 i, const f32 (&v)[N]);

// ---- what only sm_90a has (prelude_cuda_hopper.cuh) ----

typedef unsigned long long gs_mbar;
void gs_mbar_init(gs_mbar *bars, int i, int count);
void gs_mbar_ready();
void gs_mbar_arrive(gs_mbar *bars, int i);
void gs_mbar_come_warp(gs_mbar *bars, int i);
#define gs_mbar_arrive_warp(bars, i) (gs_meet_syncwarp(), gs_mbar_come_warp(bars, i))
void gs_mbar_expect(gs_mbar *bars, int i, int bytes);
void gs_mbar_wait(gs_mbar *bars, int i, int parity);
struct gs_map {
  int box;
};
#define GS_MAP(type, x) __attribute__((annotate("map " #type))) const gs_map x
void gs_map_ahead(const gs_map &map);
template <class T>
void gs_tma_load(T *tile, int at, const gs_map &map, gs_mbar *bars, int i, int column, int head,
                 int row);
void gs_tma_add(const gs_map &map, const f32 *tile, int at, int column, int head, int row);
void gs_bulk_add(f32 *x, i64 i, const f32 *shared, int at, int count);
void gs_bulk_store(f32 *x, i64 i, const f32 *shared, int at, int count);
template <class T>
void gs_bulk_load(T *shared, int at, const T *x, i64 i, int count, gs_mbar *bars, int j);
template <class T>
void gs_bulk_load_back(T *shared, int at, const T *x, i64 i, int count, gs_mbar *bars, int j);
void gs_bulk_close();
template <int N> void gs_bulk_wait_read();
template <int N> void gs_bulk_wait();
void gs_bulk_fence();
int gs_afresh(int v);
void gs_proxy_fence();
void gs_bar_sync(int id, int threads);
void gs_bar_arrive(int id, int threads);
void gs_registers(int n);
#define GS_REGISTERS_DOWN(n) (gs_meet_syncwarp(), gs_registers(n))
#define GS_REGISTERS_UP(n) (gs_meet_syncwarp(), gs_registers(n))
template <class T> int gs_tile_at(const T *tile, int at, int rows, int row, int column);
template <int PANELS, class T> void gs_tile_zero(T *tile, int at, int rows, int from);
int gs_wg_row_of(int tid, int e);
int gs_wg_column_of(int tid, int e);
#define gs_wg_row(e) gs_wg_row_of(GS_TID, e)
#define gs_wg_column(e) gs_wg_column_of(GS_TID, e)
template <class T, int K> struct gs_wg_left { gs_u32 w[K / 4]; };
template <class T, int K> void gs_wg_round(gs_wg_left<T, K> &to, const f32 (&acc)[K / 2]);
void gs_wg_fence();
void gs_wg_group();
#define gs_wg_open() (gs_meet_syncwarp(), gs_wg_fence())
#define gs_wg_close() (gs_meet_syncwarp(), gs_wg_group())
template <int N> void gs_wg_hold(f32 (&acc)[N]);
template <int N> void gs_wg_new(f32 (&acc)[N]);
template <int PENDING, int N> void gs_wg_wait(f32 (&acc)[N]);
template <int N, int K, int A_ROWS, int A_COLUMNS, int B_ROWS, int B_COLUMNS, class T>
void gs_wg_product(f32 (&acc)[N / 2], const T *a, int a_at, int a_first, const T *b, int b_at,
                   int b_first, int more);
template <int N, int K, int B_ROWS, int B_COLUMNS, class T>
void gs_wg_product(f32 (&acc)[N / 2], const gs_wg_left<T, K> &a, const T *b, int b_at, int b_first,
                   int more);
template <int N, class T>
void gs_wg_put(T *tile, int at, int rows, int first, int column, const gs_wg_left<T, N> &v);
template <int N, class T>
void gs_wg_put_turned(T *tile, int at, int rows, int first, int column, const gs_wg_left<T, N> &v);
template <int N>
void gs_wg_put_f32(f32 *tile, int at, int rows, int first, int column, const f32 (&acc)[N / 2]);
template <int N>
void gs_wg_put_lanes(f32 *to, int at, int width, int first, int column, const f32 (&acc)[N / 2]);
int gs_wg_lane_place(int row, int column, int e);
template <int N, class T>
void gs_wg_store(T *y, i64 at, i64 ld, int rows, int columns, const f32 (&acc)[N / 2]);
