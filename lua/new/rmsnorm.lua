-- NAME: a normalisation of each row. Say here which reference it follows.
local gs = require "gradsmith"

return gs.layer "NAME" {
  doc  = "y = w·x·rstd, rstd = (mean(x²) + eps)^-1/2",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },
  w    = gs.weight { "H" },
  eps  = gs.scalar(1e-6),        -- a number fixed for the run, with its default

  forward = function(p)
    -- A reduction names the dims that it removes: rstd has dims [T].
    local rstd = gs.rsqrt(gs.mean(p.x^2, "H") + p.eps)
    -- The reference rounds here before it multiplies by w; elsewhere values stay f32 until stored.
    local n = gs.round(p.x * rstd, p.x.type)
    -- Saved values are kept for backward, in f32: save what is small and costs a reduction.
    return { y = p.w * n, save = { rstd = rstd } }
  end,

  backward = function(p, d, s)
    local g = d.y * p.w
    return {
      x = s.rstd * (g - p.x * s.rstd^2 * gs.mean(p.x * g, "H")),
      w = gs.sum(d.y * p.x * s.rstd, "T"),
    }
  end,
}
