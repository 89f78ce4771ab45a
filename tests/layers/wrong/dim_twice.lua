-- expect: 5: dims: 'T' is there twice
local gs = require "gradsmith"

return gs.layer "dim_twice" {
  dims = { "T", "H", "T" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
