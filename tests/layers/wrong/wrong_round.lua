-- expect: 10: gs.round to 'bf61': a storage type is wanted
local gs = require "gradsmith"

return gs.layer "wrong_round" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = gs.round(p.w * p.x, "bf61") }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
