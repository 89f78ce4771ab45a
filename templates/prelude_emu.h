// prelude_emu.h: the prelude's interface (templates/README.md) for the host's C++17 compiler.
//
// Includes only emu_abi.h. Two forms of one interface: plain, where pointers are pointers and a
// barrier-free kernel is a loop over its threads that the compiler may vectorise; and GS_CHECKED,
// where every access goes through the driver with the line it stands on. Same reduction trees as
// prelude_cuda.cuh; exp and its kin are polynomials of this file and differ from the GPU by some
// ulp.

#include "emu_abi.h"

typedef float f32;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned gs_u32;
struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};

#define GS_FN inline __attribute__((always_inline, unused))
#define GS_CONST static constexpr
#define GS_INF __builtin_inff()
#define GS_RESTRICT __restrict__
#if defined(__clang__)
// Not unrolled: the host then vectorises over a thread's elements (and keeps the order of sums).
#define GS_UNROLL _Pragma("clang loop unroll(disable)")
#define GS_ACROSS_THREADS _Pragma("clang loop vectorize(assume_safety) interleave(assume_safety)")
#else
#define GS_UNROLL _Pragma("GCC unroll 64")
#define GS_ACROSS_THREADS _Pragma("GCC ivdep")
#endif
#if defined(__FMA__) || defined(__aarch64__)
#define GS_MAD(a, b, c) __builtin_fmaf(a, b, c)
#else
#define GS_MAD(a, b, c) ((a) * (b) + (c))
#endif

// ---- storage types ----

GS_FN gs_u32 gs_bits(f32 v) {
  gs_u32 r;
  __builtin_memcpy(&r, &v, 4);
  return r;
}
GS_FN f32 gs_float(gs_u32 v) {
  f32 r;
  __builtin_memcpy(&r, &v, 4);
  return r;
}

GS_FN f32 gs_to_f32(f32 v) {
  return v;
}
GS_FN f32 gs_to_f32(bf16 v) {
  return gs_float((gs_u32)v.bits << 16);
}
GS_FN f32 gs_to_f32(f16 v) {
  gs_u32 h = (gs_u32)(v.bits & 0x7fff) << 13, e = h & 0x0f800000;
  gs_u32 normal = h + 0x38000000 + (e == 0x0f800000 ? 0x38000000u : 0u);
  gs_u32 tiny = gs_bits(gs_float(h + 0x38800000) - gs_float(0x38800000));
  return gs_float((e == 0 ? tiny : normal) | (gs_u32)(v.bits & 0x8000) << 16);
}
GS_FN f32 gs_to_f32(i32 v) {
  return (f32)v;
}
GS_FN f32 gs_to_f32(i64 v) {
  return (f32)v;
}
GS_FN f32 gs_to_f32(u8 v) {
  return (f32)v;
}

