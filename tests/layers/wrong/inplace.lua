-- expect: 8: inplace: 'q' is neither an input nor an incoming gradient
local gs = require "gradsmith"

return gs.layer "inplace" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },
  inplace = { dx = "q" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
