-- expect: 7: 'w': only the first dim of a tensor may be outer, but T is
local gs = require "gradsmith"

return gs.layer "outer_second" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H", "T" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
