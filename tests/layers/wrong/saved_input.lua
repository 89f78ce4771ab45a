-- expect: 10: saved 'copy' is p.x itself: backward can read p.x
local gs = require "gradsmith"

return gs.layer "saved_input" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x, save = { copy = p.x } }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * s.copy, "T") }
  end,
}
