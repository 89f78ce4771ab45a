-- Wrong on purpose: backward computes rstd anew and forgets eps.
local gs = require "gradsmith"

return gs.layer "rmsnorm_missing_eps" {
  doc   = "y = w·x·rstd, rstd = (mean(x²) + eps)^-1/2",
  dims  = { "T", "H" },
  x     = gs.input { "T", "H" },
  w     = gs.weight { "H" },
  eps   = gs.scalar(1e-2),
  gemma = gs.option(0),

  forward = function(p)
    local rstd = gs.rsqrt(gs.mean(p.x^2, "H") + p.eps)
    local n = p.x * rstd
    if p.gemma == 0 then n = gs.round(n, p.x.type) end
    return { y = (p.w + p.gemma) * n, save = { rstd = rstd } }
  end,

  backward = function(p, d, s)
    local rstd = gs.rsqrt(gs.mean(p.x^2, "H"))
    local g = d.y * (p.w + p.gemma)
    return {
      x = rstd * (g - p.x * rstd^2 * gs.mean(p.x * g, "H")),
      w = gs.sum(d.y * p.x * s.rstd, "T"),
    }
  end,
}
