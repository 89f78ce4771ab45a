-- One outer dim and nothing else: vectors along it, and a tail.
local gs = require "gradsmith"

return gs.kernel "flat" {
  doc  = "a line of numbers",
  dims = { "N" },
  x = gs.input { "N" },
  y = gs.input { "N", type = "f32" },
  k = gs.step_scalar(),
  inplace = { o = "x" },
  outputs = { "o", "n", "mx", "pos", n = "f32", mx = "f32", pos = "f32" },

  forward = function(p)
    return {
      o = p.x * p.k + 1,
      n = gs.sum(p.x * p.y, "N") * p.k,
      mx = gs.max(p.x, "N"),
      pos = gs.real(gs.index "N") * p.y,
    }
  end,
}
