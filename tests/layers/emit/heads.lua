-- A norm of each head: the rows are (T, N), the weight's gradient is over both.
local gs = require "gradsmith"

return gs.layer "heads" {
  doc  = "y = w·x·rstd over each head, scaled by a number",
  dims = { "T", "N", "D" },
  x = gs.input { "T", "N", "D" },
  w = gs.weight { "D" },
  c = gs.weight { },

  forward = function(p)
    local r = gs.rsqrt(gs.mean(p.x^2, "D") + 1e-6)
    return { y = p.c * p.w * (p.x * r), save = { r = r } }
  end,

  backward = function(p, d, s)
    local g = d.y * p.w * p.c
    local n = p.x * s.r
    return {
      x = s.r * (g - n * gs.mean(g * n, "D")),
      w = gs.sum(d.y * p.c * n, { "T", "N" }),
      c = gs.sum(d.y * p.w * n, "all"),
    }
  end,
}
