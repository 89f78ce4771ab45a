-- A router's choice: eight of E, each depending on those before it, and weights made of them.
local gs = require "gradsmith"

return gs.kernel "topk" {
  doc  = "the eight largest of a row, where they are, and their softmax",
  dims = { "T", "E", K = "8" },
  x = gs.input { "T", "E" },
  outputs = { "v", "i", "w", v = "f32", i = "i32", w = "f32" },

  forward = function(p)
    local v, i = gs.topk(p.x, "E", "K")
    local g = gs.exp(v - gs.max(v, "K"))
    return { v = v, i = i, w = g / gs.sum(g, "K") }
  end,
}
