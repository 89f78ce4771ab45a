-- expect: 10: gs.split of the outer dim 'T' may leave a rest || 11: gs.split of H (6) by 4 leaves a rest of 2 || 12: argument 5 of gs.split may be { tail = "mask" } only
local gs = require "gradsmith"

return gs.kernel "values_tail" {
  doc  = "wrong",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },

  forward = function(p)
    local a = gs.sum(gs.split(p.x, "T", "B", "k=4"), "k")
    local b = gs.sum(gs.split(p.x, "H", "b", "k=4"), "k")
    local c = gs.sum(gs.split(p.x, "H", "b", "k=4", { tail = "cut" }), "k")
    return { y = p.x + gs.sum(a, "B") + gs.sum(b, "b") + gs.sum(c, "b") }
  end,
}
