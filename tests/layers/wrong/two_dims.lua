-- expect: 11: 'y' has dim D, which dims does not declare (its dims are [T, H, D])
local gs = require "gradsmith"

return gs.layer "two_dims" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local v = gs.rename(p.w, "H", "D")
    return { y = p.x * v }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
