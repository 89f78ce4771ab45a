-- expect: 8: inplace: 'dy' is neither an output nor a gradient
local gs = require "gradsmith"

return gs.layer "inplace_result" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },
  inplace = { dy = "x" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
