-- expect: 10: saved 'two' is never read: backward does not use s.two; leave it out
local gs = require "gradsmith"

return gs.layer "saved_unused" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x, save = { two = 2 * p.x } }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
