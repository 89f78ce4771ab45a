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

#define GS_FN inline __attribute__((always_inline, unused))
#define GS_CONST static constexpr
#define GS_TABLE(name, count) static constexpr f32 name[count]
#define GS_TABLE_AT(table, i) ((table)[i])
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
GS_FN f32 gs_to_f32(i8 v) {
  return (f32)v;
}
GS_FN f32 gs_to_f32(e4m3 v) {
  const gs_u32 a = v.bits & 0x7fu, sign = (gs_u32)(v.bits & 0x80u) << 24;
  const f32 tiny = (f32)a * 0.001953125f; // below 8: units of 2^-9
  const gs_u32 w = a < 8 ? gs_bits(tiny) : (a << 20) + 0x3c000000u;
  return gs_float((a == 0x7fu ? 0x7fffffffu : w) | sign);
}
GS_FN f32 gs_to_f32(e5m2 v) { // the high half of an f16
  return gs_to_f32(f16{(unsigned short)(v.bits << 8)});
}
GS_FN f32 gs_to_f32(e8m0 v) {
  const gs_u32 b = v.bits, w = b == 0u ? 0x00400000u : b << 23;
  return gs_float(b == 0xffu ? 0x7fffffffu : w);
}

// Round to nearest even; a NaN becomes 0x7fff, in FP8 0x7f.
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
// FP8: beyond the largest is the largest, infinities too.
GS_FN gs_u32 gs_to_fp8(f32 v, int drop, gs_u32 least, f32 unit_bit, gs_u32 most) {
  const gs_u32 u = gs_bits(v), a = u & 0x7fffffffu;
  const gs_u32 normal = a + ((1u << (drop - 1)) - 1u) + (a >> drop & 1u) - (least - (1u << 23));
  const f32 tiny = gs_float(a < least ? a : 0u) + unit_bit;
  gs_u32 w = a < least ? gs_bits(tiny) - gs_bits(unit_bit) : normal >> drop;
  w = w > most ? most : w;
  return a > 0x7f800000u ? 0x7fu : w | (u >> 24 & 0x80u);
}
template <> struct gs_round<e4m3> {
  static GS_FN e4m3 from(f32 v) {
    return e4m3{(unsigned char)gs_to_fp8(v, 20, 0x3c800000u, 16384.0f, 0x7eu)};
  }
};
template <> struct gs_round<e5m2> {
  static GS_FN e5m2 from(f32 v) {
    return e5m2{(unsigned char)gs_to_fp8(v, 21, 0x38800000u, 128.0f, 0x7bu)};
  }
};
// The least power of two that is not below v: 2^-127 for what is not above it, 2^127 at most.
template <> struct gs_round<e8m0> {
  static GS_FN e8m0 from(f32 v) {
    const gs_u32 a = v > 0.0f ? gs_bits(v) : 0u, up = (a + 0x7fffffu) >> 23;
    const gs_u32 w = a <= 0x00400000u ? 0u : up < 0xfeu ? up : 0xfeu;
    return e8m0{(unsigned char)(v == v ? w : 0xffu)};
  }
};
// Integers: toward zero, the nearest end where it is beyond, 0 for a NaN.
template <> struct gs_round<i32> {
  static GS_FN i32 from(f32 v) {
    const f32 c = v > -2147483648.0f ? v < 2147483520.0f ? v : 2147483520.0f : -2147483648.0f;
    return v >= 2147483648.0f ? 2147483647 : v == v ? (i32)c : 0;
  }
};
template <> struct gs_round<i64> {
  static GS_FN i64 from(f32 v) {
    const f32 most = 9223371487098961920.0f, least = -9223372036854775808.0f;
    const f32 c = v > least ? v < most ? v : most : least;
    return v > most ? 9223372036854775807LL : v == v ? (i64)c : 0;
  }
};
template <> struct gs_round<u8> {
  static GS_FN u8 from(f32 v) { return (u8)(v > 0.0f ? v < 255.0f ? v : 255.0f : 0.0f); }
};
template <> struct gs_round<i8> {
  static GS_FN i8 from(f32 v) {
    const f32 c = v > -128.0f ? v < 127.0f ? v : 127.0f : -128.0f;
    return (i8)(v == v ? c : 0.0f);
  }
};
GS_FN f32 gs_round_bf16(f32 v) {
  return gs_to_f32(gs_round<bf16>::from(v));
}
GS_FN f32 gs_round_f16(f32 v) {
  return gs_to_f32(gs_round<f16>::from(v));
}
GS_FN f32 gs_round_e4m3(f32 v) {
  return gs_to_f32(gs_round<e4m3>::from(v));
}
GS_FN f32 gs_round_e5m2(f32 v) {
  return gs_to_f32(gs_round<e5m2>::from(v));
}
GS_FN f32 gs_round_e8m0(f32 v) {
  return gs_to_f32(gs_round<e8m0>::from(v));
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
// Toward minus infinity; the nearest that there is, 0 for a NaN.
GS_FN i64 gs_integer(f32 v) {
  return gs_round<i64>::from(gs_floor(v));
}
GS_FN int gs_integer32(f32 v) {
  return gs_round<i32>::from(gs_floor(v));
}
// v, less 1 where it holds.
GS_FN f32 gs_less(f32 v, bool holds) {
  if (holds) v = v - 1.0f;
  return v;
}
// v[at] becomes x where there is such an element.
template <int N, class T, class I> GS_FN void gs_set(T (&v)[N], I at, T x) {
  if (at >= 0 && at < N) v[at] = x;
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
GS_FN i64 gs_apart(i64 v) {
  return v;
}
GS_FN f32 gs_exp_near(f32 v) {
  return gs_exp(v);
}
GS_FN f32 gs_exp_near(f32 v, f32 from) {
  return gs_exp(v - from);
}
GS_FN f32 gs_near_scale(f32 scale, f32) {
  return scale;
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
GS_FN f32 gs_expm1(f32 v) {
  gs_reduced e = gs_exp_reduce(v < -30.0f ? -30.0f : v > 30.0f ? 30.0f : v);
  f32 two_n = gs_float((e.n + 127) << 23);
  f32 r = GS_MAD(two_n, e.expm1, two_n - 1.0f);
  r = v > 30.0f ? gs_exp(v) : r;
  return v == 0.0f ? v : r;
}
// log(1 + v), with what 1 + v rounded away given back.
GS_FN f32 gs_log1p(f32 v) {
  f32 u = 1.0f + v, r = gs_log(u) * (v / (u - 1.0f));
  r = u == 1.0f ? v : r;
  return v == GS_INF ? v : r;
}
GS_FN f32 gs_softplus(f32 v) {
  return gs_max(v, 0.0f) + gs_log1p(gs_exp(-__builtin_fabsf(v)));
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

// ---- rounding at random: r in [0, 1) decides ----

// Away from zero where r and the place of |v| between its neighbours make 1 or more, both exact;
// neighbours differ in the last of the bits above `drop`, or by `unit` below `least`.
GS_FN f32 gs_either(f32 v, f32 r, int drop, gs_u32 least, f32 unit, f32 units, gs_u32 most) {
  const gs_u32 u = gs_bits(v), a = u & 0x7fffffffu;
  const f32 inside = r > 0.0f ? r < 1.0f ? r : 0.99999994f : 0.0f;
  const gs_u32 draw = (gs_u32)(inside * 16777216.0f);
  const gs_u32 normal = (a + (draw >> (24 - drop))) >> drop << drop;
  const f32 t = gs_float(a < least ? a : 0u) * units, whole = gs_floor(t);
  const gs_u32 carry = ((gs_u32)((t - whole) * 16777216.0f) + draw) >> 24;
  const gs_u32 tiny = gs_bits((whole + (f32)carry) * unit);
  gs_u32 w = a < least ? tiny : normal;
  w = w > most ? most : w;
  return a > 0x7f800000u ? v : gs_float(w | (u & 0x80000000u));
}
GS_FN f32 gs_round_rand_bf16(f32 v, f32 r) {
  return gs_either(v, r, 16, 0u, 1.0f, 1.0f, 0x7f800000u);
}
GS_FN f32 gs_round_rand_f16(f32 v, f32 r) {
  const f32 w = gs_either(v, r, 13, 0x38800000u, 5.96046448e-8f, 16777216.0f, 0x7f800000u);
  return gs_abs(w) >= 65536.0f ? w * GS_INF : w;
}
GS_FN f32 gs_round_rand_e4m3(f32 v, f32 r) {
  return gs_either(v, r, 20, 0x3c800000u, 0.001953125f, 512.0f, 0x43e00000u);
}
GS_FN f32 gs_round_rand_e5m2(f32 v, f32 r) {
  return gs_either(v, r, 21, 0x38800000u, 1.52587891e-5f, 65536.0f, 0x47600000u);
}

// ---- random numbers by place: gs_random_at of runtime/base/random.h, to the bit ----

GS_FN gs_u32 gs_mix3(gs_u32 x) {
  x = (x ^ x >> 17) * 0xed5ad4bbu;
  x = (x ^ x >> 11) * 0xac4c1b51u;
  x = (x ^ x >> 15) * 0x31848babu;
  return x ^ x >> 14;
}
GS_FN gs_u32 gs_mix2(gs_u32 x) {
  x = (x ^ x >> 16) * 0x21f0aaadu;
  x = (x ^ x >> 15) * 0xd35a2d97u;
  return x ^ x >> 15;
}
GS_FN f32 gs_rand(i64 index, i64 site, i64 seed) {
  const gs_u32 k0 = gs_mix3((gs_u32)seed ^ 0x9e3779b9u), k1 = gs_mix3((gs_u32)site + k0);
  const gs_u32 low = (gs_u32)index, high = (gs_u32)((unsigned long long)index >> 32);
  const gs_u32 bits = gs_mix2(gs_mix3(low + k0) ^ (high * 0x9e3779b9u + k1));
  return (f32)(bits >> 8) * 5.96046448e-8f;
}

#include "prelude_integers.h"

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
#define GS_BLOCK_SUM_AT(v, s, at) ((void)(at), GS_BLOCK_SUM(v, s))
#define GS_BLOCK_MAX_AT(v, s, at) ((void)(at), GS_BLOCK_MAX(v, s))
#define GS_BLOCK_MIN_AT(v, s, at) ((void)(at), GS_BLOCK_MIN(v, s))
#define GS_BLOCK_SUMS_AT(n, v, s, at)                                                              \
  for (f32 &gs_each : v) gs_each = GS_BLOCK_SUM_AT(gs_each, s, at)
#define GS_BLOCK_SUM(v, s) GS_MEET_ALL(v, s, GS_EMU_SUM)
#define GS_BLOCK_MAX(v, s) GS_MEET_ALL(v, s, GS_EMU_MAX)
#define GS_BLOCK_MIN(v, s) GS_MEET_ALL(v, s, GS_EMU_MIN)

// The value of lane GS_LANE ^ distance: an f32, or an i64 as two halves.
GS_FN f32 gs_exchange(gs_emu_thread *t, f32 v, int distance, int line) {
  return gs_float(t->rt->exchange(t, gs_bits(v), distance, line));
}
GS_FN i64 gs_exchange(gs_emu_thread *t, i64 v, int distance, int line) {
  const gs_u32 low = t->rt->exchange(t, (gs_u32)v, distance, line);
  const gs_u32 high = t->rt->exchange(t, (gs_u32)(v >> 32), distance, line);
  return (i64)((unsigned long long)high << 32 | low);
}
#define GS_EXCHANGE(v, distance) gs_exchange(gs_meet(gs_here), v, distance, __LINE__)

#define GS_LET_NEXT() ((void)0)
#define GS_WAIT_LAST() ((void)0)
#define GS_CLUSTER_RANK (gs_meet(gs_here)->rank)
#define GS_CLUSTER_SYNC() (gs_meet(gs_here)->rt->cluster_sync(gs_here.self, __LINE__))
#define GS_CLUSTER_PUT(array, to, i, v)                                                            \
  gs_cluster_put(gs_meet(gs_here), (array), (to), (i), (v), __LINE__)
#define GS_CLUSTER_GATHER(n, out, v, meet)                                                         \
  gs_cluster_gather<(n)>(gs_meet(gs_here), (out), (v), (meet), __LINE__)
#define GS_CLUSTER_GATHER_AT(n, out, v, meet, at)                                                  \
  gs_cluster_gather_at<(n)>(gs_meet(gs_here), (out), (v), (meet), (at), __LINE__)
#define GS_CLUSTER_REDUCE(n, v, meet, at, first, op)                                               \
  gs_cluster_reduce<(n)>(gs_meet(gs_here), (v), (meet), (at), first, op, __LINE__)
#define GS_CLUSTER_SUM(n, v, meet) GS_CLUSTER_REDUCE(n, v, meet, 0, true, GS_EMU_SUM)
#define GS_CLUSTER_MAX(n, v, meet) GS_CLUSTER_REDUCE(n, v, meet, 0, true, GS_EMU_MAX)
#define GS_CLUSTER_MIN(n, v, meet) GS_CLUSTER_REDUCE(n, v, meet, 0, true, GS_EMU_MIN)
#define GS_CLUSTER_SUM_AT(n, v, meet, at) GS_CLUSTER_REDUCE(n, v, meet, at, false, GS_EMU_SUM)
#define GS_CLUSTER_MAX_AT(n, v, meet, at) GS_CLUSTER_REDUCE(n, v, meet, at, false, GS_EMU_MAX)
#define GS_CLUSTER_MIN_AT(n, v, meet, at) GS_CLUSTER_REDUCE(n, v, meet, at, false, GS_EMU_MIN)

GS_FN void *gs_shared(gs_emu_thread *t, i64 bytes, const char *name, int line) {
  unsigned at = (t->shared_used + 15u) & ~15u;
  t->shared_used = at + (unsigned)bytes;
  if (t->shared_used > t->shared_limit) t->rt->shared_full(t, name, line);
  return t->shared + at;
}

// One array after another: where it lies in shared memory matters to the GPU alone.
#define GS_DYNAMIC(type, name, at, count) GS_SHARED(type, name, count)
// Copies ahead are made at once; the checked mode lets nobody read them before they are waited for.
#if defined(GS_CHECKED)
#define GS_COPY_CLOSE() (gs_meet(gs_here)->rt->copy_close(gs_here.self))
#define GS_COPY_WAIT(n) (gs_meet(gs_here)->rt->copy_wait(gs_here.self, (n)))
#else
#define GS_COPY_CLOSE() ((void)0)
#define GS_COPY_WAIT(n) ((void)sizeof(char[(n) + 1]))
#endif

// ---- elements ----

template <int N, class T> struct gs_packed {
  T e[N];
};
template <int PASS = 0, int N, class T>
GS_FN void gs_unpack(f32 (&out)[N], const gs_packed<N, T> &packed) {
  GS_UNROLL for (int k = 0; k < N; k++) out[k] = gs_to_f32(packed.e[k]);
}
template <int N, class T> GS_FN void gs_lowest(gs_packed<N, T> &m) {
  GS_UNROLL for (int k = 0; k < N; k++) m.e[k] = gs_round<T>::from(-GS_INF);
}
template <int N, class T> GS_FN void gs_most(gs_packed<N, T> &m, const gs_packed<N, T> &x) {
  GS_UNROLL for (int k = 0; k < N; k++)
    m.e[k] = gs_round<T>::from(gs_max(gs_to_f32(m.e[k]), gs_to_f32(x.e[k])));
}
template <int N, class T> GS_FN f32 gs_most_of(const gs_packed<N, T> &m) {
  f32 most = gs_to_f32(m.e[0]);
  for (int k = 1; k < N; k++) most = gs_max(most, gs_to_f32(m.e[k]));
  return most;
}
template <int N, class T> GS_FN f32 gs_top_of(const gs_packed<N, T> &x) {
  return gs_most_of(x);
}

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
template <class T, class I> GS_FN void gs_puti(T *y, i64 i, I v) {
  y[i] = gs_keep<T>::from(v);
}
template <int N, class I, class T> GS_FN void gs_loadi(I (&out)[N], const T *x, i64 i) {
  GS_UNROLL for (int k = 0; k < N; k++) out[k] = (I)x[i + k];
}
template <int N, class I, class T> GS_FN void gs_storei(T *y, i64 i, const I (&v)[N]) {
  GS_UNROLL for (int k = 0; k < N; k++) y[i + k] = gs_keep<T>::from(v[k]);
}
template <int N, class T> GS_FN void gs_load(f32 (&out)[N], const T *x, i64 i) {
  GS_UNROLL for (int k = 0; k < N; k++) out[k] = gs_to_f32(x[i + k]);
}
template <int N, class T> GS_FN void gs_store(T *y, i64 i, const f32 (&v)[N]) {
  GS_UNROLL for (int k = 0; k < N; k++) y[i + k] = gs_round<T>::from(v[k]);
}
template <int N, class T> GS_FN void gs_fetch(gs_packed<N, T> &out, const T *x, i64 i) {
  GS_UNROLL for (int k = 0; k < N; k++) out.e[k] = x[i + k];
}
template <int N, class T> GS_FN void gs_copy_ahead(T *to, int at, const T *x, i64 i) {
  GS_UNROLL for (int k = 0; k < N; k++) to[at + k] = x[i + k];
}
// A sum that rests in shared memory with its rounding error, N of them `by` apart, the errors after
// the sums: takes acc in, which is 0 then.
template <int N> GS_FN void gs_carry(f32 (&acc)[N], f32 * far, int at, int by) {
  GS_UNROLL for (int j = 0; j < N; j++) {
    const f32 old = far[at + j * by], term = acc[j] - far[at + (N + j) * by];
    const f32 sum = old + term;
    far[at + (N + j) * by] = (sum - old) - term;
    far[at + j * by] = sum;
    acc[j] = 0.0f;
  }
}
template <int N> GS_FN void gs_carried(f32 (&acc)[N], f32 * far, int at, int by) {
  GS_UNROLL for (int j = 0; j < N; j++) acc[j] = far[at + j * by];
}
// The first n of a vector, where fewer than all may be left: what is not loaded is 0.
template <int N, class T> GS_FN void gs_load_upto(f32 (&out)[N], const T *x, i64 i, int n) {
  if (n >= N)
    gs_load<N>(out, x, i);
  else
    GS_UNROLL for (int j = 0; j < N; j++) out[j] = j < n ? gs_get(x, i + j) : 0.0f;
}
template <int N, class T> GS_FN void gs_store_upto(T *y, i64 i, const f32 (&v)[N], int n) {
  if (n >= N)
    gs_store<N>(y, i, v);
  else
    GS_UNROLL for (int j = 0; j < N; j++) if (j < n) gs_put(y, i + j, v[j]);
}
template <int N, class I, class T> GS_FN void gs_loadi_upto(I (&out)[N], const T *x, i64 i, int n) {
  if (n >= N)
    gs_loadi<N>(out, x, i);
  else
    GS_UNROLL for (int j = 0; j < N; j++) out[j] = j < n ? (I)x[i + j] : (I)0;
}
template <int N, class I, class T>
GS_FN void gs_storei_upto(T *y, i64 i, const I (&v)[N], int n) {
  if (n >= N)
    gs_storei<N>(y, i, v);
  else
    GS_UNROLL for (int j = 0; j < N; j++) if (j < n) gs_puti(y, i + j, v[j]);
}
GS_FN f32 gs_step(const f32 *v) {
  return *v;
}
template <class T, class V>
GS_FN void gs_cluster_put(gs_emu_thread *t, T *array, int to, i64 i, V v, int line) {
  *(T *)((char *)(array + i) + t->rt->peer(t, to, line)) = (T)v;
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
template <class T, class I> void gs_puti(gs_inout<T> y, gs_at i, I v) {
  gs_write<T>(y.p, i, gs_keep<T>::from(v));
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
template <int N, class T, class V> void gs_fetch(gs_packed<N, T> &out, V x, gs_at i) {
  constexpr int each = gs_pieces<N, T>::each;
  for (int k = 0; k < N; k += each) {
    const T *e = (const T *)x.p.at(i.i + k, sizeof(T), each, GS_EMU_READ, i.line);
    for (int j = 0; j < each; j++)
      out.e[k + j] = x.p.is_shared ? gs_read<T>(x.p, gs_at(i.i + k + j, i.line)) : e[j];
  }
}
template <int N> void gs_carry(f32 (&acc)[N], gs_inout<f32> far, int at, int by) {
  GS_UNROLL for (int j = 0; j < N; j++) {
    const f32 old = far[at + j * by], term = acc[j] - far[at + (N + j) * by];
    const f32 sum = old + term;
    far[at + (N + j) * by] = (sum - old) - term;
    far[at + j * by] = sum;
    acc[j] = 0.0f;
  }
}
template <int N> void gs_carried(f32 (&acc)[N], gs_inout<f32> far, int at, int by) {
  GS_UNROLL for (int j = 0; j < N; j++) acc[j] = far[at + j * by];
}
template <int N, class T, class V> void gs_copy_ahead(gs_inout<T> to, gs_at at, V x, gs_at i) {
  constexpr int each = gs_pieces<N, T>::each;
  for (int k = 0; k < N; k += each) {
    const T *e = (const T *)x.p.at(i.i + k, sizeof(T), each, GS_EMU_READ, i.line);
    for (int j = 0; j < each; j++) {
      gs_write<T>(to.p, gs_at(at.i + k + j, at.line), e[j]);
      to.p.t->rt->copying(to.p.t, to.p.number, at.i + k + j, (int)sizeof(T));
    }
  }
}
template <int N, class I, class V> void gs_loadi(I (&out)[N], V x, gs_at i) {
  typedef typename V::element T;
  constexpr int each = gs_pieces<N, T>::each;
  for (int k = 0; k < N; k += each) {
    const T *e = (const T *)x.p.at(i.i + k, sizeof(T), each, GS_EMU_READ, i.line);
    for (int j = 0; j < each; j++) out[k + j] = (I)e[j];
  }
}
template <int N, class I, class T> void gs_storei(gs_inout<T> y, gs_at i, const I (&v)[N]) {
  constexpr int each = gs_pieces<N, T>::each;
  for (int k = 0; k < N; k += each) {
    T *e = (T *)y.p.at(i.i + k, sizeof(T), each, GS_EMU_WRITE, i.line);
    for (int j = 0; j < each; j++) e[j] = gs_keep<T>::from(v[k + j]);
  }
}
// The first n of a vector, where fewer than all may be left: what is not loaded is 0.
template <int N, class V> void gs_load_upto(f32 (&out)[N], V x, gs_at i, int n) {
  if (n >= N) return gs_load<N>(out, x, i);
  for (int j = 0; j < N; j++) out[j] = j < n ? gs_get(x, gs_at(i.i + j, i.line)) : 0.0f;
}
template <int N, class T> void gs_store_upto(gs_inout<T> y, gs_at i, const f32 (&v)[N], int n) {
  if (n >= N) return gs_store<N>(y, i, v);
  for (int j = 0; j < n; j++) gs_put(y, gs_at(i.i + j, i.line), v[j]);
}
template <int N, class I, class V> void gs_loadi_upto(I (&out)[N], V x, gs_at i, int n) {
  if (n >= N) return gs_loadi<N>(out, x, i);
  for (int j = 0; j < N; j++) out[j] = j < n ? (I)gs_geti(x, gs_at(i.i + j, i.line)) : (I)0;
}
template <int N, class I, class T>
void gs_storei_upto(gs_inout<T> y, gs_at i, const I (&v)[N], int n) {
  if (n >= N) return gs_storei<N>(y, i, v);
  for (int j = 0; j < n; j++) gs_puti(y, gs_at(i.i + j, i.line), v[j]);
}
inline f32 gs_step(gs_step_view v, int line = __builtin_LINE()) {
  return gs_read<f32>(v.p, gs_at(0, line));
}
template <class T, class V>
void gs_cluster_put(gs_emu_thread *t, gs_inout<T> array, int to, i64 i, V v, int line) {
  *(T *)t->rt->remote(t, array.p.number, to, i, sizeof(T), GS_EMU_WRITE, line) = (T)v;
}

#endif

// ---- clusters ----

template <int N, int K, class A>
GS_FN void gs_cluster_gather_at(gs_emu_thread *t, f32 (&out)[N * K], const f32 (&v)[K], A meet,
                                int at, int line) {
  if (t->tid < N)
    for (int k = 0; k < K; k++) gs_cluster_put(t, meet, t->tid, at + t->rank * K + k, v[k], line);
  t->rt->cluster_sync(t, line);
  for (int j = 0; j < N * K; j++) out[j] = meet[at + j];
}
// What each of the n blocks says, K values of its own, by rank; meet: n * K shared values.
template <int N, int K, class A>
GS_FN void gs_cluster_gather(gs_emu_thread *t, f32 (&out)[N * K], const f32 (&v)[K], A meet,
                             int line) {
  t->rt->cluster_sync(t, line); // all have begun, and have read what was there
  gs_cluster_gather_at<N>(t, out, v, meet, 0, line);
}
template <int N, class A>
GS_FN f32 gs_cluster_reduce(gs_emu_thread *t, f32 v, A meet, int at, bool first, int op, int line) {
  f32 all[N];
  const f32 own[1] = {v};
  if (first) t->rt->cluster_sync(t, line);
  gs_cluster_gather_at<N>(t, all, own, meet, at, line);
  for (int n = N / 2; n > 0; n /= 2)
    for (int j = 0; j < n; j++) {
      const f32 a = all[j], b = all[j + n];
      all[j] = op == GS_EMU_SUM ? a + b : op == GS_EMU_MAX ? gs_max(a, b) : gs_min(a, b);
    }
  return all[0];
}

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

template <class F, F body, int THREADS, int FREE, int CLUSTER> struct gs_call;
template <class C, class... P, void (*body)(C, P...), int THREADS, int FREE, int CLUSTER>
struct gs_call<void (*)(C, P...), body, THREADS, FREE, CLUSTER> {
  static_assert(CLUSTER == 1 || CLUSTER == 2 || CLUSTER == 4 || CLUSTER == GS_EMU_CLUSTER,
                "a cluster has 2, 4 or 8 blocks");
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
    return gs_emu_entry{GS_EMU_ABI, THREADS, FREE, 1, CLUSTER, params, one, nullptr};
#else
    if constexpr (FREE == 1)
      return gs_emu_entry{GS_EMU_ABI, THREADS, FREE, 0, CLUSTER, params, nullptr, loop};
    else
      return gs_emu_entry{GS_EMU_ABI, THREADS, FREE, 0, CLUSTER, params, one, nullptr};
#endif
  }
};

#define GS_KERNEL(name, threads, barrier_free, ...)                                                \
  GS_KERNEL_AS(name, threads, barrier_free, 1, #__VA_ARGS__, __VA_ARGS__)
#define GS_KERNEL_CLUSTER(name, threads, blocks, cluster, ...)                                     \
  GS_KERNEL_AS(name, threads, 0, cluster, #__VA_ARGS__, __VA_ARGS__)
#define GS_KERNEL_MANY(name, threads, blocks, barrier_free, ...)                                   \
  GS_KERNEL_AS(name, threads, barrier_free, 1, #__VA_ARGS__, __VA_ARGS__)
#define GS_KERNEL_AS(name, threads, barrier_free, cluster, params, ...)                            \
  static GS_FN void name##_body(gs_context<(barrier_free)>::type gs_here, __VA_ARGS__);            \
  extern "C" __attribute__((visibility("default"))) const gs_emu_entry name =                      \
      gs_call<decltype(&name##_body), &name##_body, (threads), (barrier_free), (cluster)>::entry(  \
          params);                                                                                 \
  static GS_FN void name##_body([[maybe_unused]] gs_context<(barrier_free)>::type gs_here,         \
                                __VA_ARGS__)
