-- expect: 14: recomputed 'y' is made from s.y, whose place it is to take || 14: recomputed 'z' is not an output; did you mean 'y'? (known: y)
local gs = require "gradsmith"

return gs.layer "recomputed" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T"), recomputed = { z = p.x, y = s.y + 0 * p.x } }
  end,
}
