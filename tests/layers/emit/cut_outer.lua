-- Reductions over the outer dim that feed values which keep it, and full reductions.
local gs = require "gradsmith"

return gs.kernel "cut_outer" {
  doc  = "statistics of columns, and of everything, applied to the rows",
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  outputs = { "y", "z", "m", "l", "mn", "mx", "total",
              m = "f32", l = "f32", mn = "f32", mx = "f32", total = "f32" },

  forward = function(p)
    local s = gs.sum(p.x^2, "T")
    local lo, hi = gs.min(p.x, "T"), gs.max(p.x, "T")
    local all = gs.sum(p.x^2, "all")
    return {
      y = p.x * gs.rsqrt(s + 1),
      z = p.x / (1 + all) + gs.sum(p.x * s, "H"),
      m = s * 2,
      l = gs.logsumexp(p.x, "T"),
      mn = lo,
      mx = hi - lo,
      total = gs.sqrt(all + gs.sum(s, "H")),
    }
  end,
}
