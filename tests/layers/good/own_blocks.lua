-- own_blocks: kernels of one's own over blocks of an outer dim, in a text that brackets of level 2
-- hold: a kernel without backward, an integer output, a parameter that an option leaves out.
local gs = require "gradsmith"

return gs.kernel "own_blocks" {
  doc     = "q = trunc(x·scale), scale = 1/max|x| of each block",
  dims    = { "N", "k", B = "ceil(N/k)" },
  outer   = { "N" },
  x       = gs.input { "N", type = "f32" },
  factor  = gs.option { 127, values = { 127, 63 } },
  shifted = gs.option { 0, values = { 0, 1 } },
  shift   = gs.scalar { 0.5, optional = true },
  outputs = { "q", "top", q = "i8", top = "f32" },

  forward = function(p)
    local x = gs.split(p.shifted == 1 and p.x + p.shift or p.x, "N", "B", "k", { tail = "mask" })
    local top = gs.max(gs.abs(x), "k")
    local scaled = gs.where(gs.gt(top, 0), x / top * p.factor, 0)
    return { q = gs.merge(gs.integer(scaled), "B", "k", "N"), top = top }
  end,

  body = gs.cuda [==[#if HAS_shift
#define SHIFTED(v) ((v) + shift)
#else
#define SHIFTED(v) (v)
#endif
//@ forward grid=B threads=32
  f32 most = 0.0f;
  for (i64 i = GS_BID * k + GS_TID; i < GS_BID * k + k; i += 32)
    most = i < N ? gs_max(most, gs_abs(SHIFTED(gs_get(x, i)))) : most;
  most = GS_WARP_MAX(most);
  if (GS_TID == 0 && GS_BID < B) gs_put(top, GS_BID, most);
  for (i64 i = GS_BID * k + GS_TID; i < GS_BID * k + k; i += 32)
    if (i < N) gs_puti(q, i, most > 0.0f ? gs_integer(SHIFTED(gs_get(x, i)) / most * (f32)factor) : (i64)0);
]==],
}
