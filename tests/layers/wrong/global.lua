-- expect: 10: 'n' is not a local: write local n = ...
local gs = require "gradsmith"

return gs.layer "global" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    n = p.w * p.x; return { y = n }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
