-- expect: 6: grad = true: what is stored as e4m3 has no gradient
local gs = require "gradsmith"

return gs.layer "gradient_of_codes" {
  dims = { "T", "H" },
  q = gs.input { "T", "H", type = "e4m3", grad = true },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x + p.q }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
