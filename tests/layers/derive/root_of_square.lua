-- root_of_square: 1/|s| beside s itself; what takes the root of a square must not lose the sign.
local gs = require "gradsmith"
return gs.layer "root_of_square" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" }, z = gs.input { "T", "H" },
  forward = function(p)
    local s = gs.sum(p.x, "H")
    return { y = gs.rsqrt(s * s) * (p.z - gs.where(gs.le(p.z, 0.1), s, 0)) }
  end,
  backward = gs.derived,
}
