-- plain_rmsnorm: what a file without a backward of its own becomes is plain_rmsnorm_derived.lua.
local gs = require "gradsmith"

return gs.layer "plain_rmsnorm" {
  doc  = "y = w·x·rstd",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },
  w    = gs.weight { "H" },
  eps  = gs.scalar(1e-6),

  forward = function(p)
    local rstd = gs.rsqrt(gs.mean(p.x^2, "H") + p.eps)
    return { y = p.w * gs.round(p.x * rstd, p.x.type),
      save = { rstd = gs.rsqrt(p.eps + gs.mean(p.x^2, "H")) } } -- what follows stays
  end,

  backward = function(p, d, s)
    -- derived by gradsmith from the forward
    local g = p.w * d.y
    return {
      x = s.rstd * (g - p.x * s.rstd^2 * gs.mean(p.x * g, "H")),
      w = gs.sum(d.y * p.x * s.rstd, "T"),
    }
  end,
}
