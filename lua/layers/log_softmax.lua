-- log_softmax: over the last dim. Reference: torch.log_softmax; its backward reads the rounded y,
-- ours forms the probabilities from x in f32.
local gs = require "gradsmith"

return gs.layer "log_softmax" {
  doc  = "y = (x - max x) - log Σ exp(x - max x)",
  dims = { "T", "V" },
  x    = gs.input { "T", "V" },
  inplace = { dx = "dy" },

  forward = function(p)
    local top = gs.stop(gs.max(p.x, "V"))
    local rest = gs.log(gs.sum(gs.exp(p.x - top), "V"))
    return { y = p.x - top - rest, save = { top = top, rest = rest } }
  end,

  backward = function(p, d, s)
    return { x = d.y - gs.exp(p.x - s.top - s.rest) * gs.sum(d.y, "V") }
  end,
}
