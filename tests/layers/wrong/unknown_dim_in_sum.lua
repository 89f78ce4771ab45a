-- expect: 14: gs.sum: unknown dim 'TT'; did you mean 'T'?
local gs = require "gradsmith"

return gs.layer "unknown_dim_in_sum" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "TT") }
  end,
}
