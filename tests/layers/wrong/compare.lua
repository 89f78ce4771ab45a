-- expect: 10: Lua's < and <= cannot compare values: use gs.lt
local gs = require "gradsmith"

return gs.layer "compare" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * (p.x < 0 and p.x or 2 * p.x) }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
