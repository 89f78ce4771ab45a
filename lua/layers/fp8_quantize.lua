-- fp8_quantize: FP8 codes of a matrix and their scales, such that x = q·scale: one scale for the
-- tensor, for each row, for 1x128 blocks along a row, or for 128x128 tiles. scale = max|x| / (the
-- type's largest number) as in DeepSeek-V3; its power-of-two form is rounded up, so that nothing
-- saturates. max|x| counts as 2^-100 at least.
local gs = require "gradsmith"
local scales = require "layers.lib.scales"

return gs.kernel "fp8_quantize" {
  doc   = "scale = max|x|/largest of the part, q = x/scale rounded to FP8",
  dims  = scales.dims,
  x = gs.input { "T", "H" },
  -- part 0: the tensor, 1: a row, 2: a block of 1x128, 3: a tile of 128x128
  part  = gs.option { 0, values = { 0, 1, 2, 3 } },
  wide  = gs.option { 0, values = { 0, 1 } }, -- 0: e4m3; 1: e5m2, as `q_e5m2`
  power = gs.option { 0, values = { 0, 1 } }, -- 1: scales are powers of two, as `scale_e8m0`
  outputs = { "q", "q_e5m2", "scale", "scale_e8m0", q = { type = "e4m3", optional = true },
    q_e5m2 = { type = "e5m2", optional = true }, scale = { type = "f32", optional = true },
    scale_e8m0 = { type = "e8m0", optional = true } },

  forward = function(p)
    local x, reduced, back = scales.split(p.x, p.part)
    local amax = gs.max(gs.max(gs.abs(x), reduced), 2.0 ^ -100)
    local scale = gs.round(amax / (p.wide ~= 0 and 57344 or 448), "f32")
    if p.power ~= 0 then scale = gs.round(scale, "e8m0") end
    local q = back(gs.round(x / scale, "f32"))
    return { q = p.wide == 0 and q or nil, q_e5m2 = p.wide ~= 0 and q or nil,
             scale = p.power == 0 and scale or nil, scale_e8m0 = p.power ~= 0 and scale or nil }
  end,
}
