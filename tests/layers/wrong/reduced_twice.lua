-- expect: 10: gs.mean over H: the value has dims [T]
local gs = require "gradsmith"

return gs.layer "reduced_twice" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * gs.mean(gs.sum(p.x, "H"), "H") }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
