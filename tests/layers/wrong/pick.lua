-- expect: 10: pick of index 2 along two, whose size is 2
local gs = require "gradsmith"

return gs.layer "pick" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local x2 = gs.split(p.x, "H", "two=2", "h"); local a = gs.pick(x2, "two", 2)
    return { y = p.w * p.x * gs.sum(a, "h") }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
