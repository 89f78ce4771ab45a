-- expect: 13: backward does not use d.z
local gs = require "gradsmith"

return gs.layer "unread_upstream" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x, z = p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
