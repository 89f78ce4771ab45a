// attention.cu: causal attention over packed documents, plain and correct: a group of lanes for
// each query (or key) of a head, softmax online over blocks of keys, the backward from the saved
// logsumexp. Sums have a fixed order and nothing is added atomically.
//
//   q, y, dq, dy [T, K, G, D]   k, v, dk, dv [T, K, D]   lse [T, K, G]
//   start [T]: first token of t's document
// A lane has CHUNKS vectors of VEC elements of D. Groups of one warp may have different tokens; all
// of them loop over the union of their ranges, so that lanes meet in every sum.

//@ forward
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{PLACE_QUERY}
  f32 q_v[@{CHUNKS}][@{VEC}], out[@{CHUNKS}][@{VEC}] = {};
  GS_UNROLL
  for (int c = 0; c < @{CHUNKS}; c++)
    gs_load<@{VEC}>(q_v[c], q, t * q_ld + head * @{D} + (c * @{LANES} + lane) * @{VEC});
  f32 top = -3.40282347e+38f, total = 0.0f;
  for (i64 j0 = low; j0 <= high; j0 += @{BLOCK}) {
    f32 s[@{BLOCK}], most = top;
    GS_UNROLL
    for (int b = 0; b < @{BLOCK}; b++) {
      const bool seen = j0 + b >= from && j0 + b <= t;
      @{LOAD_K}
      @{DOT_QK}
      const f32 z = scale * @{SUM_DOT};
      s[b] = seen ? z : -GS_INF;
      most = gs_max(most, s[b]);
    }
    const f32 shrink = gs_exp(top - most);
    top = most;
    f32 part[@{CHUNKS}][@{VEC}] = {}, part_total = 0.0f;
    GS_UNROLL
    for (int b = 0; b < @{BLOCK}; b++) {
      if (j0 + b >= from && j0 + b <= t) {
        const f32 p = gs_exp(s[b] - top);
        part_total += p;
        GS_UNROLL
        for (int c = 0; c < @{CHUNKS}; c++) {
          f32 v_v[@{VEC}];
          gs_load<@{VEC}>(v_v, v, (j0 + b) * v_ld + kv * @{D} + (c * @{LANES} + lane) * @{VEC});
          GS_UNROLL
          for (int l = 0; l < @{VEC}; l++) part[c][l] += p * v_v[l];
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
  if (live) {
    GS_UNROLL
    for (int c = 0; c < @{CHUNKS}; c++) {
      GS_UNROLL
      for (int l = 0; l < @{VEC}; l++) out[c][l] = gs_div(out[c][l], total);
      gs_store<@{VEC}>(y, t * y_ld + head * @{D} + (c * @{LANES} + lane) * @{VEC}, out[c]);
    }
    @{STORE_LSE}
  }
  @{CLOSE}
}
//@ place_group
const i64 n = GS_BID * @{GROUPS} + GS_TID / @{LANES}; // one token and head
const i64 n0 = GS_BID * @{GROUPS} + GS_WARP * @{PER_WARP}, all = @{T} * @{COUNT};
const int lane = GS_TID % @{LANES};
const bool live = n < all;
const i64 t0 = (n0 < all ? n0 : all - 1) / @{COUNT};
const i64 t1 = (n0 + @{PER_WARP} <= all ? n0 + @{PER_WARP} - 1 : all - 1) / @{COUNT};
//@ query_group
@{PLACE}
const i64 t = live ? n / @{COUNT} : t0;
const int head = (int)(live ? n % @{COUNT} : 0), kv = head / @{G};
const i64 from = live ? gs_geti(start, t) : @{T}; // a group without a query sees no key
const i64 low = gs_geti(start, t0), high = t1;
//@ query_single
const i64 n = GS_BID * @{THREADS} + GS_TID; // one token and head
const int lane = 0;
const bool live = true;
if (n < @{T} * @{COUNT}) {
const i64 t = n / @{COUNT};
const int head = (int)(n % @{COUNT}), kv = head / @{G};
const i64 from = gs_geti(start, t), low = from, high = t;
//@ load
f32 @{X}_v[@{CHUNKS}][@{VEC}] = {};
if (seen) {
  GS_UNROLL
  for (int c = 0; c < @{CHUNKS}; c++)
    gs_load<@{VEC}>(@{X}_v[c], @{X},
                @{ROW} * @{X}_ld + @{HEAD} * @{D} + (c * @{LANES} + lane) * @{VEC});
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
//@ delta
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  const i64 n = GS_BID * @{THREADS} + GS_TID; // one token and head
  if (n < @{T} * @{COUNT}) {
    const i64 t = n / @{COUNT};
    const int head = (int)(n % @{COUNT});
    f32 lanes[@{VEC}] = {};
    for (int i = 0; i < @{D}; i += @{VEC}) {
      f32 y_v[@{VEC}], dy_v[@{VEC}];
      gs_load<@{VEC}>(y_v, y, t * y_ld + head * @{D} + i);
      gs_load<@{VEC}>(dy_v, dy, t * dy_ld + head * @{D} + i);
      GS_UNROLL
      for (int l = 0; l < @{VEC}; l++) lanes[l] += dy_v[l] * y_v[l];
    }
    f32 sum = 0.0f;
    GS_UNROLL
    for (int l = 0; l < @{VEC}; l++) sum += lanes[l];
    gs_put(delta, n, sum);
  }
}
//@ dq
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{PLACE_QUERY}
  f32 q_v[@{CHUNKS}][@{VEC}], dy_v[@{CHUNKS}][@{VEC}], out[@{CHUNKS}][@{VEC}] = {};
  GS_UNROLL
  for (int c = 0; c < @{CHUNKS}; c++) {
    gs_load<@{VEC}>(q_v[c], q, t * q_ld + head * @{D} + (c * @{LANES} + lane) * @{VEC});
    gs_load<@{VEC}>(dy_v[c], dy, t * dy_ld + head * @{D} + (c * @{LANES} + lane) * @{VEC});
  }
  const f32 lse_v = gs_get(lse, t * lse_ld + head);
  const f32 delta_v = gs_get(delta, t * @{COUNT} + head);
  for (i64 j0 = low; j0 <= high; j0 += @{BLOCK}) {
    f32 part[@{CHUNKS}][@{VEC}] = {};
    const int steps = high - j0 < @{BLOCK} ? (int)(high - j0) + 1 : @{BLOCK};
    for (int b = 0; b < steps; b++) {
      const bool seen = j0 + b >= from && j0 + b <= t;
      @{LOAD_K}
      @{LOAD_V}
      @{DOT_QK}
      @{DOT_DYV}
      const f32 z = scale * @{SUM_DOT};
      const f32 slope = scale * (gs_exp(z - lse_v) * (@{SUM_DW} - delta_v));
      const f32 dz = seen ? slope : 0.0f;
      GS_UNROLL
      for (int c = 0; c < @{CHUNKS}; c++) {
        GS_UNROLL
        for (int l = 0; l < @{VEC}; l++) part[c][l] += dz * k_v[c][l];
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
    for (int c = 0; c < @{CHUNKS}; c++)
      gs_store<@{VEC}>(dq, t * dq_ld + head * @{D} + (c * @{LANES} + lane) * @{VEC}, out[c]);
  }
  @{CLOSE}
}
//@ key_group
@{PLACE}
const i64 j = live ? n / @{COUNT} : t0;
const int kv = (int)(live ? n % @{COUNT} : 0);
const i64 low = t0, last = t1;
//@ key_single
const i64 n = GS_BID * @{THREADS} + GS_TID; // one token and kv head
const int lane = 0;
const bool live = true;
if (n < @{T} * @{COUNT}) {
const i64 j = n / @{COUNT};
const int kv = (int)(n % @{COUNT});
const i64 low = j, last = j;
//@ dkv
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{PLACE_KEY}
  f32 k_v[@{CHUNKS}][@{VEC}], v_v[@{CHUNKS}][@{VEC}];
  f32 dk_v[@{CHUNKS}][@{VEC}] = {}, dv_v[@{CHUNKS}][@{VEC}] = {};
  GS_UNROLL
  for (int c = 0; c < @{CHUNKS}; c++) {
    gs_load<@{VEC}>(k_v[c], k, j * k_ld + kv * @{D} + (c * @{LANES} + lane) * @{VEC});
    gs_load<@{VEC}>(v_v[c], v, j * v_ld + kv * @{D} + (c * @{LANES} + lane) * @{VEC});
  }
  for (i64 t = low; t < @{T} && gs_geti(start, t) <= last; t++) {
    const bool seen = live && t >= j && gs_geti(start, t) <= j;
    f32 dk_part[@{CHUNKS}][@{VEC}] = {}, dv_part[@{CHUNKS}][@{VEC}] = {};
    for (int g = 0; g < @{G}; g++) {
      const int head = kv * @{G} + g;
      @{LOAD_Q}
      @{LOAD_DY}
      @{DOT_KQ}
      @{DOT_VDY}
      const f32 z = scale * @{SUM_DOT};
      const f32 weight = gs_exp(z - gs_get(lse, t * lse_ld + head));
      const f32 p = seen ? weight : 0.0f;
      const f32 dz = scale * (p * (@{SUM_DW} - gs_get(delta, t * @{HEADS} + head)));
      GS_UNROLL
      for (int c = 0; c < @{CHUNKS}; c++) {
        GS_UNROLL
        for (int l = 0; l < @{VEC}; l++) {
          dk_part[c][l] += dz * q_v[c][l];
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
      @{STORE_DK}
      @{STORE_DV}
    }
  }
  @{CLOSE}
}
//@ dv
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{PLACE_KEY}
  f32 k_v[@{CHUNKS}][@{VEC}], dv_v[@{CHUNKS}][@{VEC}] = {};
  GS_UNROLL
  for (int c = 0; c < @{CHUNKS}; c++)
    gs_load<@{VEC}>(k_v[c], k, j * k_ld + kv * @{D} + (c * @{LANES} + lane) * @{VEC});
  for (i64 t = low; t < @{T} && gs_geti(start, t) <= last; t++) {
    const bool seen = live && t >= j && gs_geti(start, t) <= j;
    f32 dv_part[@{CHUNKS}][@{VEC}] = {};
    for (int g = 0; g < @{G}; g++) {
      const int head = kv * @{G} + g;
      @{LOAD_Q}
      @{LOAD_DY}
      @{DOT_KQ}
      const f32 z = scale * @{SUM_DOT};
      const f32 weight = gs_exp(z - gs_get(lse, t * lse_ld + head));
      const f32 p = seen ? weight : 0.0f;
      GS_UNROLL
      for (int c = 0; c < @{CHUNKS}; c++) {
        GS_UNROLL
        for (int l = 0; l < @{VEC}; l++) dv_part[c][l] += p * dy_v[c][l];
      }
    }
    GS_UNROLL
    for (int c = 0; c < @{CHUNKS}; c++) {
      GS_UNROLL
      for (int l = 0; l < @{VEC}; l++) dv_v[c][l] += dv_part[c][l];
    }
  }
  if (live) {
    GS_UNROLL
    for (int c = 0; c < @{CHUNKS}; c++) {
      const int i = (c * @{LANES} + lane) * @{VEC};
      @{STORE_DV}
    }
  }
  @{CLOSE}
}
