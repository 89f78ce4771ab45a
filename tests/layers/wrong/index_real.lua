-- expect: 10: the index of at is a real number, but it must be an integer
local gs = require "gradsmith"

return gs.layer "index_real" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * gs.at(p.x, "H", 0.5) }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
