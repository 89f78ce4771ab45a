local gs = require "gradsmith"
return gs.layer "a" {
  dims = { "T", "H" }, x = gs.input { "T", "H" }, w = gs.weight { "H" }, eps = gs.scalar(1e-6),
  forward = function(p)
    local rstd = gs.rsqrt(gs.mean(p.x^2, "H") + p.eps)
    return { y = p.w * p.x * rstd, save = { rstd = rstd } }
  end,
  backward = function(p, d, s)
    local g = d.y * p.w
    return { x = s.rstd * (g - p.x * s.rstd^2 * gs.mean(p.x * g, "H")),
      w = gs.sum(d.y * p.x * s.rstd, "T") }
  end,
}
