-- best_two: the two largest along E, which has another name in the whole.
local gs = require "gradsmith"

local scaled = gs.layer "scaled" {
  dims = { "T", "H" },
  z = gs.input { "T", "H" },
  w = gs.weight { "H" },
  outputs = { y = "f32" },
  forward = function(p) return { y = gs.tanh(p.z) * p.w } end,
  backward = gs.derived,
}

local best = gs.layer "best" {
  dims = { "T", "E", K = 2 },
  x = gs.input { "T", "E" },
  outputs = { v = "f32" },
  forward = function(p)
    local v = gs.topk(p.x, "E", "K")
    return { v = v }
  end,
  backward = gs.derived,
}

return gs.fuse(scaled, best, { x = "y", E = "H", K = "J" })
