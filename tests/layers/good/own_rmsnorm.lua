-- own_rmsnorm: rmsnorm by kernels of its own. A block a row; the gradient of w in two kernels: each
-- block of the first leaves the sum over its eight rows, the second adds these up.
local gs = require "gradsmith"

return gs.layer "own_rmsnorm" {
  doc   = "y = (gain + w)·x·rstd, rstd = (mean(x²) + eps)^-1/2",
  dims  = { "T", "H" },
  x     = gs.input { "T", "H" },
  w     = gs.weight { "H" },
  eps   = gs.scalar(1e-6),
  gemma = gs.option { 0, values = { 0, 1 } },
  scale = gs.option { 1.5, also = { 0.25 } },

  forward = function(p)
    local rstd = gs.rsqrt(gs.mean(p.x^2, "H") + p.eps)
    return { y = p.scale * p.x * rstd * (p.w + p.gemma), save = { rstd = rstd } }
  end,

  backward = function(p, d, s)
    local g = p.scale * d.y * (p.w + p.gemma)
    return {
      x = s.rstd * (g - p.x * s.rstd^2 * gs.mean(g * p.x, "H")),
      w = gs.sum(p.scale * d.y * p.x * s.rstd, "T"),
    }
  end,

  body = gs.cuda [[
constexpr int threads = 128;

GS_FN f32 square(f32 v) {
  return v * v;
}

//@ forward grid=T threads=128
  GS_SHARED(f32, scratch, 32);
  const i64 row = GS_BID;
  f32 sum = 0.0f;
  for (int i = GS_TID; i < H; i += threads) sum += square(gs_get(x, row * x_ld + i));
  const f32 mean = GS_BLOCK_SUM(sum, scratch) / (f32)H, r = gs_rsqrt(mean + eps);
#if HAS_rstd
  if (GS_TID == 0) gs_put(rstd, row, r);
#endif
  for (int i = GS_TID; i < H; i += threads)
    gs_put(y, row * y_ld + i, scale * gs_get(x, row * x_ld + i) * r * (gs_get(w, i) + gemma));

//@ temp parts f32 ceil(T/8)*H
//@ backward grid=ceil(T/8) threads=128 writes=dx,parts
  GS_SHARED(f32, scratch, 32);
  constexpr int chunks = (H + threads - 1) / threads;
  f32 dw_sum[chunks];
  for (int c = 0; c < chunks; c++) dw_sum[c] = 0.0f;
  for (int k = 0; k < 8; k++) {
    const i64 row = GS_BID * 8 + k;
    const bool here = row < T;
    const f32 r = here ? gs_get(rstd, row) : 0.0f;
    f32 dot = 0.0f;
    GS_UNROLL for (int c = 0; c < chunks; c++) {
      const int i = GS_TID + c * threads;
      if (here && i < H) {
        const f32 x_v = gs_get(x, row * x_ld + i), g = scale * gs_get(dy, row * dy_ld + i);
        dot += g * (gs_get(w, i) + gemma) * x_v;
        dw_sum[c] += g * x_v * r;
      }
    }
#if HAS_dx
    const f32 mean = GS_BLOCK_SUM(dot, scratch) / (f32)H;
    for (int i = GS_TID; here && i < H; i += threads) {
      const f32 g = scale * gs_get(dy, row * dy_ld + i) * (gs_get(w, i) + gemma);
      gs_put(dx, row * dx_ld + i, r * (g - gs_get(x, row * x_ld + i) * square(r) * mean));
    }
#endif
  }
#if HAS_parts
  GS_UNROLL for (int c = 0; c < chunks; c++) {
    const int i = GS_TID + c * threads;
    if (i < H) gs_put(parts, GS_BID * H + i, dw_sum[c]);
  }
#endif

//@ backward grid=ceil(H/64) threads=64 barrier_free reads=parts writes=dw
  const i64 i = GS_BID * 64 + GS_TID;
  f32 sum = 0.0f;
  for (i64 b = 0; i < H && b < (T + 7) / 8; b++) sum += gs_get(parts, b * H + i);
  if (i < H) gs_put(dw, i, sum);
]],
}
