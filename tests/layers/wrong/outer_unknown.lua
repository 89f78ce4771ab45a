-- expect: 8: outer: unknown dim 't'; did you mean 'T'?
local gs = require "gradsmith"

return gs.layer "outer_unknown" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },
  outer = { "t" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
