-- expect: 8: 'eps' is not used
local gs = require "gradsmith"

return gs.layer "unused_scalar" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },
  eps = gs.scalar(1e-6),

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
