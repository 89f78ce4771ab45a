-- softclamp_glu: a gated activation whose gate is clamped softly, with a learned scale a channel.
local gs = require "gradsmith"

return gs.layer "softclamp_glu" {
  doc  = "y = a·silu(c)·up, c = cap·tanh(gate/cap)",
  dims = { "T", "H" },
  gate = gs.input { "T", "H" },
  up   = gs.input { "T", "H" },
  a    = gs.weight { "H" },
  cap  = gs.scalar { 8, range = { 1, 16 } },

  forward = function(p)
    local c = p.cap * gs.tanh(p.gate / p.cap)
    return { y = p.a * gs.silu(c) * p.up }
  end,

  backward = function(p, d)
    local t = gs.tanh(p.gate / p.cap)
    local c = p.cap * t
    local on = gs.sigmoid(c)
    local g = d.y * c * on
    return {
      gate = d.y * p.a * p.up * on * (1 + c * (1 - on)) * (1 - t^2),
      up   = g * p.a,
      a    = gs.sum(g * p.up, "T"),
    }
  end,
}
