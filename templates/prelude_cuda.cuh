// prelude_cuda.cuh: the prelude's interface (templates/README.md) for NVRTC.
//
// Includes nothing: only what NVRTC has built in. Compiled with -fmad=false and without fast math,
// for sm_80 and later. Reductions have one fixed tree, which prelude_emu.h repeats to the bit; +,
// -, *, /, sqrt, rsqrt, fma, floor, min, max and roundings agree with the host bit for bit, the
// other functions (exp, log, tanh, sigmoid, sin, cos, erf, pow) within a few ulp.

typedef float f32;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef signed char i8;
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

// At least one block a processor: said so that ptxas never spills a register to fit one more.
#define GS_KERNEL(name, threads, barrier_free, ...)                                                \
  extern "C" __global__ void __launch_bounds__(threads, 1) name(__VA_ARGS__)
// A cluster's blocks share a row.
#define GS_KERNEL_CLUSTER(name, threads, blocks, cluster, ...)                                     \
  extern "C" __global__ void __cluster_dims__(cluster, 1, 1)                                       \
      __launch_bounds__(threads, blocks) name(__VA_ARGS__)
// As many blocks a processor: the caller knows that their registers suffice.
#define GS_KERNEL_MANY(name, threads, blocks, barrier_free, ...)                                   \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(__VA_ARGS__)
#define GS_IN(type, x) const type *__restrict__ x
#define GS_OUT(type, y) type *__restrict__ y
#define GS_INOUT(type, z) type *z
#define GS_DIM(n) const i64 n
#define GS_STRIDE(n) const i64 n
#define GS_NUM(v) const f32 v
#define GS_STEP(v) const f32 *__restrict__ v
#define GS_FN __device__ __forceinline__
#define GS_CONST static __constant__ const
#define GS_TABLE(name, count) static __device__ const f32 name[count]
#define GS_TABLE_AT(table, i) ((table)[i])

#define GS_TID ((int)threadIdx.x)
#define GS_BID ((i64)blockIdx.x)
#define GS_NBLOCKS ((i64)gridDim.x)
#define GS_LANE ((int)(threadIdx.x & 31u))
#define GS_WARP ((int)(threadIdx.x >> 5))

#define GS_SHARED(type, name, count) __shared__ __align__(16) type name[count]
// Shared memory beyond what is static: `count` elements from byte `at`, a multiple of 16.
extern __shared__ __align__(128) unsigned char gs_dynamic[];
#define GS_DYNAMIC(type, name, at, count) type *const name = (type *)(gs_dynamic + (at))
#define GS_SYNC() __syncthreads()
// Kernels that follow one another: the first lets the next one's blocks begin where there is room;
// the next waits until the first is over and what it wrote can be read.
#if __CUDA_ARCH__ >= 900
#define GS_LET_NEXT() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define GS_WAIT_LAST() asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define GS_LET_NEXT() ((void)0)
#define GS_WAIT_LAST() ((void)0)
#endif
#define GS_SYNCWARP() __syncwarp()
#define GS_UNROLL _Pragma("unroll")

#define GS_INF __int_as_float(0x7f800000)
GS_FN f32 gs_floor(f32 v) {
  return floorf(v);
}
GS_FN f32 gs_abs(f32 v) {
  return fabsf(v);
}
// Toward minus infinity; the nearest that there is, 0 for a NaN.
GS_FN i64 gs_integer(f32 v) {
  return v == v ? __float2ll_rd(v) : 0;
}
GS_FN int gs_integer32(f32 v) {
  return __float2int_rd(v);
}

// Storage to f32 and back, round to nearest even; a NaN becomes 0x7fff, in FP8 0x7f.
GS_FN f32 gs_to_f32(f32 v) {
  return v;
}
GS_FN f32 gs_to_f32(bf16 v) {
  return __uint_as_float((unsigned)v.bits << 16);
}
GS_FN f32 gs_to_f32(f16 v) {
  f32 r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.bits));
  return r;
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
#if __CUDA_ARCH__ >= 890
  unsigned two;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"((unsigned short)v.bits));
  return gs_to_f32(f16{(unsigned short)two});
#else
  const unsigned a = v.bits & 0x7fu, sign = (unsigned)(v.bits & 0x80u) << 24;
  const f32 w = __uint_as_float(a << 20) * 1.32922800e36f; // 2^120
  return __uint_as_float((a == 0x7fu ? 0x7fffffffu : __float_as_uint(w)) | sign);
#endif
}
GS_FN f32 gs_to_f32(e5m2 v) { // the high half of an f16
  return gs_to_f32(f16{(unsigned short)(v.bits << 8)});
}
GS_FN f32 gs_to_f32(e8m0 v) {
  const unsigned b = v.bits, w = b == 0u ? 0x00400000u : b << 23;
  return __uint_as_float(b == 0xffu ? 0x7fffffffu : w);
}

