-- Wrong on purpose: backward pairs neighbours where forward pairs halves.
local gs = require "gradsmith"

return gs.layer "rope_interleaved" {
  doc  = "(a, b) -> (a·cos - b·sin, b·cos + a·sin), a and b the halves of D",
  dims = { "T", "N", "D", h = "D/2" },
  x    = gs.input { "T", "N", "D" },
  cos  = gs.input { "T", "h", type = "f32", grad = false },
  sin  = gs.input { "T", "h", type = "f32", grad = false },

  forward = function(p)
    local a, b = gs.halves(p.x, "D", "h")
    return { y = gs.from_halves(a * p.cos - b * p.sin, b * p.cos + a * p.sin, "D", "h") }
  end,

  backward = function(p, d) -- the rotation by the negative angle
    local a, b = gs.pairs(d.y, "D", "h")
    return { x = gs.from_pairs(a * p.cos + b * p.sin, b * p.cos - a * p.sin, "D", "h") }
  end,
}
