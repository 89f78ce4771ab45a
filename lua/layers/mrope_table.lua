-- mrope_table: cos and sin of rotary angles for positions along three axes (time, height, width):
-- each frequency belongs to one axis. The first `first` frequencies belong to axis 0, the next
-- `second` to axis 1, the rest to axis 2. Interleaved: frequency i belongs to axis i mod 3 while
-- i < 3·(the section of that axis), else to axis 0. Two axes: first + second = all.
-- Reference: transformers Qwen2-VL; Qwen3-VL (interleaved = 1). Feeds rope as rope_table does.
local gs = require "gradsmith"
local rotary = require "layers.lib.rotary"

-- The position along the axis of frequency h.
local function position(p)
  local i = gs.index "h"
  local function axis(k) return gs.pick(p.pos, "A", k) end
  if p.interleaved ~= 0 then
    local third = gs.size "h" - p.first - p.second
    local k = gs.remainder(i, 3)
    local one = gs.and_(gs.eq(k, 1), gs.lt(i, 3 * p.second))
    local two = gs.and_(gs.eq(k, 2), gs.lt(i, 3 * third))
    return gs.where(one, axis(1), gs.where(two, axis(2), axis(0)))
  end
  return gs.where(gs.lt(i, p.first), axis(0),
    gs.where(gs.lt(i, p.first + p.second), axis(1), axis(2)))
end

return gs.kernel "mrope_table" {
  doc  = "cos, sin of pos[axis of h]·inv_freq, times scale",
  dims = { "T", "h", A = "3", two = "2" },
  pos      = gs.input { "T", "A", type = "i32", range = { 0, 200000 } },
  inv_freq = gs.input { "h", type = "f32", optional = true },
  turns    = gs.input { "two", "h", type = "f32", range = { 0, 16777216 }, optional = true },
  scale    = gs.scalar(1),
  first    = gs.option(16),
  second   = gs.option(24),
  interleaved = gs.option { 0, values = { 0, 1 } },
  exact    = gs.option { 0, values = { 0, 1 } },
  outputs  = { "cos", "sin", cos = "f32", sin = "f32" },

  forward = function(p)
    local cos, sin
    if p.exact == 0 then
      cos, sin = rotary.reference(position(p), p.inv_freq)
    else
      cos, sin = rotary.exact(position(p), gs.pick(p.turns, "two", 0), gs.pick(p.turns, "two", 1))
    end
    return { cos = p.scale * cos, sin = p.scale * sin }
  end,
}
