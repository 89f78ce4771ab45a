-- long_tanh: its hand form is right and needlessly long, and it saves what it could read.
local gs = require "gradsmith"

return gs.layer "long_tanh" {
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },

  forward = function(p) return { y = gs.tanh(p.x), save = { e = gs.exp(2 * p.x) } } end,
  backward = function(p, d, s) return { x = d.y * 4 * s.e / (s.e + 1)^2 } end,
}
