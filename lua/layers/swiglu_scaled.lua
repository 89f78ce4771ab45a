-- swiglu_scaled: SwiGLU whose gate and up are multiplied by numbers of the model.
-- Reference: transformers FalconH1MLP (its down multiplier is up_scale here, since the product is
-- linear in it); the arithmetic stays in f32 and is rounded once.
local gs = require "gradsmith"

return gs.layer "swiglu_scaled" {
  doc  = "y = silu(gate_scale·gate)·up_scale·up",
  dims = { "T", "F" },
  gate = gs.input { "T", "F" },
  up   = gs.input { "T", "F" },
  gate_scale = gs.scalar(1),
  up_scale   = gs.scalar(1),
  inplace = { dgate = "gate", dup = "up" },

  forward = function(p)
    local g = p.gate_scale * p.gate
    return { y = g * gs.sigmoid(g) * (p.up_scale * p.up) }
  end,

  backward = function(p, d)
    local g = p.gate_scale * p.gate
    local s, du = gs.sigmoid(g), p.up_scale * d.y
    return {
      gate = p.gate_scale * du * p.up * s * (1 + g * (1 - s)),
      up   = du * g * s,
      recomputed = { y = g * s * (p.up_scale * p.up) },
    }
  end,
}
