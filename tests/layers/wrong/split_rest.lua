-- expect: 10: gs.split of the outer dim 'T' may leave a rest: write { tail = "mask" } as its fifth argument, and what lies past the end reads as 0
local gs = require "gradsmith"

return gs.layer "split_rest" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local x = gs.split(p.x, "T", "B", "k=4")
    return { y = p.w * gs.sum(p.x, "H") + 0 * gs.sum(x, "all") }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
