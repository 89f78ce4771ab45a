-- expect: 14: recomputed 'y' has dims [T, H], but the output has [T]
local gs = require "gradsmith"

return gs.layer "recomputed_dims" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = gs.sum(p.w * p.x, "H") }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T"), recomputed = { y = p.w * p.x } }
  end,
}
