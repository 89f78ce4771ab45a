local gs = require "gradsmith"
return gs.layer "a" {
  dims = { "T", "H", h = "H/2" }, x = gs.input { "T", "H" }, a = gs.weight { "h" },
  forward = function(p)
    local u, v = gs.halves(p.x, "H", "h")
    return { y = p.a * gs.tanh(u) * gs.where(gs.gt(v, 0), v, 0) }
  end,
  backward = gs.derived,
}