template <class T> struct gs_round {
  static GS_FN T from(f32 v) { return (T)v; }
};
// Two at a time even where one is wanted: that of one is made where exp and its like are, an eighth
// as fast.
template <> struct gs_round<bf16> {
  static GS_FN bf16 from(f32 v) {
    unsigned two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(0.0f), "f"(v));
    return bf16{(unsigned short)two};
  }
};
template <> struct gs_round<f16> {
  static GS_FN f16 from(f32 v) {
    unsigned two;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(0.0f), "f"(v));
    return f16{(unsigned short)two};
  }
};
// FP8: beyond the largest is the largest, infinities too.
GS_FN unsigned gs_to_fp8(f32 v, int drop, unsigned least, f32 unit_bit, unsigned most) {
  const unsigned u = __float_as_uint(v), a = u & 0x7fffffffu;
  const unsigned normal = a + ((1u << (drop - 1)) - 1u) + (a >> drop & 1u) - (least - (1u << 23));
  const f32 tiny = __uint_as_float(a < least ? a : 0u) + unit_bit;
  unsigned w = a < least ? __float_as_uint(tiny) - __float_as_uint(unit_bit) : normal >> drop;
  w = w > most ? most : w;
  return a > 0x7f800000u ? 0x7fu : w | (u >> 24 & 0x80u);
}
template <> struct gs_round<e4m3> {
  static GS_FN e4m3 from(f32 v) {
#if __CUDA_ARCH__ >= 890
    unsigned short two;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(v));
    return e4m3{(unsigned char)two};
#else
    return e4m3{(unsigned char)gs_to_fp8(v, 20, 0x3c800000u, 16384.0f, 0x7eu)};
#endif
  }
};
template <> struct gs_round<e5m2> {
  static GS_FN e5m2 from(f32 v) {
#if __CUDA_ARCH__ >= 890
    unsigned short two;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(v));
    return e5m2{(unsigned char)two};
#else
    return e5m2{(unsigned char)gs_to_fp8(v, 21, 0x38800000u, 128.0f, 0x7bu)};
#endif
  }
};
// The least power of two that is not below v: 2^-127 for what is not above it, 2^127 at most.
template <> struct gs_round<e8m0> {
  static GS_FN e8m0 from(f32 v) {
    const unsigned a = v > 0.0f ? __float_as_uint(v) : 0u, up = (a + 0x7fffffu) >> 23;
    const unsigned w = a <= 0x00400000u ? 0u : up < 0xfeu ? up : 0xfeu;
    return e8m0{(unsigned char)(v == v ? w : 0xffu)};
  }
};
// Integers: toward zero, the nearest end where it is beyond, 0 for a NaN.
template <> struct gs_round<i32> {
  static GS_FN i32 from(f32 v) { return __float2int_rz(v); }
};
template <> struct gs_round<i64> {
  static GS_FN i64 from(f32 v) { return v == v ? __float2ll_rz(v) : 0; }
};
template <> struct gs_round<u8> {
  static GS_FN u8 from(f32 v) { return (u8)__float2int_rz(fminf(fmaxf(v, 0.0f), 255.0f)); }
};
template <> struct gs_round<i8> {
  static GS_FN i8 from(f32 v) {
    return (i8)__float2int_rz(v == v ? fmaxf(fminf(v, 127.0f), -128.0f) : 0.0f);
  }
};

GS_FN f32 gs_round_bf16(f32 v) { // in the upper half: what it is as f32
  unsigned two;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(v), "f"(0.0f));
  return __uint_as_float(two);
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

// ---- rounding at random: r in [0, 1) decides ----

