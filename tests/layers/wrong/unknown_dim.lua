-- expect: 6: 'x': unknown dim 'h'; did you mean 'H'? (known: H, T) || 7: 'w': unknown dim 'C'
local gs = require "gradsmith"

return gs.layer "unknown_dim" {
  dims = { "T", "H" },
  x = gs.input { "T", "h" },
  w = gs.weight { "C" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
