-- Square blocks: each has one scale; rows and columns of the matrix are both split.
local gs = require "gradsmith"

return gs.kernel "squares" {
  doc  = "the largest of each block of r rows and c columns, and the elements relative to it",
  dims = { "A", "R", "C", r = "4", RB = "R/4", c = "8", CB = "C/8" },
  x = gs.input { "A", "R", "C" },
  outputs = { "q", "s", q = "f32", s = "f32" },

  forward = function(p)
    local x = gs.split(gs.split(p.x, "R", "RB", "r"), "C", "CB", "c")
    local s = gs.max(gs.abs(x), { "r", "c" })
    local q = gs.where(gs.gt(s, 0), x / s, 0)
    return { q = gs.merge(gs.merge(q, "CB", "c", "C"), "RB", "r", "R"), s = s }
  end,
}