// Away from zero where r and the place of |v| between its neighbours make 1 or more, both exact;
// neighbours differ in the last of the bits above `drop`, or by `unit` below `least`.
GS_FN f32 gs_either(f32 v, f32 r, int drop, unsigned least, f32 unit, f32 units, unsigned most) {
  const unsigned u = __float_as_uint(v), a = u & 0x7fffffffu;
  const f32 inside = r > 0.0f ? r < 1.0f ? r : 0.99999994f : 0.0f;
  const unsigned draw = (unsigned)(inside * 16777216.0f);
  const unsigned normal = (a + (draw >> (24 - drop))) >> drop << drop;
  const f32 t = __uint_as_float(a < least ? a : 0u) * units, whole = gs_floor(t);
  const unsigned carry = ((unsigned)((t - whole) * 16777216.0f) + draw) >> 24;
  const unsigned tiny = __float_as_uint((whole + (f32)carry) * unit);
  unsigned w = a < least ? tiny : normal;
  w = w > most ? most : w;
  return a > 0x7f800000u ? v : __uint_as_float(w | (u & 0x80000000u));
}
GS_FN f32 gs_round_rand_bf16(f32 v, f32 r) {
  return gs_either(v, r, 16, 0u, 1.0f, 1.0f, 0x7f800000u);
}
// A random number as its 24 bits: the same as its f32, with no way there and back.
struct gs_drawn {
  unsigned bits;
  GS_FN operator f32() const { return (f32)bits * 5.96046448e-8f; }
};
GS_FN f32 gs_round_rand_bf16(f32 v, gs_drawn r) {
  const unsigned u = __float_as_uint(v), w = (u + (r.bits >> 8)) & 0xffff0000u;
  return (u & 0x7fffffffu) > 0x7f800000u ? v : __uint_as_float(w);
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

GS_FN unsigned gs_mix3(unsigned x) {
  x = (x ^ x >> 17) * 0xed5ad4bbu;
  x = (x ^ x >> 11) * 0xac4c1b51u;
  x = (x ^ x >> 15) * 0x31848babu;
  return x ^ x >> 14;
}
GS_FN unsigned gs_mix2(unsigned x) {
  x = (x ^ x >> 16) * 0x21f0aaadu;
  x = (x ^ x >> 15) * 0xd35a2d97u;
  return x ^ x >> 15;
}
GS_FN gs_drawn gs_rand(i64 index, i64 site, i64 seed) {
  const unsigned k0 = gs_mix3((unsigned)seed ^ 0x9e3779b9u), k1 = gs_mix3((unsigned)site + k0);
  const unsigned low = (unsigned)index, high = (unsigned)((unsigned long long)index >> 32);
  const unsigned bits = gs_mix2(gs_mix3(low + k0) ^ (high * 0x9e3779b9u + k1));
  return gs_drawn{bits >> 8};
}

#include "prelude_integers.h"

// v, of which nothing is known: where a row begins, in a loop over rows with a loop along the row
// inside. With one pointer for both, stores of 16 bytes would fall apart into words.
GS_FN i64 gs_apart(i64 v) {
  asm("" : "+l"(v));
  return v;
}

// Elements.
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
GS_FN f32 gs_step(const f32 *v) {
  return __ldg(v);
}

// Vectors: accesses of up to 16 bytes; a wider vector is several of them.
template <int BYTES> struct gs_pack;
template <> struct gs_pack<1> { typedef unsigned char type; };
template <> struct gs_pack<2> { typedef unsigned short type; };
template <> struct gs_pack<4> { typedef unsigned type; };
template <> struct gs_pack<8> { typedef uint2 type; };
template <> struct gs_pack<16> { typedef uint4 type; };
// Elements of a vector to f32 and back: by words of two or four where the machine can.
template <class T, int N> struct gs_words {
  static GS_FN f32 get(const T (&e)[N], const unsigned *, int j) { return gs_to_f32(e[j]); }
  static GS_FN void put(T (&e)[N], unsigned *, const f32 *v) {
    GS_UNROLL for (int j = 0; j < N; j++) e[j] = gs_round<T>::from(v[j]);
  }
};
template <int N> struct gs_words<bf16, N> {
  static GS_FN f32 get(const bf16 (&e)[N], const unsigned *w, int j) {
    if (N == 1) return gs_to_f32(e[0]);
    return __uint_as_float(j & 1 ? w[j / 2] & 0xffff0000u : w[j / 2] << 16);
  }
  static GS_FN void put(bf16 (&e)[N], unsigned *w, const f32 *v) {
    if (N == 1) e[0] = gs_round<bf16>::from(v[0]);
    GS_UNROLL for (int j = 0; j + 1 < N; j += 2)
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w[j / 2]) : "f"(v[j + 1]), "f"(v[j]));
  }
};
template <int N> struct gs_words<f16, N> {
  static GS_FN f32 get(const f16 (&e)[N], const unsigned *, int j) { return gs_to_f32(e[j]); }
  static GS_FN void put(f16 (&e)[N], unsigned *w, const f32 *v) {
    if (N == 1) e[0] = gs_round<f16>::from(v[0]);
    GS_UNROLL for (int j = 0; j + 1 < N; j += 2)
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w[j / 2]) : "f"(v[j + 1]), "f"(v[j]));
  }
};
#if __CUDA_ARCH__ >= 890
template <int N> struct gs_words<e4m3, N> {
  static GS_FN f32 get(const e4m3 (&e)[N], const unsigned *, int j) { return gs_to_f32(e[j]); }
  static GS_FN void put(e4m3 (&e)[N], unsigned *w, const f32 *v) {
    unsigned short two[2];
    if (N < 4) GS_UNROLL for (int j = 0; j < N; j++) e[j] = gs_round<e4m3>::from(v[j]);
    GS_UNROLL for (int j = 0; j + 3 < N; j += 4) {
      GS_UNROLL for (int k = 0; k < 2; k++)
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
            : "=h"(two[k]) : "f"(v[j + 2 * k + 1]), "f"(v[j + 2 * k]));
      w[j / 4] = (unsigned)two[1] << 16 | two[0];
    }
  }
};
template <int N> struct gs_words<e5m2, N> {
  static GS_FN f32 get(const e5m2 (&e)[N], const unsigned *, int j) { return gs_to_f32(e[j]); }
  static GS_FN void put(e5m2 (&e)[N], unsigned *w, const f32 *v) {
    unsigned short two[2];
    if (N < 4) GS_UNROLL for (int j = 0; j < N; j++) e[j] = gs_round<e5m2>::from(v[j]);
    GS_UNROLL for (int j = 0; j + 3 < N; j += 4) {
      GS_UNROLL for (int k = 0; k < 2; k++)
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;"
            : "=h"(two[k]) : "f"(v[j + 2 * k + 1]), "f"(v[j + 2 * k]));
      w[j / 4] = (unsigned)two[1] << 16 | two[0];
    }
  }
};
#endif
template <int N, class T> struct gs_vector {
  static constexpr int all = N * (int)sizeof(T);
  static constexpr int bytes = all < 16 ? all : 16;
  static constexpr int each = bytes / (int)sizeof(T);
  static_assert(each * (int)sizeof(T) == bytes && N % each == 0, "N is a power of two");
  typedef typename gs_pack<bytes>::type pack;
  union piece {
    pack p;
    T e[each];
    unsigned w[bytes < 4 ? 1 : bytes / 4];
    __device__ __forceinline__ piece() {}
    GS_FN void widen(f32 *v) const {
      GS_UNROLL for (int j = 0; j < each; j++) v[j] = gs_words<T, each>::get(e, w, j);
    }
    GS_FN void narrow(const f32 *v) { gs_words<T, each>::put(e, w, v); }
  };
};
template <int N, class T> GS_FN void gs_load(f32 (&out)[N], const T *x, i64 i) {
  typedef gs_vector<N, T> V;
#pragma unroll
  for (int k = 0; k < N; k += V::each) {
    typename V::piece u;
    u.p = __ldg((const typename V::pack *)(x + i + k));
    u.widen(out + k);
  }
}
template <int N, class T> GS_FN void gs_load(f32 (&out)[N], T *x, i64 i) {
  typedef gs_vector<N, T> V;
#pragma unroll
  for (int k = 0; k < N; k += V::each) {
    typename V::piece u;
    u.p = *(const typename V::pack *)(x + i + k);
    u.widen(out + k);
  }
}
template <int N, class T> GS_FN void gs_store(T *y, i64 i, const f32 (&v)[N]) {
  typedef gs_vector<N, T> V;
#pragma unroll
  for (int k = 0; k < N; k += V::each) {
    typename V::piece u;
    u.narrow(v + k);
    *(typename V::pack *)(y + i + k) = u.p;
  }
}
// N elements as they lie in memory, which take fewer registers than f32; unpacked anew at each use.
template <int N, class T> struct gs_packed {
  typename gs_vector<N, T>::pack part[N / gs_vector<N, T>::each];
};
template <int N, class T> GS_FN void gs_fetch(gs_packed<N, T> &out, const T *x, i64 i) {
  typedef gs_vector<N, T> V;
#pragma unroll
  for (int k = 0; k < N; k += V::each)
    out.part[k / V::each] = __ldg((const typename V::pack *)(x + i + k));
}
template <int N, class T> GS_FN void gs_fetch(gs_packed<N, T> &out, T *x, i64 i) {
  typedef gs_vector<N, T> V;
#pragma unroll
  for (int k = 0; k < N; k += V::each)
    out.part[k / V::each] = *(const typename V::pack *)(x + i + k);
}
// A vector that stays in registers is unpacked anew in each loop: with the same constants ptxas
// would see the same values, and keep them all from one loop to the next, as f32. So each loop, by
// its number, takes them from words that ptxas cannot know to be equal: zero, a mask, a selector.
__constant__ unsigned gs_again[8][3] = {
    {0u, 0xffff0000u, 0x1044u}, {0u, 0xffff0000u, 0x1044u}, {0u, 0xffff0000u, 0x1044u},
    {0u, 0xffff0000u, 0x1044u}, {0u, 0xffff0000u, 0x1044u}, {0u, 0xffff0000u, 0x1044u},
    {0u, 0xffff0000u, 0x1044u}, {0u, 0xffff0000u, 0x1044u}};
