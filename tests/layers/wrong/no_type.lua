-- expect: 10: only inputs and rounded values have a storage type
local gs = require "gradsmith"

return gs.layer "no_type" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = gs.round(p.w * p.x, (p.w * p.x).type) }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
