-- expect: 11: attempt to index a nil value (local 't') || 15: p.q does not exist; did you mean 'w'? (known: w, x)
local gs = require "gradsmith"

return gs.layer "broken_forward" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local t
    return { y = t.x * p.w }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.q, "TT") }
  end,
}