template <int PASS, class T, int N> struct gs_anew {
  static GS_FN void get(f32 *out, typename gs_vector<N, T>::piece &u) {
    constexpr int words = gs_vector<N, T>::bytes / 4;
    GS_UNROLL for (int j = 0; j < words; j++) u.w[j] ^= gs_again[PASS][0];
    u.widen(out);
  }
};
template <int PASS, int N> struct gs_anew<PASS, f32, N> { // is what it becomes
  static GS_FN void get(f32 *out, typename gs_vector<N, f32>::piece &u) { u.widen(out); }
};
template <int PASS, int N> struct gs_anew<PASS, bf16, N> {
  static GS_FN void get(f32 *out, typename gs_vector<N, bf16>::piece &u) {
    if (sizeof(u) < 4) return u.widen(out);
    GS_UNROLL for (int j = 0; j + 1 < gs_vector<N, bf16>::each; j += 2) {
      out[j] = __uint_as_float(__byte_perm(u.w[j / 2], 0u, gs_again[PASS][2]));
      out[j + 1] = __uint_as_float(u.w[j / 2] & gs_again[PASS][1]);
    }
  }
};
template <int PASS = 0, int N, class T>
GS_FN void gs_unpack(f32 (&out)[N], const gs_packed<N, T> &packed) {
  typedef gs_vector<N, T> V;
#pragma unroll
  for (int k = 0; k < N; k += V::each) {
    typename V::piece u;
    u.p = packed.part[k / V::each];
    if (PASS == 0)
      u.widen(out + k);
    else
      gs_anew<PASS, T, N>::get(out + k, u);
  }
}
// The largest of packed elements, two at a time: m begins as gs_lowest, takes vectors in, and gives
// the largest of all that it has seen; a NaN loses to a number.
template <class T> struct gs_pairs;
template <> struct gs_pairs<bf16> {
  static constexpr unsigned lowest = 0xff80ff80u;
  static GS_FN unsigned most(unsigned a, unsigned b) {
    unsigned m;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
    return m;
  }
};
template <> struct gs_pairs<f16> {
  static constexpr unsigned lowest = 0xfc00fc00u;
  static GS_FN unsigned most(unsigned a, unsigned b) {
    unsigned m;
    asm("max.f16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
    return m;
  }
};
template <int N, class T> GS_FN void gs_lowest(gs_packed<N, T> &m) {
  typedef gs_vector<N, T> V;
  GS_UNROLL for (int k = 0; k < N / V::each; k++) {
    typename V::piece u;
    GS_UNROLL for (int j = 0; j < V::bytes / 4; j++) u.w[j] = gs_pairs<T>::lowest;
    m.part[k] = u.p;
  }
}
template <int N, class T> GS_FN void gs_most(gs_packed<N, T> &m, const gs_packed<N, T> &x) {
  typedef gs_vector<N, T> V;
  GS_UNROLL for (int k = 0; k < N / V::each; k++) {
    typename V::piece u, w;
    u.p = m.part[k];
    w.p = x.part[k];
    GS_UNROLL for (int j = 0; j < V::bytes / 4; j++) u.w[j] = gs_pairs<T>::most(u.w[j], w.w[j]);
    m.part[k] = u.p;
  }
}
template <int N, class T> GS_FN f32 gs_most_of(const gs_packed<N, T> &m) {
  f32 v[N], most;
  gs_unpack(v, m);
  most = v[0];
  GS_UNROLL for (int j = 1; j < N; j++) most = fmaxf(most, v[j]);
  return most;
}
// The largest of one vector.
template <int N, class T> GS_FN f32 gs_top_of(const gs_packed<N, T> &x) {
  typedef gs_vector<N, T> V;
  typename V::piece u;
  unsigned most = gs_pairs<T>::lowest;
  GS_UNROLL for (int k = 0; k < N / V::each; k++) {
    u.p = x.part[k];
    GS_UNROLL for (int j = 0; j < V::bytes / 4; j++) most = gs_pairs<T>::most(most, u.w[j]);
  }
  u.w[0] = most;
  return fmaxf(gs_words<T, V::each>::get(u.e, u.w, 0), gs_words<T, V::each>::get(u.e, u.w, 1));
}
// Copies to shared memory that go on while the thread does other work: those begun since the last
// GS_COPY_CLOSE() make a group; GS_COPY_WAIT(n) waits for all but the thread's last n groups. Only
// the thread itself may read what it copied, but for a barrier after the wait.
template <int N, class T> GS_FN void gs_copy_ahead(T *to, int at, const T *x, i64 i) {
  typedef gs_vector<N, T> V;
  static_assert(V::bytes == 16, "a vector of 16 bytes or several");
  const unsigned place = (unsigned)__cvta_generic_to_shared(to + at);
#pragma unroll
  for (int k = 0; k < N; k += V::each)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place + k * (int)sizeof(T)),
                 "l"(x + i + k)
                 : "memory");
}
#define GS_COPY_CLOSE() asm volatile("cp.async.commit_group;" ::: "memory")
#define GS_COPY_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
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
// Integers: N elements of a type to `int` or i64, and back.
template <int N, class I, class T> GS_FN void gs_loadi(I (&out)[N], const T *x, i64 i) {
  typedef gs_vector<N, T> V;
#pragma unroll
  for (int k = 0; k < N; k += V::each) {
    typename V::piece u;
    u.p = *(const typename V::pack *)(x + i + k);
#pragma unroll
    for (int j = 0; j < V::each; j++) out[k + j] = (I)u.e[j];
  }
}
template <int N, class I, class T> GS_FN void gs_storei(T *y, i64 i, const I (&v)[N]) {
  typedef gs_vector<N, T> V;
#pragma unroll
  for (int k = 0; k < N; k += V::each) {
    typename V::piece u;
#pragma unroll
    for (int j = 0; j < V::each; j++) u.e[j] = gs_keep<T>::from(v[k + j]);
    *(typename V::pack *)(y + i + k) = u.p;
  }
}

