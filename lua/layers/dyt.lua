-- dyt: dynamic tanh, which stands where a norm would; alpha is one learned number.
-- Reference: Zhu et al. 2025 (DyT); the arithmetic stays in f32 and is rounded once.
local gs = require "gradsmith"

return gs.layer "dyt" {
  doc   = "y = w·tanh(alpha·x) + b",
  dims  = { "T", "H" },
  x     = gs.input { "T", "H" },
  alpha = gs.weight {},
  w     = gs.weight { "H" },
  b     = gs.weight { "H" },

  forward = function(p) return { y = p.w * gs.tanh(p.alpha * p.x) + p.b } end,

  backward = function(p, d)
    local t = gs.tanh(p.alpha * p.x)
    local g = d.y * p.w * (1 - t^2)
    return {
      x     = p.alpha * g,
      alpha = gs.sum(g * p.x, { "T", "H" }),
      w     = gs.sum(d.y * t, "T"),
      b     = gs.sum(d.y, "T"),
    }
  end,
}
