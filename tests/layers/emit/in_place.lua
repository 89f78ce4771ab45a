-- Results over their inputs: halves that change places, a row that is summed first, and one whose
-- other rows are still needed when it would be written.
local gs = require "gradsmith"

return gs.kernel "in_place" {
  doc  = "three results in place",
  dims = { "T", "N", "D", h = "D/2" },
  x = gs.input { "T", "N", "D" },
  r = gs.input { "T", "N", "D" },
  z = gs.input { "T", "N", "D" },
  i = gs.input { "T", type = "i32", range = { 0, "T" } },
  u = gs.input { "T", "D" },
  inplace = { y = "x", q = "r", g = "z", n = "u" },
  outputs = { "y", "q", "g", "n" },

  forward = function(p)
    local a, b = gs.halves(p.x, "D", "h")
    local other = gs.at(gs.rename(p.u, "T", "V"), "V", p.i) -- any row
    return {
      y = gs.from_halves(b, a, "D", "h"),
      q = p.r - gs.sum(p.r, { "N", "D" }),
      g = p.z - gs.sum(p.z, "T"),
      n = p.u + other,
    }
  end,
}