// The first n of a vector, where fewer than all may be left: what is not loaded is 0.
template <int N, class P> GS_FN void gs_load_upto(f32 (&out)[N], P x, i64 i, int n) {
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

// Arithmetic. min and max: a NaN loses to a number, -0 is below +0.
// 2 to a rounded-down h near v log2(e), then the rest q = v - h ln(2), which is not below 0 but for
// what the constants lack. Right to 3 units of the last place and a quarter of v's own.
GS_FN f32 gs_exp(f32 v) {
  f32 e;
  const f32 h = __fmul_rd(v, 1.44269502f);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(h));
  return e * (1.0f + __saturatef(__fmaf_rn(h, -0.693147182f, v)));
}
// For what is summed, or rounded to 16 bits: right to 3 units of the last place and one of v's own.
// Of v - from: one of the larger's own; from lies below 2^127.
GS_FN f32 gs_exp2_near(f32 v) {
  f32 e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(v));
  return e;
}
GS_FN f32 gs_exp_near(f32 v) {
  return gs_exp2_near(v * 1.44269502f);
}
GS_FN f32 gs_exp_near(f32 v, f32 from) {
  return gs_exp2_near(__fmaf_rn(v, 1.44269502f, from * -1.44269502f));
}
// The factor of gs_exp_near(v, from) that makes it scale * exp(v - from) without from's own error.
GS_FN f32 gs_near_scale(f32 scale, f32 from) {
  const f32 h = from * -1.44269502f;
  return __fmaf_rn(scale, 0.693147182f * __fmaf_rn(from, -1.44269502f, -h), scale);
}
GS_FN f32 gs_log(f32 v) {
  return logf(v);
}
GS_FN f32 gs_expm1(f32 v) {
  return expm1f(v);
}
GS_FN f32 gs_log1p(f32 v) {
  return log1pf(v);
}
GS_FN f32 gs_sqrt(f32 v) {
  return __fsqrt_rn(v);
}
GS_FN f32 gs_rsqrt(f32 v) {
  return __fdiv_rn(1.0f, __fsqrt_rn(v));
}
GS_FN f32 gs_tanh(f32 v) {
  return tanhf(v);
}
GS_FN f32 gs_sigmoid(f32 v) { // the reciprocal to one ulp; 0 where it would be subnormal
  f32 r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + expf(-v)));
  return r;
}
GS_FN bool gs_is_finite(f32 v) { return (__float_as_uint(v) & 0x7fffffffu) < 0x7f800000u; }
// Quarter turns are taken away in integers: v = m 2^e times 2/pi as a fixed-point number, so that
// no local memory (which sinf takes) and no f64 is needed. Right to 3 units of 2^-24 everywhere.
GS_CONST unsigned gs_two_over_pi[7] = {0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                       0xdb629599u, 0x3c439041u, 0xfe5163abu};
// Quarter turns of |v| = m 2^e: whole ones, and the rest in units of 2^-64.
GS_FN int gs_quarters(unsigned long long m, int e, unsigned long long &part) {
  typedef unsigned long long u64;
  if (e > 0) { // digits of 2/pi that make whole turns are left out
    const int at = (e - 2) >> 5, by = (e - 2) & 31;
    const u64 w0 = at < 0 ? 0 : gs_two_over_pi[at], w1 = gs_two_over_pi[at + 1];
    const u64 product = m * ((w0 << 32 | w1) << by | (u64)gs_two_over_pi[at + 2] << by >> 32);
    part = product << 2;
    return (int)(product >> 62);
  }
  const u64 c = (u64)gs_two_over_pi[0] << 32 | gs_two_over_pi[1];
  const u64 high = __umul64hi(m, c), low = m * c;
  const int by = -e < 63 ? -e : 63;
  part = by ? low >> by | high << 1 << (63 - by) : low;
  return (int)(high >> by);
}
GS_FN f32 gs_turned(f32 v, int quarter) {
  const unsigned bits = __float_as_uint(v) & 0x7fffffffu;
  unsigned long long part;
  int turn = gs_quarters((bits & 0x7fffffu) | 0x800000u, (int)(bits >> 23) - 150, part);
  turn += (int)(part >> 63); // to the nearest
  const bool tiny = bits < 0x39800000u; // below 2^-12: |v| is the angle itself, to the last bit
  const f32 rest = (f32)(i64)part * 8.5153036e-20f; // pi/2 2^-64
  const f32 r = tiny ? __uint_as_float(bits) : rest;
  const int q = (tiny ? 0 : turn) + quarter;
  const f32 z = r * r;
  f32 s = __fmaf_rn(z, 2.72494913e-06f, -1.98400827e-04f);
  s = __fmaf_rn(z, __fmaf_rn(z, s, 8.33333191e-03f), -1.66666672e-01f);
  s = __fmaf_rn(r * z, s, r);
  f32 c = __fmaf_rn(z, 2.42599508e-05f, -1.38860813e-03f);
  c = __fmaf_rn(z * z, __fmaf_rn(z, c, 4.16666307e-02f), __fmaf_rn(z, -0.5f, 1.0f));
  const f32 w = q & 1 ? c : s;
  return q & 2 ? -w : w;
}
GS_FN f32 gs_sin(f32 v) {
  const f32 w = gs_turned(v, 0);
  return !gs_is_finite(v) ? v - v : v < 0.0f ? -w : w;
}
GS_FN f32 gs_cos(f32 v) { return gs_is_finite(v) ? gs_turned(v, 1) : v - v; }
GS_FN f32 gs_erf(f32 v) {
  return erff(v);
}
GS_FN f32 gs_min(f32 a, f32 b) {
  return fminf(a, b);
}
GS_FN f32 gs_max(f32 a, f32 b) {
  return fmaxf(a, b);
}
GS_FN f32 gs_softplus(f32 v) {
  return gs_max(v, 0.0f) + log1pf(expf(-fabsf(v)));
}
GS_FN f32 gs_pow(f32 a, f32 b) {
  return powf(a, b);
}
// v, less 1 where it holds.
GS_FN f32 gs_less(f32 v, bool holds) {
  if (holds) v = v - 1.0f;
  return v;
}
// v[at] becomes x where there is such an element.
template <int N, class T, class I> GS_FN void gs_set(T (&v)[N], I at, T x) {
  if (at >= 0 && at < N)
    GS_UNROLL for (int j = 0; j < N; j++) v[j] = j == at ? x : v[j];
}
GS_FN f32 gs_fma(f32 a, f32 b, f32 c) {
  return __fmaf_rn(a, b, c);
}
GS_FN f32 gs_div(f32 a, f32 b) {
  return __fdiv_rn(a, b);
}

