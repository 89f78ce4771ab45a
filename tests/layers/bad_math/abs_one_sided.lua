-- Wrong on purpose: the gradient is right at x > 0 only.
local gs = require "gradsmith"

return gs.layer "abs_one_sided" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },

  forward = function(p) return { y = gs.abs(p.x) + p.x } end,
  backward = function(p, d) return { x = 2 * d.y + 0 * p.x } end,
}
