-- expect: 4: 'bacward' is not a field of a layer; did you mean 'backward'? || 4: 'inplce' is not a field of a layer; did you mean 'inplace'?
local gs = require "gradsmith"

return gs.layer "unknown_setting" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },
  inplce = { dx = "x" }, bacward = 1,

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
