-- expect: 11: forward and backward make more than 50000 values: is a loop too long?
local gs = require "gradsmith"

return gs.layer "graph_bomb" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local y = p.x
    for i = 1, 10000000 do y = gs.sin(p.x + i) end
    return { y = p.w * y }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
