-- expect: 10: rename of H to T: their sizes are not known to be the same
local gs = require "gradsmith"

return gs.layer "rename" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x + gs.sum(gs.rename(p.w, "H", "T"), "T") }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