// Round to nearest even; a NaN becomes 0x7fff.
template <class T> struct gs_round {
  static GS_FN T from(f32 v) { return (T)v; }
};
template <> struct gs_round<bf16> {
  static GS_FN bf16 from(f32 v) {
    gs_u32 u = gs_bits(v), r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return bf16{(unsigned short)(v == v ? r : 0x7fffu)};
  }
};
template <> struct gs_round<f16> {
  static GS_FN f16 from(f32 v) {
    gs_u32 u = gs_bits(v), a = u & 0x7fffffff, sign = u >> 16 & 0x8000;
    gs_u32 normal = (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13;
    gs_u32 tiny = gs_bits(gs_float(a < 0x38800000 ? a : 0u) + 0.5f) - 0x3f000000;
    gs_u32 r = a < 0x38800000 ? tiny : a < 0x47800000 ? normal : 0x7c00u;
    return f16{(unsigned short)(a > 0x7f800000 ? 0x7fffu : (r | sign))};
  }
};
GS_FN f32 gs_round_bf16(f32 v) {
  return gs_to_f32(gs_round<bf16>::from(v));
}
GS_FN f32 gs_round_f16(f32 v) {
  return gs_to_f32(gs_round<f16>::from(v));
}

// ---- arithmetic ----

GS_FN f32 gs_sqrt(f32 v) {
  return __builtin_sqrtf(v);
}
GS_FN f32 gs_rsqrt(f32 v) {
  return 1.0f / __builtin_sqrtf(v);
}
GS_FN f32 gs_floor(f32 v) {
  return __builtin_floorf(v);
}
GS_FN f32 gs_abs(f32 v) {
  return __builtin_fabsf(v);
}
GS_FN f32 gs_fma(f32 a, f32 b, f32 c) {
  return __builtin_fmaf(a, b, c);
}
GS_FN f32 gs_div(f32 a, f32 b) {
  return a / b;
}
GS_FN f32 gs_pow(f32 a, f32 b) {
  return __builtin_powf(a, b);
}
// A NaN loses to a number, -0 is below +0: as on the GPU.
GS_FN f32 gs_max(f32 a, f32 b) {
  f32 r = a > b ? a : b;
  r = a == b ? gs_float(gs_bits(a) & gs_bits(b)) : r;
  return b != b ? a : r;
}
GS_FN f32 gs_min(f32 a, f32 b) {
  f32 r = a < b ? a : b;
  r = a == b ? gs_float(gs_bits(a) | gs_bits(b)) : r;
  return b != b ? a : r;
}

// 2^n for any n, as two factors, so that results below the normal range round once.
struct gs_scale {
  f32 a, b;
};
GS_FN gs_scale gs_exp2i(gs_u32 n) {
  int half = (int)n >> 1;
  return gs_scale{gs_float((gs_u32)(half + 127) << 23),
                  gs_float((gs_u32)((int)n - half + 127) << 23)};
}
// x = n ln2 + r, |r| <= ln2/2; expm1(r) by its series to r^7. x is within +-104.
struct gs_reduced {
  gs_u32 n;
  f32 expm1;
};
GS_FN gs_reduced gs_exp_reduce(f32 x) {
  f32 t = GS_MAD(x, 1.44269504f, 12582912.0f);
  gs_u32 n = gs_bits(t) - 0x4b400000u;
  f32 k = t - 12582912.0f;
  f32 r = GS_MAD(k, -0.693145751953125f, x);
  r = GS_MAD(k, -1.42860677e-6f, r);
  f32 p = GS_MAD(r, 1.98412698e-4f, 1.38888889e-3f);
  p = GS_MAD(p, r, 8.33333333e-3f);
  p = GS_MAD(p, r, 4.16666667e-2f);
  p = GS_MAD(p, r, 1.66666667e-1f);
  p = GS_MAD(p, r, 0.5f);
  return gs_reduced{n, GS_MAD(p, r * r, r)};
}
GS_FN f32 gs_exp(f32 x) {
  f32 c = x < -104.0f ? -104.0f : x;
  gs_reduced e = gs_exp_reduce(c > 89.0f ? 89.0f : c);
  gs_scale s = gs_exp2i(e.n);
  return (1.0f + e.expm1) * s.a * s.b;
}
GS_FN f32 gs_sigmoid(f32 v) {
  return 1.0f / (1.0f + gs_exp(-v));
}
GS_FN f32 gs_tanh(f32 v) {
  f32 a = __builtin_fabsf(v);
  gs_reduced e = gs_exp_reduce(a > 10.0f ? 20.0f : 2.0f * a);
  f32 two_n = gs_float((e.n + 127) << 23);
  f32 m = GS_MAD(two_n, e.expm1, two_n - 1.0f); // exp(2a) - 1
  f32 r = m / (m + 2.0f);
  return v != v ? v : gs_float(gs_bits(r) | (gs_bits(v) & 0x80000000u));
}
// x = 2^e (1+f), 1+f in [sqrt(1/2), sqrt(2)); log(1+f) by the series of atanh(f/(2+f)).
GS_FN f32 gs_log(f32 x) {
  bool tiny = x < 1.17549435e-38f;
  gs_u32 u = gs_bits(tiny ? x * 8388608.0f : x) - 0x3f3504f3u;
  f32 e = (f32)((int)u >> 23) - (tiny ? 23.0f : 0.0f);
  f32 f = gs_float((u & 0x007fffff) + 0x3f3504f3u) - 1.0f;
  f32 s = f / (2.0f + f), z = s * s, h = 0.5f * f * f;
  f32 p = GS_MAD(z, 0.22222222f, 0.28571429f);
  p = GS_MAD(p, z, 0.4f);
  p = GS_MAD(p, z, 0.66666667f) * z;
  f32 low = GS_MAD(e, 9.05800061e-6f, s * (h + p));
  f32 r = GS_MAD(e, 0.693138123f, f - (h - low));
  r = x == GS_INF ? x : r;
  r = x == 0.0f ? -GS_INF : r;
  return x >= 0.0f ? r : __builtin_nanf("");
}
GS_FN f32 gs_erf(f32 v) {
  f32 a = __builtin_fabsf(v), z = a < 1.0f ? a * a : 0.0f, b = a > 4.0f ? 4.0f : a;
  f32 p = GS_MAD(z, 7.88911950e-05f, -8.02084127e-04f);
  p = GS_MAD(p, z, 5.18953534e-03f);
  p = GS_MAD(p, z, -2.68544446e-02f);
  p = GS_MAD(p, z, 1.12836002e-01f);
  p = GS_MAD(p, z, -3.76126271e-01f);
  p = GS_MAD(p, z, 1.28379166e-01f); // 2/sqrt(pi) - 1: a + a p keeps its bits
  f32 near = GS_MAD(a, p, a);
  f32 q = GS_MAD(b, 2.16860015e-05f, -4.41326413e-04f); // -log(erfc(b))
  q = GS_MAD(q, b, 4.20451289e-03f);
  q = GS_MAD(q, b, -2.52081259e-02f);
  q = GS_MAD(q, b, 1.08418372e-01f);
  q = GS_MAD(q, b, 6.33220083e-01f);
  q = GS_MAD(q, b, 1.12957833f);
  q = GS_MAD(q, b, -1.88020000e-04f);
  f32 r = a < 1.0f ? near : 1.0f - gs_exp(-q);
  return v != v ? v : gs_float(gs_bits(r) | (gs_bits(v) & 0x80000000u));
}
// Quarter turns taken away in f64 in three exact pieces: right to the last bits up to 2^20 and
// more.
GS_FN f32 gs_sincos(f32 v, int quarter) {
  double x = (double)v, t = x * 0.63661977236758134 + 6755399441055744.0;
  double k = t - 6755399441055744.0;
  double r = x - k * 1.5707963267341256; // 33 bits
  r = r - k * 6.077100506303966e-11;     // the next 33
  r = r - k * 2.0222662487959506e-21;    // and the rest
  long long turn;
  __builtin_memcpy(&turn, &t, 8);
  int q = (int)turn + quarter;
  double z = r * r;
  double s = r + r * z *
                     (-1.6666666666666666e-1 +
                      z * (8.333333333333333e-3 +
                           z * (-1.984126984126984e-4 +
                                z * (2.7557319223985893e-6 + z * -2.505210838544172e-8))));
  double c = 1 + z * (-0.5 + z * (4.1666666666666664e-2 +
                                  z * (-1.388888888888889e-3 +
                                       z * (2.48015873015873e-5 + z * (-2.755731922398589e-7 +
                                                                       z * 2.08767569878681e-9)))));
  double w = q & 1 ? c : s;
  return (f32)(q & 2 ? -w : w);
}
GS_FN f32 gs_sin(f32 v) {
  if (!(__builtin_fabsf(v) < 16777216.0f)) return __builtin_sinf(v);
  return v == 0.0f ? v : gs_sincos(v, 0);
}
GS_FN f32 gs_cos(f32 v) {
  if (!(__builtin_fabsf(v) < 16777216.0f)) return __builtin_cosf(v);
  return gs_sincos(v, 1);
}

// ---- where a kernel is ----

// What a body gets: for kernels whose threads meet, and for barrier-free ones.
struct gs_meeting {
  int tid;
  i64 bid, nblocks;
  gs_emu_thread *self;
};
struct gs_alone {
  int tid;
  i64 bid, nblocks;
#if defined(GS_CHECKED)
  gs_emu_thread *self; // its barriers and collectives are reported by the driver
#endif
};
template <int FREE> struct gs_context { typedef gs_meeting type; };
template <> struct gs_context<1> { typedef gs_alone type; };

#define GS_TID (gs_here.tid)
#define GS_BID (gs_here.bid)
#define GS_NBLOCKS (gs_here.nblocks)
#define GS_LANE (gs_here.tid & 31)
#define GS_WARP (gs_here.tid >> 5)

#if defined(GS_CHECKED)
template <class C> GS_FN gs_emu_thread *gs_meet(C here) {
  return here.self;
}
#else
GS_FN gs_emu_thread *gs_meet(gs_meeting here) {
  return here.self;
}
template <class C> GS_FN gs_emu_thread *gs_meet(C) {
  static_assert(sizeof(C) == 0, "a kernel declared barrier-free uses a barrier, a collective or "
                                "shared memory");
  return nullptr;
}
#endif

#define GS_SYNC() (gs_meet(gs_here)->rt->sync(gs_here.self, __LINE__))
#define GS_SYNCWARP() (gs_meet(gs_here)->rt->syncwarp(gs_here.self, __LINE__))
#define GS_COLLECT(n, v, op) (gs_meet(gs_here)->rt->group(gs_here.self, (v), op, (n), __LINE__))
#define GS_GROUP_SUM(n, v) GS_COLLECT(n, v, GS_EMU_SUM)
#define GS_GROUP_MAX(n, v) GS_COLLECT(n, v, GS_EMU_MAX)
#define GS_GROUP_MIN(n, v) GS_COLLECT(n, v, GS_EMU_MIN)
#define GS_WARP_SUM(v) GS_COLLECT(32, v, GS_EMU_SUM)
#define GS_WARP_MAX(v) GS_COLLECT(32, v, GS_EMU_MAX)
#define GS_WARP_MIN(v) GS_COLLECT(32, v, GS_EMU_MIN)
// One exchange does all of a block's reduction, so the shared scratch is named only.
#define GS_MEET_ALL(v, s, op)                                                                      \
  ((void)sizeof(s), gs_meet(gs_here)->rt->block(gs_here.self, (v), op, __LINE__))
#define GS_BLOCK_SUM(v, s) GS_MEET_ALL(v, s, GS_EMU_SUM)
#define GS_BLOCK_MAX(v, s) GS_MEET_ALL(v, s, GS_EMU_MAX)
#define GS_BLOCK_MIN(v, s) GS_MEET_ALL(v, s, GS_EMU_MIN)

GS_FN void *gs_shared(gs_emu_thread *t, i64 bytes, const char *name, int line) {
  unsigned at = (t->shared_used + 15u) & ~15u;
  t->shared_used = at + (unsigned)bytes;
  if (t->shared_used > t->shared_limit) t->rt->shared_full(t, name, line);
  return t->shared + at;
}

// ---- elements ----

#if !defined(GS_CHECKED)

#define GS_IN(type, x) const type *GS_RESTRICT x
#define GS_OUT(type, y) type *GS_RESTRICT y
#define GS_INOUT(type, z) type *z
#define GS_STEP(v) const f32 *GS_RESTRICT v
#define GS_SHARED(type, name, count)                                                               \
  type *const name = static_cast<type *>(                                                          \
      gs_shared(gs_meet(gs_here), (i64)sizeof(type) * (count), #name, __LINE__))

template <class P> struct gs_param;
template <class T> struct gs_param<T *> {
  static GS_FN T *get(gs_emu_thread *, const gs_emu_arg *a, int i) { return (T *)a[i].ptr; }
};

template <class T> GS_FN f32 gs_get(const T *x, i64 i) {
  return gs_to_f32(x[i]);
}
template <class T> GS_FN void gs_put(T *y, i64 i, f32 v) {
  y[i] = gs_round<T>::from(v);
}
template <class T> GS_FN i64 gs_geti(const T *x, i64 i) {
  return (i64)x[i];
}
template <class T> GS_FN void gs_puti(T *y, i64 i, i64 v) {
  y[i] = (T)v;
}
template <int N, class T> GS_FN void gs_load(f32 (&out)[N], const T *x, i64 i) {
  GS_UNROLL for (int k = 0; k < N; k++) out[k] = gs_to_f32(x[i + k]);
}
template <int N, class T> GS_FN void gs_store(T *y, i64 i, const f32 (&v)[N]) {
  GS_UNROLL for (int k = 0; k < N; k++) y[i + k] = gs_round<T>::from(v[k]);
}
GS_FN f32 gs_step(const f32 *v) {
  return *v;
}

#else // GS_CHECKED: views that ask the driver about every element

// An index with the line that it stands on.
struct gs_at {
  i64 i;
  int line;
  GS_FN gs_at(i64 i_, int line_ = __builtin_LINE()) : i(i_), line(line_) {}
};
// Where elements lie: a launch argument, or a shared array of this block.
struct gs_place {
  gs_emu_thread *t;
  int number;
  bool is_shared;
  void *at(i64 i, int size, int count, int access, int line) const {
    return is_shared ? t->rt->local(t, number, i, size, access, line)
                     : t->rt->global(t, number, i, size, count, access, line);
  }
};
template <class T> T gs_read(gs_place p, gs_at a) {
  return *(const T *)p.at(a.i, sizeof(T), 1, GS_EMU_READ, a.line);
}
template <class T> void gs_write(gs_place p, gs_at a, T v) {
  *(T *)p.at(a.i, sizeof(T), 1, GS_EMU_WRITE, a.line) = v;
}
template <class T> struct gs_const_ref {
  gs_place p;
  gs_at a;
  operator T() const { return gs_read<T>(p, a); }
};
template <class T> struct gs_ref {
  gs_place p;
  gs_at a;
  operator T() const { return gs_read<T>(p, a); }
  T operator=(T v) const { return gs_write<T>(p, a, v), v; }
  T operator=(const gs_ref &o) const { return *this = (T)o; }
  T operator+=(T v) const { return *this = (T)(gs_read<T>(p, a) + v); }
  T operator-=(T v) const { return *this = (T)(gs_read<T>(p, a) - v); }
  T operator*=(T v) const { return *this = (T)(gs_read<T>(p, a) * v); }
};
template <class T> struct gs_in {
  typedef T element;
  gs_place p;
  gs_const_ref<T> operator[](gs_at a) const { return gs_const_ref<T>{p, a}; }
};
template <class T> struct gs_inout {
  typedef T element;
  gs_place p;
  gs_ref<T> operator[](gs_at a) const { return gs_ref<T>{p, a}; }
};
struct gs_step_view {
  gs_place p;
};

#define GS_IN(type, x) gs_in<type> x
#define GS_OUT(type, y) gs_inout<type> y
#define GS_INOUT(type, z) gs_inout<type> z
#define GS_STEP(v) gs_step_view v
#define GS_SHARED(type, name, count)                                                               \
  static_assert((count) > 0, "");                                                                  \
  gs_shared(gs_here.self, (i64)sizeof(type) * (count), #name, __LINE__);                           \
  const gs_inout<type> name = {                                                                    \
      {gs_here.self,                                                                               \
       gs_here.self->rt->declare(gs_here.self, #name, (int)sizeof(type), (count), __LINE__),       \
       true}}

template <class P> struct gs_param {
  static GS_FN P get(gs_emu_thread *t, const gs_emu_arg *, int i) { return P{{t, i, false}}; }
};

template <class V> f32 gs_get(V x, gs_at i) {
  return gs_to_f32(gs_read<typename V::element>(x.p, i));
}
template <class T> void gs_put(gs_inout<T> y, gs_at i, f32 v) {
  gs_write<T>(y.p, i, gs_round<T>::from(v));
}
template <class V> i64 gs_geti(V x, gs_at i) {
  return (i64)gs_read<typename V::element>(x.p, i);
}
template <class T> void gs_puti(gs_inout<T> y, gs_at i, i64 v) {
  gs_write<T>(y.p, i, (T)v);
}
// Pieces of up to 16 bytes, as on the GPU: the driver checks alignment and range of each.
template <int N, class T> struct gs_pieces {
  static constexpr int fit = 16 / (int)sizeof(T), each = N < fit ? N : fit;
  static_assert(N % each == 0 && (each & (each - 1)) == 0, "N is a power of two");
};
template <int N, class V> void gs_load(f32 (&out)[N], V x, gs_at i) {
  typedef typename V::element T;
  constexpr int each = gs_pieces<N, T>::each;
  for (int k = 0; k < N; k += each) {
    const T *e = (const T *)x.p.at(i.i + k, sizeof(T), each, GS_EMU_READ, i.line);
    for (int j = 0; j < each; j++) out[k + j] = gs_to_f32(e[j]);
  }
}
template <int N, class T> void gs_store(gs_inout<T> y, gs_at i, const f32 (&v)[N]) {
  constexpr int each = gs_pieces<N, T>::each;
  for (int k = 0; k < N; k += each) {
    T *e = (T *)y.p.at(i.i + k, sizeof(T), each, GS_EMU_WRITE, i.line);
    for (int j = 0; j < each; j++) e[j] = gs_round<T>::from(v[k + j]);
  }
}
inline f32 gs_step(gs_step_view v, int line = __builtin_LINE()) {
  return gs_read<f32>(v.p, gs_at(0, line));
}

#endif

#define GS_DIM(n) const i64 n
#define GS_STRIDE(n) const i64 n
#define GS_NUM(v) const f32 v
template <> struct gs_param<i64> {
  static GS_FN i64 get(gs_emu_thread *, const gs_emu_arg *a, int i) { return a[i].i64; }
};
template <> struct gs_param<f32> {
  static GS_FN f32 get(gs_emu_thread *, const gs_emu_arg *a, int i) { return a[i].f32; }
};

// ---- from a body to an entry ----

template <int... I> struct gs_list {};
template <int N, int... I> struct gs_count : gs_count<N - 1, N - 1, I...> {};
template <int... I> struct gs_count<0, I...> { typedef gs_list<I...> type; };

template <class F, F body, int THREADS, int FREE> struct gs_call;
template <class C, class... P, void (*body)(C, P...), int THREADS, int FREE>
struct gs_call<void (*)(C, P...), body, THREADS, FREE> {
  template <int... I>
  static GS_FN void thread(gs_emu_thread *t, const gs_emu_arg *a, gs_list<I...>) {
    C here;
    here.tid = t->tid;
    here.bid = t->bid;
    here.nblocks = t->nblocks;
#if !defined(GS_CHECKED)
    if constexpr (FREE == 0)
#endif
      here.self = t;
    body(here, gs_param<P>::get(t, a, I)...);
  }
  static void one(gs_emu_thread *t, const gs_emu_arg *a) {
    thread(t, a, typename gs_count<(int)sizeof...(P)>::type());
  }
#if !defined(GS_CHECKED)
  template <int... I> static GS_FN void block(i64 bid, i64 nblocks, gs_list<I...>, P... p) {
    GS_ACROSS_THREADS
    for (int tid = 0; tid < THREADS; tid++) body(C{tid, bid, nblocks}, p...);
  }
  template <int... I>
  static GS_FN void blocks(const gs_emu_arg *a, i64 lo, i64 hi, i64 nblocks, gs_list<I...> l) {
    for (i64 bid = lo; bid < hi; bid++) block(bid, nblocks, l, gs_param<P>::get(nullptr, a, I)...);
  }
  static void loop(const gs_emu_arg *a, i64 lo, i64 hi, i64 nblocks) {
    blocks(a, lo, hi, nblocks, typename gs_count<(int)sizeof...(P)>::type());
  }
#endif
  static constexpr gs_emu_entry entry(const char *params) {
#if defined(GS_CHECKED)
    return gs_emu_entry{GS_EMU_ABI, THREADS, FREE, 1, params, one, nullptr};
#else
    if constexpr (FREE == 1)
      return gs_emu_entry{GS_EMU_ABI, THREADS, FREE, 0, params, nullptr, loop};
    else
      return gs_emu_entry{GS_EMU_ABI, THREADS, FREE, 0, params, one, nullptr};
#endif
  }
};

#define GS_KERNEL(name, threads, barrier_free, ...)                                                \
  static GS_FN void name##_body(gs_context<(barrier_free)>::type gs_here, __VA_ARGS__);            \
  extern "C" __attribute__((visibility("default"))) const gs_emu_entry name =                      \
      gs_call<decltype(&name##_body), &name##_body, (threads), (barrier_free)>::entry(             \
          #__VA_ARGS__);                                                                           \
  static GS_FN void name##_body([[maybe_unused]] gs_context<(barrier_free)>::type gs_here,         \
                                __VA_ARGS__)
