// prelude_integers.h: what both preludes have to the letter: integers and tables. Each includes it
// after its own types; the build puts it in their place (cmake/embed_files.cmake).

// ---- integers: `int` where the values are known to fit, else i64 ----

template <class I> GS_FN I gs_within(I v, I lo, I hi) {
  return v < lo ? lo : v > hi ? hi : v;
}
// Toward minus infinity; 0 for a divisor that is not above 0.
template <class A, class B> GS_FN decltype(A() + B()) gs_quotient(A a, B b) {
  return b > 0 ? a / b - (a % b < 0) : 0;
}
template <class A, class B> GS_FN decltype(A() + B()) gs_remainder(A a, B b) {
  return b > 0 ? a % b + (a % b < 0 ? b : 0) : 0;
}
// An index that may lie outside [0, n) is taken into it; the checked mode lets it reach the driver,
// which reports it.
template <class I, class N> GS_FN I gs_inside(I i, N n) {
#if defined(GS_CHECKED)
  return (void)n, i;
#else
  return i < 0 ? 0 : i < n ? i : (I)(n - 1);
#endif
}
// What an integer type stores: the nearest that it has.
template <class T> struct gs_keep {
  static GS_FN T from(i64 v) { return (T)v; }
};
template <> struct gs_keep<u8> {
  template <class I> static GS_FN u8 from(I v) { return (u8)gs_within<I>(v, 0, 255); }
};
template <> struct gs_keep<i8> {
  template <class I> static GS_FN i8 from(I v) { return (i8)gs_within<I>(v, -128, 127); }
};
template <> struct gs_keep<i32> {
  static GS_FN i32 from(int v) { return v; }
  static GS_FN i32 from(i64 v) { return (i32)gs_within<i64>(v, -2147483647 - 1, 2147483647); }
};

// ---- tables: GS_TABLE(name, count) = { ... }; ----

// How many of the ascending values are below v.
template <int N> GS_FN int gs_bucket(const f32 (&table)[N], f32 v) {
  int n = 0;
  if (N <= 16) {
    GS_UNROLL for (int i = 0; i < N; i++) n += table[i] < v;
    return n;
  }
  constexpr int top = N < 32 ? 16 : N < 64 ? 32 : N < 128 ? 64 : N < 256 ? 128 : 256;
  static_assert(N < 512, "a table of cuts has at most 511");
  GS_UNROLL for (int step = top; step > 0; step >>= 1) {
    const int at = n + step <= N ? n + step : N;
    n = n + step <= N && GS_TABLE_AT(table, at - 1) < v ? at : n;
  }
  return n;
}
// Its element at i; at the nearest end where i is outside.
template <int N, class I> GS_FN f32 gs_lookup(const f32 (&table)[N], I i) {
  return GS_TABLE_AT(table, (int)gs_within<I>(i, 0, N - 1));
}
