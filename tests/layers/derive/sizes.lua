-- sizes: sizes of dims, which are numbers of the graph, stand in the derived text as sizes.
local gs = require "gradsmith"

return gs.layer "sizes" {
  dims = { "T", "H", "D", half = "D/2" },
  x    = gs.input { "T", "H", "D" },
  w    = gs.weight { "D" },

  forward = function(p)
    local a, b = gs.halves(p.x, "D", "half")
    local m = gs.mean(gs.exp(p.x) * p.w, { "H", "D" })
    local second = 0.25 * b - gs.size "H" * a
    return { y = gs.from_halves(a * b / gs.size "H", second, "D", "half"), m = m }
  end,

  backward = gs.derived,
}
