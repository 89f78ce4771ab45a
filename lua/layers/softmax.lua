-- softmax: over the last dim. Reference: torch.softmax; its backward, too, reads the stored y.
local gs = require "gradsmith"

return gs.layer "softmax" {
  doc  = "y = exp(x - max x) / Σ exp(x - max x)",
  dims = { "T", "V" },
  x    = gs.input { "T", "V" },
  inplace = { y = "x", dx = "dy" },

  forward = function(p) return { y = gs.softmax(p.x, "V") } end,
  backward = function(p, d, s) return { x = s.y * (d.y - gs.sum(d.y * s.y, "V")) } end,
}
