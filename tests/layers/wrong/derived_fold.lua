-- expect: 15: gs.derived: the fold (gs.reduce) of line 8 has no derivative, but a gradient goes through it: write it with sums and maxima, or put gs.stop around it
local gs = require "gradsmith"

return gs.layer "derived_fold" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  forward = function(p)
    local m = gs.reduce({ x = p.x }, "H", {
      init = { s = 0.0 },
      step = function(s, e) return { s = s.s + e.x } end,
      merge = function(a, b) return { s = a.s + b.s } end,
    })
    return { y = m.s }
  end,
  backward = gs.derived,
}
