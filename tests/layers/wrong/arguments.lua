-- expect: 10: gs.exp takes 1 argument, not 2 || 14: argument 2 of gs.lt is missing; a value or a number is wanted
local gs = require "gradsmith"

return gs.layer "arguments" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * gs.exp(p.x, "H") }
  end,

  backward = function(p, d, s)
    return { x = d.y * gs.real(gs.lt(p.w)), w = gs.sum(d.y * p.x, "T") }
  end,
}
