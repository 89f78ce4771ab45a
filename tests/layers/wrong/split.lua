-- expect: 10: split of H (6) as three (4) times h (6)
local gs = require "gradsmith"

return gs.layer "split" {
  dims = { "T", "H", h = "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * gs.sum(gs.split(p.x, "H", "three=4", "h"), "all") }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
