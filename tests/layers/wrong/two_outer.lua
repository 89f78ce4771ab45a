-- expect: 11: 'y' has dims [T, U]: only the first dim of a tensor may be outer, but U is
local gs = require "gradsmith"

return gs.layer "two_outer" {
  dims = { "T", "U" },
  x = gs.input { "T" },
  w = gs.weight { "U" },
  outer = { "T", "U" },

  forward = function(p)
    return { y = p.x * p.w }
  end,

  backward = function(p, d, s)
    return { x = gs.sum(d.y * p.w, "U"), w = gs.sum(d.y * p.x, "T") }
  end,
}
