-- expect: 8: 'b' is not used: no output and no gradient depends on it
local gs = require "gradsmith"

return gs.layer "unused_input" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },
  b = gs.input { "T", "H", grad = false },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
