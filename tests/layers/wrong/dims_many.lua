-- expect: 7: dims: a layer may declare at most 24
local gs = require "gradsmith"

local dims = {}
for i = 1, 1000 do dims[i] = "D" .. i end
return gs.kernel "dims_many" {
  dims = dims,
  x = gs.input { "D1", "D2" },
  forward = function(p) return { y = 2 * p.x } end,
}
