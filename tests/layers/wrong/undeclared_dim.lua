-- expect: 10: 'y' has dim S, which dims does not declare
local gs = require "gradsmith"

return gs.layer "undeclared_dim" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = gs.rename(p.w * p.x, "T", "S") }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
