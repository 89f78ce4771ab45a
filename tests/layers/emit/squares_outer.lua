-- Square blocks of a matrix whose rows are an outer dim: each has one scale.
local gs = require "gradsmith"

return gs.kernel "squares_outer" {
  doc  = "the largest of each block of r rows and c columns, and the elements relative to it",
  dims = { "T", "C", R = "ceil(T/16)", r = "16", CB = "C/8", c = "8" },
  x = gs.input { "T", "C" },
  outputs = { "q", "s", q = "f32", s = "f32" },

  forward = function(p)
    local x = gs.split(gs.split(p.x, "T", "R", "r=16", { tail = "mask" }), "C", "CB", "c")
    local s = gs.max(gs.abs(x), { "r", "c" })
    local q = gs.where(gs.gt(s, 0), x / s, 0)
    return { q = gs.merge(gs.merge(q, "CB", "c", "C"), "R", "r", "T"), s = s }
  end,
}
