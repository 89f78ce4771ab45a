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
struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};

// At least one block a processor: said so that ptxas never spills a register to fit one more.
#define GS_KERNEL(name, threads, barrier_free, ...)                                                \
  extern "C" __global__ void __launch_bounds__(threads, 1) name(__VA_ARGS__)
#define GS_IN(type, x) const type *__restrict__ x
#define GS_OUT(type, y) type *__restrict__ y
#define GS_INOUT(type, z) type *z
#define GS_DIM(n) const i64 n
#define GS_STRIDE(n) const i64 n
#define GS_NUM(v) const f32 v
#define GS_STEP(v) const f32 *__restrict__ v
#define GS_FN __device__ __forceinline__
#define GS_CONST static __constant__ const

#define GS_TID ((int)threadIdx.x)
#define GS_BID ((i64)blockIdx.x)
#define GS_NBLOCKS ((i64)gridDim.x)
#define GS_LANE ((int)(threadIdx.x & 31u))
#define GS_WARP ((int)(threadIdx.x >> 5))

#define GS_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define GS_SYNC() __syncthreads()
#define GS_SYNCWARP() __syncwarp()
#define GS_UNROLL _Pragma("unroll")

// Storage to f32 and back, round to nearest even; a NaN becomes 0x7fff.
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

template <class T> struct gs_round {
  static GS_FN T from(f32 v) { return (T)v; }
};
template <> struct gs_round<bf16> {
  static GS_FN bf16 from(f32 v) {
    bf16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
    return r;
  }
};
template <> struct gs_round<f16> {
  static GS_FN f16 from(f32 v) {
    f16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
    return r;
  }
};

GS_FN f32 gs_round_bf16(f32 v) {
  return gs_to_f32(gs_round<bf16>::from(v));
}
GS_FN f32 gs_round_f16(f32 v) {
  return gs_to_f32(gs_round<f16>::from(v));
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
template <class T> GS_FN void gs_puti(T *y, i64 i, i64 v) {
  y[i] = (T)v;
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
template <int N, class T> struct gs_vector {
  static constexpr int all = N * (int)sizeof(T);
  static constexpr int bytes = all < 16 ? all : 16;
  static constexpr int each = bytes / (int)sizeof(T);
  static_assert(each * (int)sizeof(T) == bytes && N % each == 0, "N is a power of two");
  typedef typename gs_pack<bytes>::type pack;
  union piece {
    pack p;
    T e[each];
    __device__ __forceinline__ piece() {}
  };
};
template <int N, class T> GS_FN void gs_load(f32 (&out)[N], const T *x, i64 i) {
  typedef gs_vector<N, T> V;
#pragma unroll
  for (int k = 0; k < N; k += V::each) {
    typename V::piece u;
    u.p = __ldg((const typename V::pack *)(x + i + k));
#pragma unroll
    for (int j = 0; j < V::each; j++) out[k + j] = gs_to_f32(u.e[j]);
  }
}
template <int N, class T> GS_FN void gs_load(f32 (&out)[N], T *x, i64 i) {
  typedef gs_vector<N, T> V;
#pragma unroll
  for (int k = 0; k < N; k += V::each) {
    typename V::piece u;
    u.p = *(const typename V::pack *)(x + i + k);
#pragma unroll
    for (int j = 0; j < V::each; j++) out[k + j] = gs_to_f32(u.e[j]);
  }
}
template <int N, class T> GS_FN void gs_store(T *y, i64 i, const f32 (&v)[N]) {
  typedef gs_vector<N, T> V;
#pragma unroll
  for (int k = 0; k < N; k += V::each) {
    typename V::piece u;
#pragma unroll
    for (int j = 0; j < V::each; j++) u.e[j] = gs_round<T>::from(v[k + j]);
    *(typename V::pack *)(y + i + k) = u.p;
  }
}

// Arithmetic. min and max: a NaN loses to a number, -0 is below +0.
GS_FN f32 gs_exp(f32 v) {
  return expf(v);
}
GS_FN f32 gs_log(f32 v) {
  return logf(v);
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
GS_FN f32 gs_sigmoid(f32 v) {
  return __fdiv_rn(1.0f, 1.0f + expf(-v));
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
GS_FN f32 gs_floor(f32 v) {
  return floorf(v);
}
GS_FN f32 gs_abs(f32 v) {
  return fabsf(v);
}
GS_FN f32 gs_min(f32 a, f32 b) {
  return fminf(a, b);
}
GS_FN f32 gs_max(f32 a, f32 b) {
  return fmaxf(a, b);
}
GS_FN f32 gs_pow(f32 a, f32 b) {
  return powf(a, b);
}
GS_FN f32 gs_fma(f32 a, f32 b, f32 c) {
  return __fmaf_rn(a, b, c);
}
GS_FN f32 gs_div(f32 a, f32 b) {
  return __fdiv_rn(a, b);
}
#define GS_INF __int_as_float(0x7f800000)

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
template <class OP> GS_FN f32 gs_block(f32 v, f32 *shared) {
  const int warps = (int)(blockDim.x >> 5);
  __syncthreads();
  v = gs_group<OP, 32>(v);
  if (warps > 1) {
    if (GS_LANE == 0) shared[GS_WARP] = v;
    __syncthreads();
    v = gs_group<OP, 32>(GS_LANE < warps ? shared[GS_LANE] : OP::identity());
    __syncthreads();
  }
  return v;
}
#define GS_GROUP_SUM(n, v) gs_group<gs_op_sum, (n)>(v)
#define GS_GROUP_MAX(n, v) gs_group<gs_op_max, (n)>(v)
#define GS_GROUP_MIN(n, v) gs_group<gs_op_min, (n)>(v)
#define GS_WARP_SUM(v) gs_group<gs_op_sum, 32>(v)
#define GS_WARP_MAX(v) gs_group<gs_op_max, 32>(v)
#define GS_WARP_MIN(v) gs_group<gs_op_min, 32>(v)
#define GS_BLOCK_SUM(v, shared) gs_block<gs_op_sum>(v, shared)
#define GS_BLOCK_MAX(v, shared) gs_block<gs_op_max>(v, shared)
#define GS_BLOCK_MIN(v, shared) gs_block<gs_op_min>(v, shared)
