-- expect: 5: dims is missing
local gs = require "gradsmith"

return gs.layer "no_dims" {
  dims = {},
  x = gs.input {},
  w = gs.weight {},

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
