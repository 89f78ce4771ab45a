-- expect: 10: gs.sum over 'T' twice
local gs = require "gradsmith"

return gs.layer "summed_twice" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * gs.sum(p.x, { "T", "T" }) }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
