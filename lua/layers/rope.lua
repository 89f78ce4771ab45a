-- rope: rotary position embedding, half-split (element i is paired with i + D/2).
-- Reference: transformers apply_rotary_pos_emb; the table and the arithmetic stay in f32.
local gs = require "gradsmith"

return gs.layer "rope" {
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
    local a, b = gs.halves(d.y, "D", "h")
    return { x = gs.from_halves(a * p.cos + b * p.sin, b * p.cos - a * p.sin, "D", "h") }
  end,
}
