-- tensor_arithmetic.lua:17: {k}: tensor x is used otherwise than by x[i]
local gs = require "gradsmith"

return gs.layer "own_scale" {
  doc  = "y = x·sum(x)",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },

  forward = function(p) return { y = p.x * gs.sum(p.x, "H") } end,

  backward = gs.derived,

  body = gs.cuda [[
//@ forward grid=T threads=64
  GS_SHARED(f32, scratch, 64);
  const i64 row = GS_BID;
  const auto at = x + row * x_ld;
  f32 sum = 0.0f;
  for (int i = GS_TID; i < H; i += 64) sum += gs_get(x, row * x_ld + i);
  sum = GS_BLOCK_SUM(sum, scratch);
  for (int i = GS_TID; i < H; i += 64) gs_put(y, row * y_ld + i, gs_get(x, row * x_ld + i) * sum);

//@ backward grid=T threads=64
  GS_SHARED(f32, scratch, 32);
  const i64 row = GS_BID;
  f32 sum = 0.0f, dot = 0.0f;
  for (int i = GS_TID; i < H; i += 64) {
    sum += gs_get(x, row * x_ld + i);
    dot += gs_get(x, row * x_ld + i) * gs_get(dy, row * dy_ld + i);
  }
  sum = GS_BLOCK_SUM(sum, scratch);
  dot = GS_BLOCK_SUM(dot, scratch);
  for (int i = GS_TID; i < H; i += 64)
    gs_put(dx, row * dx_ld + i, gs_get(dy, row * dy_ld + i) * sum + dot);
]],
}
