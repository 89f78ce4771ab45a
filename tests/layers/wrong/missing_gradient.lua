-- expect: 13: backward gives no gradient of 'w'
local gs = require "gradsmith"

return gs.layer "missing_gradient" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w }
  end,
}
