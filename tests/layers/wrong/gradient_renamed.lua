-- expect: 15: the gradient of 'w' has dims [K], but 'w' has [H]; did you mean dim H? gs.rename(e, "K", "H")
local gs = require "gradsmith"

return gs.layer "gradient_renamed" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    local g = gs.rename(d.y * p.x, "H", "K")
    return { x = d.y * p.w, w = gs.sum(g, "T") }
  end,
}
