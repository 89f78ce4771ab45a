-- expect: 10: gs.rsqr does not exist; did you mean 'rsqrt'?
local gs = require "gradsmith"

return gs.layer "unknown_function" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * gs.rsqr(p.x) }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
