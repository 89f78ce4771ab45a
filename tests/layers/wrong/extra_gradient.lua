-- expect: 14: backward returns 'v', which is not an input; did you mean 'w'?
local gs = require "gradsmith"

return gs.layer "extra_gradient" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T"), v = d.y }
  end,
}
