-- Tiles of a matrix whose rows are many: a scale of each, and FP8 relative to it.
local gs = require "gradsmith"

return gs.kernel "tiles" {
  doc  = "w in FP8 relative to the largest absolute value of each tile of 16 by 8",
  dims = { "R", "C", RB = "ceil(R/16)", CB = "ceil(C/8)" },
  w = gs.input { "R", "C" },
  outputs = { q = "e4m3", s = "f32" },

  forward = function(p)
    local w = gs.split(gs.split(p.w, "R", "RB", "r=16", { tail = "mask" }), "C", "CB", "c=8",
                       { tail = "mask" })
    local s = gs.max(gs.abs(w), { "r", "c" }) / 448
    local q = gs.where(gs.gt(s, 0), w / s, 0)
    return { q = gs.merge(gs.merge(q, "CB", "c", "C"), "RB", "r", "R"), s = s }
  end,
}
