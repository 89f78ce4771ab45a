-- A reduction of a reduction, and sums over the rows of what follows from both.
local gs = require "gradsmith"

return gs.kernel "two_levels" {
  doc  = "layer normalisation, with sums over T",
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.input { "H" },
  b = gs.input { "H" },
  outputs = { "y", "sy", "sb", "rs", sy = "f32", sb = "f32", rs = "f32" },

  forward = function(p)
    local c = p.x - gs.mean(p.x, "H")
    local rstd = gs.rsqrt(gs.mean(c^2, "H") + 1e-5)
    local n = c * rstd
    return { y = n * p.w + p.b, sy = gs.sum(n * p.x, "T"), sb = gs.sum(n, "T"), rs = rstd }
  end,
}
