-- A sum over one outer dim that keeps another: no schedule covers it, and the message says where.
local gs = require "gradsmith"

return gs.kernel "refused" {
  doc   = "scores between two outer dims",
  dims  = { "T", "S", "D" },
  outer = { "T", "S" },
  x = gs.input { "T", "D" },
  y = gs.input { "S", "D" },
  outputs = { "z" },

  forward = function(p)
    local score = gs.sum(p.x * p.y, "D")
    return { z = gs.sum(score, "S") }
  end,
}
