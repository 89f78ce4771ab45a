-- expect: 10: p.W does not exist; did you mean 'w'? (known: w, x) || 14: d.z does not exist; did you mean 'y'? || 14: s.rstd does not exist; known: y
local gs = require "gradsmith"

return gs.layer "unknown_field" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.W * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.z * p.w, w = gs.sum(d.y * s.rstd, "T") }
  end,
}
