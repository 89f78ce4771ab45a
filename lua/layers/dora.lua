-- dora: a projection's result with its low-rank update, rescaled to a trained magnitude m for each
-- output. base is without bias; norm is that of dora_norm and passes no gradient. Reference: peft
-- DoraLinearLayer, in f32 with one rounding.
local gs = require "gradsmith"

return gs.layer "dora" {
  doc   = "y = m/norm·(base + scale·delta)",
  dims  = { "T", "O" },
  base  = gs.input { "T", "O" },
  delta = gs.input { "T", "O" },
  m     = gs.weight { "O" },
  norm  = gs.input { "O", type = "f32", grad = false, range = { 0.5 } },
  scale = gs.scalar(1),
  inplace = { y = "base", dbase = "base" },

  forward = function(p) return { y = p.m / p.norm * (p.base + p.scale * p.delta) } end,

  backward = function(p, d)
    local g = d.y * (p.m / p.norm)
    return {
      base  = g,
      delta = p.scale * g,
      m     = gs.sum(d.y * (p.base + p.scale * p.delta), "T") / p.norm,
    }
  end,
}
