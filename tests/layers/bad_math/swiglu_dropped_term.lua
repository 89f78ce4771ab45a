-- Wrong on purpose: dgate lacks the derivative of the sigmoid.
local gs = require "gradsmith"

return gs.layer "swiglu_dropped_term" {
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
      gate = d.y * p.up * sg,
      up   = d.y * p.gate * sg,
    }
  end,
}
