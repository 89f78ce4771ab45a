-- expect: 10: the right side of * is nil; a value or a number is wanted
local gs = require "gradsmith"

return gs.layer "nil_operand" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local b; return { y = p.w * p.x * b }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
