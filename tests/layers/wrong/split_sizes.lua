-- expect: 10: split of H (6) as a (4) times b (5): the sizes must multiply to 6
local gs = require "gradsmith"

return gs.layer "split_sizes" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local x = gs.split(p.x, "H", "a=4", "b=5")
    return { y = p.w * p.x + gs.sum(x, { "a", "b" }) }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
