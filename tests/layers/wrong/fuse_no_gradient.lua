-- expect: 11: output 'n' has no gradient, so it cannot feed rmsnorm.x, which has one
local gs = require "gradsmith"

local counted = gs.layer "counted" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  outputs = { "y", "n", n = { grad = false } },
  forward = function(p) return { y = 2 * p.x, n = gs.stop(p.x) } end,
  backward = function(p, d) return { x = 2 * d.y } end,
}
return gs.fuse(counted, require "layers.rmsnorm", { x = "n" })
