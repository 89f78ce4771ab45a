-- expect: 6: 'x': unknown dim 'K' || 7: 'w': unknown dim 'D' || 8: unknown type 'f8'
local gs = require "gradsmith"

return gs.layer "several" {
  dims = { "T", "H" },
  x = gs.input { "T", "K" },
  w = gs.weight { "D" },
  b = gs.input { "T", type = "f8" },
  forward = function(p) return { y = p.x } end,
  backward = function(p, d) return { x = d.y } end,
}
