-- expect: 10: argument 1 of where is a real number, but it must be a truth value
local gs = require "gradsmith"

return gs.layer "condition" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = gs.where(p.w, p.x, 0) }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
