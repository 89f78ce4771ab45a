-- expect: 14: the gradient of 'w' has dims [T, H], but 'w' has [H]: sum it over [T] with gs.sum
local gs = require "gradsmith"

return gs.layer "gradient_dims" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = d.y * p.x }
  end,
}
