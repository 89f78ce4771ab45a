-- rmsnorm: root-mean-square normalisation, in both orders of rounding in use.
-- Reference: transformers LlamaRMSNorm (gemma = 0), GemmaRMSNorm (gemma = 1).
local gs = require "gradsmith"

return gs.layer "rmsnorm" {
  doc   = "y = w·x·rstd, rstd = (mean(x²) + eps)^-1/2",
  dims  = { "T", "H" },
  x     = gs.input { "T", "H" },
  w     = gs.weight { "H" },
  eps   = gs.scalar(1e-6),
  gemma = gs.option(0), -- 1: times 1 + w in f32, one rounding; 0: x·rstd rounded, then times w

  forward = function(p)
    local rstd = gs.rsqrt(gs.mean(p.x^2, "H") + p.eps)
    local n = p.x * rstd
    if p.gemma == 0 then n = gs.round(n, p.x.type) end
    return { y = (p.w + p.gemma) * n, save = { rstd = rstd } }
  end,

  backward = function(p, d, s)
    local g = d.y * (p.w + p.gemma)
    return {
      x = s.rstd * (g - p.x * s.rstd^2 * gs.mean(p.x * g, "H")),
      w = gs.sum(d.y * p.x * s.rstd, "T"),
    }
  end,
}