// Collectives: a butterfly over lane distances n/2, n/4 ... 1; a block reduces its warps, then warp
// 0's tree over their results, padded with the identity to 32.
struct gs_op_sum {
  static GS_FN f32 of(f32 a, f32 b) { return a + b; }
  static GS_FN f32 identity() { return 0.0f; }
};
struct gs_op_max {
  static GS_FN f32 of(f32 a, f32 b) { return gs_max(a, b); }
  static GS_FN f32 identity() { return -GS_INF; }
};
struct gs_op_min {
  static GS_FN f32 of(f32 a, f32 b) { return gs_min(a, b); }
  static GS_FN f32 identity() { return GS_INF; }
};
template <class OP, int N> GS_FN f32 gs_group(f32 v) {
#pragma unroll
  for (int o = N / 2; o > 0; o >>= 1) v = OP::of(v, __shfl_xor_sync(0xffffffffu, v, o));
  return v;
}
// With one barrier, in a part of shared memory that neither the collective before nor the one after
// has: N values at once, by a block of several warps. No branch: what comes next moves up into it.
template <class OP, int N> GS_FN void gs_block_at(f32 (&v)[N], f32 *shared) {
  const int warps = (int)(blockDim.x >> 5);
  GS_UNROLL for (int j = 0; j < N; j++) v[j] = gs_group<OP, 32>(v[j]);
  if (GS_LANE == 0) GS_UNROLL for (int j = 0; j < N; j++) shared[32 * j + GS_WARP] = v[j];
  __syncthreads();
  GS_UNROLL for (int j = 0; j < N; j++)
      v[j] = gs_group<OP, 32>(GS_LANE < warps ? shared[32 * j + GS_LANE] : OP::identity());
}
template <class OP> GS_FN f32 gs_block_at(f32 v, f32 *shared) {
  f32 one[1] = {v};
  gs_block_at<OP>(one, shared);
  return one[0];
}
template <class OP> GS_FN f32 gs_block(f32 v, f32 *shared) {
  const int warps = (int)(blockDim.x >> 5);
  __syncthreads();
  v = gs_group<OP, 32>(v);
  if (warps > 1) {
    if (GS_LANE == 0) shared[GS_WARP] = v;
    __syncthreads();
    v = gs_group<OP, 32>(GS_LANE < warps ? shared[GS_LANE] : OP::identity());
  }
  return v;
}
// Clusters: what each of the n blocks says, K values of its own, by rank. Each block writes to the
// shared memory of all; meet: n * K values, of this exchange alone.
GS_FN int gs_cluster_rank() {
  int r;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
GS_FN void gs_cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
GS_FN unsigned gs_cluster_at(const void *p, int to) {
  unsigned at;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(at)
      : "r"((unsigned)__cvta_generic_to_shared(p)), "r"(to));
  return at;
}
GS_FN void gs_cluster_put(f32 *array, int to, i64 i, f32 v) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(gs_cluster_at(array + i, to)), "f"(v)
               : "memory");
}
template <int N, int K>
GS_FN void gs_cluster_gather(f32 (&out)[N * K], const f32 (&v)[K], f32 *meet) {
  const int rank = gs_cluster_rank();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" // all have begun
               "barrier.cluster.wait.aligned;" ::: "memory");
  if (GS_TID < N)
    GS_UNROLL for (int k = 0; k < K; k++) gs_cluster_put(meet, GS_TID, rank * K + k, v[k]);
  gs_cluster_sync();
  GS_UNROLL for (int j = 0; j < N * K; j++) out[j] = meet[j];
}
// The same where the places from `at` on are not those of the exchange before or after.
template <int N, int K>
GS_FN void gs_cluster_gather_at(f32 (&out)[N * K], const f32 (&v)[K], f32 *meet, int at) {
  const int rank = gs_cluster_rank();
  if (GS_TID < N)
    GS_UNROLL for (int k = 0; k < K; k++) gs_cluster_put(meet, GS_TID, at + rank * K + k, v[k]);
  gs_cluster_sync();
  GS_UNROLL for (int j = 0; j < N * K; j++) out[j] = meet[at + j];
}
template <class OP, int N> GS_FN f32 gs_cluster_join(f32 (&all)[N]) {
  GS_UNROLL for (int n = N / 2; n > 0; n /= 2)
    GS_UNROLL for (int j = 0; j < n; j++) all[j] = OP::of(all[j], all[j + n]);
  return all[0];
}
template <class OP, int N> GS_FN f32 gs_cluster_reduce_at(f32 v, f32 *meet, int at) {
  f32 all[N];
  const f32 own[1] = {v};
  gs_cluster_gather_at<N>(all, own, meet, at);
  return gs_cluster_join<OP>(all);
}
template <class OP, int N> GS_FN f32 gs_cluster_reduce(f32 v, f32 *meet) {
  f32 all[N];
  const f32 own[1] = {v};
  gs_cluster_gather<N>(all, own, meet);
  return gs_cluster_join<OP>(all);
}
#define GS_CLUSTER_RANK gs_cluster_rank()
#define GS_CLUSTER_SYNC() gs_cluster_sync()
#define GS_CLUSTER_PUT(array, to, i, v) gs_cluster_put(array, to, i, v)
#define GS_CLUSTER_GATHER(n, out, v, meet) gs_cluster_gather<(n)>(out, v, meet)
#define GS_CLUSTER_GATHER_AT(n, out, v, meet, at) gs_cluster_gather_at<(n)>(out, v, meet, at)
#define GS_CLUSTER_SUM_AT(n, v, meet, at) gs_cluster_reduce_at<gs_op_sum, (n)>(v, meet, at)
#define GS_CLUSTER_MAX_AT(n, v, meet, at) gs_cluster_reduce_at<gs_op_max, (n)>(v, meet, at)
#define GS_CLUSTER_MIN_AT(n, v, meet, at) gs_cluster_reduce_at<gs_op_min, (n)>(v, meet, at)
#define GS_CLUSTER_SUM(n, v, meet) gs_cluster_reduce<gs_op_sum, (n)>(v, meet)
#define GS_CLUSTER_MAX(n, v, meet) gs_cluster_reduce<gs_op_max, (n)>(v, meet)
#define GS_CLUSTER_MIN(n, v, meet) gs_cluster_reduce<gs_op_min, (n)>(v, meet)
#define GS_EXCHANGE(v, distance) __shfl_xor_sync(0xffffffffu, v, distance)
#define GS_GROUP_SUM(n, v) gs_group<gs_op_sum, (n)>(v)
#define GS_GROUP_MAX(n, v) gs_group<gs_op_max, (n)>(v)
#define GS_GROUP_MIN(n, v) gs_group<gs_op_min, (n)>(v)
#define GS_WARP_SUM(v) gs_group<gs_op_sum, 32>(v)
#define GS_WARP_MAX(v) gs_group<gs_op_max, 32>(v)
#define GS_WARP_MIN(v) gs_group<gs_op_min, 32>(v)
#define GS_BLOCK_SUM_AT(v, shared, at) gs_block_at<gs_op_sum>(v, (shared) + (at))
#define GS_BLOCK_MAX_AT(v, shared, at) gs_block_at<gs_op_max>(v, (shared) + (at))
#define GS_BLOCK_MIN_AT(v, shared, at) gs_block_at<gs_op_min>(v, (shared) + (at))
#define GS_BLOCK_SUMS_AT(n, v, shared, at) gs_block_at<gs_op_sum, n>(v, (shared) + (at))
#define GS_BLOCK_SUM(v, shared) gs_block<gs_op_sum>(v, shared)
#define GS_BLOCK_MAX(v, shared) gs_block<gs_op_max>(v, shared)
#define GS_BLOCK_MIN(v, shared) gs_block<gs_op_min>(v, shared)
