-- expect: 10: unknown name 'rstd' || 14: unknown name 'x'
local gs = require "gradsmith"

return gs.layer "unknown_name" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x * rstd }
  end,

  backward = function(p, d, s)
    return { x = d.y * x, w = gs.sum(d.y * p.x, "T") }
  end,
}
