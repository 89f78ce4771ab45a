-- expect: 10: 'y' is a truth value, which cannot be stored
local gs = require "gradsmith"

return gs.layer "truth_stored" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = gs.lt(p.w * p.x, 0) }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
