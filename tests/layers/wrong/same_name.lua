-- expect: 10: output 'x' has the name of an input: use another
local gs = require "gradsmith"

return gs.layer "same_name" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { x = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.x * p.w, w = gs.sum(d.x * p.x, "T") }
  end,
}
