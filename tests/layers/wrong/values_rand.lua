-- expect: 10: gs.rand wants a seed, the name of its site and a list of dims || 11: gs.rand: unknown dim 'h'; did you mean 'H'? || 12: gs.rand over 'T' twice || 13: argument 4 of gs.rand may be { offset = ... } only
local gs = require "gradsmith"

return gs.kernel "values_rand" {
  doc  = "wrong",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },

  forward = function(p)
    local a = gs.rand(1, { "T" })
    local b = gs.rand(1, "a", { "T", "h" })
    local c = gs.rand(1, "a", { "T", "T" })
    return { y = p.x * gs.rand(1, "a", { "T", "H" }, { ofset = 3 }) + a + b + c }
  end,
}
