// attention_plain.cu: attention without matrix units: @{LANES} lanes for each query (or key) of a
// head, softmax online over blocks of keys, the backward from the saved logsumexp. For f32, and for
// heads that no tile fits. On the emulator a lane is a plain loop.
// Sums have a fixed order and nothing is added atomically.
//
//   q, y, dq, dy [T, K, G, D]   k, v, dk, dv [S, K, D]   lse [T, K, G]   cu_q, cu_k [B1]
// A lane has CHUNKS vectors of VEC elements of D.

//@ document
int doc = 0; // the last one that begins at or before the row
i64 step = 1;
while (step * 2 < B1) step *= 2;
for (; step > 0; step /= 2)
  if (doc + step < B1 && gs_geti(@{CU}, doc + step) <= @{ROW}) doc += (int)step;
const bool inside = live && doc + 1 < B1;
const int next_doc = inside ? doc + 1 : doc;
const int q0 = (int)gs_geti(cu_q, doc), k0 = (int)gs_geti(cu_k, doc);
const int n_q = (int)gs_geti(cu_q, next_doc) - q0, n_k = (int)gs_geti(cu_k, next_doc) - k0;
//@ query
const i64 n = GS_BID * @{GROUPS} + @{GROUP}; // one token and head
const int lane = @{LANE};
const bool live = n < T * @{HEADS};
const i64 t = live ? n / @{HEADS} : 0;
const int head = live ? (int)(n % @{HEADS}) : 0, kv = head / @{G};
@{DOCUMENT}
@{HEAD_VALUES}
const int qi = (int)gs_within<i64>(t - q0, 0, n_q) + n_k - n_q;
@{KEYS}
const i64 low = k0 + first, high = inside ? (i64)k0 + last : low - 1;
//@ load
f32 @{X}_v[@{CHUNKS}][@{VEC}] = {};
if (@{WHEN}) {
  GS_UNROLL
  for (int c = 0; c < @{CHUNKS}; c++)
    if (@{FITS})
      gs_load<@{VEC}>(@{X}_v[c], @{X},
                @{ROW} * @{X}_ld + (i64)@{HEAD} * @{D} + (c * @{LANES} + lane) * @{VEC});
}
//@ dot
f32 @{TO}_l[@{VEC}] = {}, @{TO} = 0.0f;
GS_UNROLL
for (int c = 0; c < @{CHUNKS}; c++) {
  GS_UNROLL
  for (int l = 0; l < @{VEC}; l++) @{TO}_l[l] += @{X}_v[c][l] * @{Y}_v[c][l];
}
GS_UNROLL
for (int l = 0; l < @{VEC}; l++) @{TO} += @{TO}_l[l];
//@ forward
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{QUERY}
  @{LOAD_Q}
  f32 out[@{CHUNKS}][@{VEC}] = {};
  f32 top = -3.40282347e+38f, total = 0.0f;
  for (i64 j0 = low; j0 <= high; j0 += @{BLOCK}) {
    f32 score[@{BLOCK}], most = top;
    GS_UNROLL
    for (int b = 0; b < @{BLOCK}; b++) {
      const bool seen = j0 + b <= high;
      @{LOAD_K}
      @{DOT_QK}
      const f32 s = scale * @{SUM_DOT};
      const int ki = (int)(j0 + b - k0);
      @{SCORE}
      score[b] = seen ? z : -GS_INF;
      most = gs_max(most, score[b]);
    }
    const f32 shrink = gs_exp(top - most);
    top = most;
    f32 part[@{CHUNKS}][@{VEC}] = {}, part_total = 0.0f;
    GS_UNROLL
    for (int b = 0; b < @{BLOCK}; b++) {
      if (j0 + b <= high) {
        const f32 p = gs_exp(score[b] - top);
        part_total += p;
        @{LOAD_V}
        GS_UNROLL
        for (int c = 0; c < @{CHUNKS}; c++) {
          GS_UNROLL
          for (int l = 0; l < @{VEC}; l++) part[c][l] += p * v_v[c][l];
        }
      }
    }
    total = total * shrink + part_total;
    GS_UNROLL
    for (int c = 0; c < @{CHUNKS}; c++) {
      GS_UNROLL
      for (int l = 0; l < @{VEC}; l++) out[c][l] = out[c][l] * shrink + part[c][l];
    }
  }
  @{JOIN_SINK}
  if (live) {
    GS_UNROLL
    for (int c = 0; c < @{CHUNKS}; c++) {
      GS_UNROLL
      for (int l = 0; l < @{VEC}; l++) out[c][l] = total > 0.0f ? gs_div(out[c][l], total) : 0.0f;
      if (@{FITS})
        gs_store<@{VEC}>(y, t * y_ld + (i64)head * @{D} + (c * @{LANES} + lane) * @{VEC}, out[c]);
    }
    @{STORE_LSE}
  }
}
//@ join_sink
const f32 both = gs_max(top, sink), shrunk = gs_exp(top - both);
total = total * shrunk + gs_exp(sink - both);
top = both;
GS_UNROLL
for (int c = 0; c < @{CHUNKS}; c++) {
  GS_UNROLL
  for (int l = 0; l < @{VEC}; l++) out[c][l] = inside ? out[c][l] * shrunk : 0.0f;
}
//@ delta
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  const i64 n = GS_BID * @{THREADS} + GS_TID; // one token and head
  if (n < T * @{HEADS}) {
    const i64 t = n / @{HEADS};
    const int head = (int)(n % @{HEADS});
    f32 lanes[@{WIDE}] = {};
    for (int i = 0; i < @{D}; i += @{WIDE}) {
      f32 y_v[@{WIDE}], dy_v[@{WIDE}];
      gs_load<@{WIDE}>(y_v, y, t * y_ld + (i64)head * @{D} + i);
      gs_load<@{WIDE}>(dy_v, dy, t * dy_ld + (i64)head * @{D} + i);
      GS_UNROLL
      for (int l = 0; l < @{WIDE}; l++) lanes[l] += dy_v[l] * y_v[l];
    }
    f32 sum = 0.0f;
    GS_UNROLL
    for (int l = 0; l < @{WIDE}; l++) sum += lanes[l];
    gs_put(delta, n, sum);
  }
}
//@ dq
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{QUERY}
  @{LOAD_Q}
  @{LOAD_DY}
  f32 out[@{CHUNKS}][@{VEC}] = {};
  const f32 lse_v = gs_get(lse, t * lse_ld + head);
  const f32 delta_v = gs_get(delta, t * @{HEADS} + head);
  for (i64 j0 = low; j0 <= high; j0 += @{BLOCK}) {
    f32 part[@{CHUNKS}][@{VEC}] = {};
    const int steps = high - j0 < @{BLOCK} ? (int)(high - j0) + 1 : @{BLOCK};
    for (int b = 0; b < steps; b++) {
      @{LOAD_K}
      @{LOAD_V}
      @{DOT_QK}
      @{DOT_DYV}
      const f32 s = scale * @{SUM_DOT};
      const int ki = (int)(j0 + b - k0);
      @{SCORE}
      const f32 dz = gs_exp(z - lse_v) * (@{SUM_DW} - delta_v);
      @{SLOPE}
      const f32 dx = scale * ds;
      GS_UNROLL
      for (int c = 0; c < @{CHUNKS}; c++) {
        GS_UNROLL
        for (int l = 0; l < @{VEC}; l++) part[c][l] += dx * k_v[c][l];
      }
    }
    GS_UNROLL
    for (int c = 0; c < @{CHUNKS}; c++) {
      GS_UNROLL
      for (int l = 0; l < @{VEC}; l++) out[c][l] += part[c][l];
    }
  }
  if (live) {
    GS_UNROLL
    for (int c = 0; c < @{CHUNKS}; c++) {
      if (@{FITS})
        gs_store<@{VEC}>(dq, t * dq_ld + (i64)head * @{D} + (c * @{LANES} + lane) * @{VEC}, out[c]);
    }
  }
}
//@ key
const i64 n = GS_BID * @{GROUPS} + @{GROUP}; // one key and its head
const int lane = @{LANE};
const bool live = n < S * @{KH};
const i64 j = live ? n / @{KH} : 0;
const int kv = live ? (int)gs_within<i64>(n % @{KH}, 0, @{KH} - 1) : 0;
@{DOCUMENT}
const int ki = (int)gs_within<i64>(j - k0, 0, n_k);
//@ dkv
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{KEY}
  @{LOAD_K}
  @{LOAD_V}
  f32 dk_v[@{CHUNKS}][@{VEC}] = {}, dv_v[@{CHUNKS}][@{VEC}] = {};
  for (int i = 0; inside && i < n_q; i++) {
    const int qi = i + n_k - n_q;
    @{KEYS}
    if (first > ki) break; // nor does a later query see it
    if (last < ki) continue;
    const i64 t = (i64)q0 + i;
    f32 dk_part[@{CHUNKS}][@{VEC}] = {}, dv_part[@{CHUNKS}][@{VEC}] = {};
    for (int g = 0; g < @{G}; g++) {
      const int head = kv * @{G} + g;
      @{HEAD_VALUES}
      @{LOAD_Q}
      @{LOAD_DY}
      @{DOT_KQ}
      const f32 s = scale * @{SUM_DOT};
      @{SCORE}
      const f32 p = gs_exp(z - gs_get(lse, t * lse_ld + head));
      @{SLOPES}
      GS_UNROLL
      for (int c = 0; c < @{CHUNKS}; c++) {
        GS_UNROLL
        for (int l = 0; l < @{VEC}; l++) {
          @{ADD_DK}
          dv_part[c][l] += p * dy_v[c][l];
        }
      }
    }
    GS_UNROLL
    for (int c = 0; c < @{CHUNKS}; c++) {
      GS_UNROLL
      for (int l = 0; l < @{VEC}; l++) {
        dk_v[c][l] += dk_part[c][l];
        dv_v[c][l] += dv_part[c][l];
      }
    }
  }
  if (live) {
    GS_UNROLL
    for (int c = 0; c < @{CHUNKS}; c++) {
      const int i = (c * @{LANES} + lane) * @{VEC};
      if (@{FITS}) {
        @{STORE_DK}
        @{STORE_DV}
      }
    }
  }
}
//@ slopes
@{DOT_VDY}
const f32 dz = p * (@{SUM_DW} - gs_get(delta, t * @{HEADS} + head));
@{SLOPE}
const f32 dx = scale * ds;
//@ sink
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 0,
          @{PARAMS}) {
  GS_SHARED(f32, scratch, 32);
  const int head = (int)GS_BID, kv = head / @{G};
  @{HEAD_VALUES}
  const i64 rows = gs_geti(cu_q, B1 - 1);
  f32 part = 0.0f;
  for (i64 t = GS_TID; t < rows; t += @{THREADS})
    part += gs_exp(sink - gs_get(lse, t * lse_ld + head)) * gs_get(delta, @{DELTA_AT});
  const f32 sum = GS_BLOCK_SUM(part, scratch);
  const i64 at = (i64)kv * @{DSINK}_ld + head % @{G};
  if (GS_TID == 0) gs_put(@{DSINK}, at, -sum);
}
