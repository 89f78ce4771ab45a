-- again_wrong: what backward makes again of y lacks a square.
local gs = require "gradsmith"

return gs.layer "again_wrong" {
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },

  forward = function(p) return { y = gs.exp(p.x) * p.x^2 } end,
  backward = function(p, d)
    local e = gs.exp(p.x)
    return { x = d.y * e * (p.x^2 + 2 * p.x), recomputed = { y = e * p.x } }
  end,
}
