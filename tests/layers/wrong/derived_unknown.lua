-- expect: 5: dims: the size of 'h', "D/2", names neither a dim nor an option that is known
local gs = require "gradsmith"

return gs.layer "derived_unknown" {
  dims = { "T", "H", h = "D/2" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
