-- expect: 15: backward returns 'eps', which has no gradient (it is a scalar)
local gs = require "gradsmith"

return gs.layer "scalar_gradient" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },
  eps = gs.scalar(1),

  forward = function(p)
    return { y = p.w * p.x * p.eps }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T"), eps = 0 }
  end,
}
