-- swiglu_oai: the clipped gated activation of gpt-oss; gate and up come from one projection, one
-- beside the other (interleaved = 1) or one half after the other (0).
-- Reference: transformers GptOssExperts; the arithmetic stays in f32 and is rounded once.
local gs = require "gradsmith"

-- gate and up + 1, clipped; sigmoid(alpha·gate); whether gate and up were inside their limits.
local function parts(p)
  local split = p.interleaved ~= 0 and gs.pairs or gs.halves
  local gate, up = split(p.x, "G", "F")
  local inside_gate = gs.le(gate, p.limit)
  local inside_up = gs.and_(gs.le(up, p.limit), gs.ge(up, -p.limit))
  local a, b = gs.min(gate, p.limit), gs.max(gs.min(up, p.limit), -p.limit) + 1
  return a, b, gs.sigmoid(p.alpha * a), inside_gate, inside_up
end

return gs.layer "swiglu_oai" {
  doc   = "y = (up + 1)·gate·sigmoid(alpha·gate), gate <= limit, |up| <= limit",
  dims  = { "T", "F", G = "2*F" },
  x     = gs.input { "T", "G" },
  alpha = gs.scalar(1.702),
  limit = gs.scalar(7),
  interleaved = gs.option { 1, values = { 0, 1 } },

  forward = function(p)
    local a, b, s = parts(p)
    return { y = b * a * s }
  end,

  backward = function(p, d)
    local a, b, s, inside_gate, inside_up = parts(p)
    local dgate = gs.where(inside_gate, d.y * b * s * (1 + p.alpha * a * (1 - s)), 0)
    local dup = gs.where(inside_up, d.y * a * s, 0)
    local join = p.interleaved ~= 0 and gs.from_pairs or gs.from_halves
    return { x = join(dgate, dup, "G", "F"), recomputed = { y = b * a * s } }
  end,
}
