-- rope: rotary position embedding of all elements of a head: element i paired with i + D/2, or with
-- its neighbour (interleaved = 1). Reference: transformers apply_rotary_pos_emb of Llama and of
-- GLM; the table and the arithmetic stay in f32.
local gs = require "gradsmith"
local rotary = require "layers.lib.rotary"

return gs.layer "rope" {
  doc  = "(a, b) -> (a·cos - b·sin, b·cos + a·sin), a and b the halves of D",
  dims = { "T", "N", "D", h = "D/2" },
  x    = gs.input { "T", "N", "D" },
  cos  = gs.input { "T", "h", type = "f32", grad = false },
  sin  = gs.input { "T", "h", type = "f32", grad = false },
  interleaved = gs.option { 0, values = { 0, 1 } },

  forward = function(p) return { y = rotary.turn(p.x, "D", p.cos, p.sin, p.interleaved) } end,

  backward = function(p, d) -- the rotation by the negative angle
    return { x = rotary.turn(d.y, "D", p.cos, -p.sin, p.interleaved) }
  end,
}
