-- rope_partial: rotary position embedding of the first R = 2·h elements of a head; the others pass.
-- Reference: transformers apply_rotary_pos_emb of GPT-NeoX and of GLM (interleaved = 1); the table
-- and the arithmetic stay in f32.
local gs = require "gradsmith"
local rotary = require "layers.lib.rotary"

local function turned(p, x, sin)
  local i = gs.index "D"
  local inside = gs.lt(i, gs.size "R")
  local r = rotary.turn(gs.slice(x, "D", "R", 0), "R", p.cos, sin, p.interleaved)
  return gs.where(inside, gs.at(r, "R", i, inside), x)
end

return gs.layer "rope_partial" {
  doc  = "(a, b) -> (a·cos - b·sin, b·cos + a·sin), a and b the halves of the first R of D",
  dims = { "T", "N", "D", "h", R = "2*h", p = "D-R" }, -- p: elements that pass
  x    = gs.input { "T", "N", "D" },
  cos  = gs.input { "T", "h", type = "f32", grad = false },
  sin  = gs.input { "T", "h", type = "f32", grad = false },
  interleaved = gs.option { 0, values = { 0, 1 } },

  forward = function(p) return { y = turned(p, p.x, p.sin) } end,
  backward = function(p, d) return { x = turned(p, d.y, -p.sin) } end,
}
