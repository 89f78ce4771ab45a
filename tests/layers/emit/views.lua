-- Halves, neighbouring pairs, and a row of a table.
local gs = require "gradsmith"

return gs.kernel "views" {
  doc   = "rotations of pairs and of halves; a look-up",
  dims  = { "T", "V", "N", "D", h = "D/2", r = "D/4" },
  outer = { "T", "V" },
  x   = gs.input { "T", "N", "D" },
  c   = gs.input { "T", "h" },
  i   = gs.input { "T", type = "i32", range = { 0, "V" } },
  tab = gs.input { "V", "D" },
  outputs = { "y", "z", "s", "k", "part" },

  forward = function(p)
    local a, b = gs.pairs(p.x, "D", "h")
    local u, v = gs.halves(p.x, "D", "h")
    local turned = gs.from_pairs(a * p.c - b, b * p.c + a, "D", "h")
    return {
      y = turned,
      z = gs.from_halves(u - v, u * v, "D", "h") + p.x,
      s = gs.sum(turned * p.x, "D"),
      k = gs.at(p.tab, "V", p.i) * 2,
      part = gs.slice(p.x, "D", "r", 2) + 1, -- begins off the vectors
    }
  end,
}
