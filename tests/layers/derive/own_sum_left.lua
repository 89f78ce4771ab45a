-- own_sum_left: such a gradient cannot be made by the compiler.
local gs = require "gradsmith"

return gs.layer "own_sum_left" {
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },

  forward = function(p)
    local sum = gs.reduce({ x = p.x }, "H", {
      init = { q = 0.0 },
      step = function(s, e) return { q = s.q + e.x^2 } end,
      merge = function(a, b) return { q = a.q + b.q } end,
    })
    return { y = p.x * sum.q }
  end,

  backward = gs.derived,
}
