-- Wrong on purpose: the gradients of gate and up are exchanged.
local gs = require "gradsmith"

return gs.layer "swiglu_swapped" {
  doc  = "y = silu(gate)·up, silu(x) = x·sigmoid(x)",
  dims = { "T", "F" },
  gate = gs.input { "T", "F" },
  up   = gs.input { "T", "F" },
  inplace = { dgate = "gate", dup = "up" },

  forward = function(p)
    return { y = gs.round(p.gate * gs.sigmoid(p.gate), p.gate.type) * p.up }
  end,

  backward = function(p, d)
    local sg = gs.sigmoid(p.gate)
    return {
      up   = d.y * p.up * sg * (1 + p.gate * (1 - sg)),
      gate = d.y * p.gate * sg,
    }
  end,
}
