-- expect: 6: gs.option: the default, 2, is none of its values
local gs = require "gradsmith"

return gs.layer "option_values" {
  dims = { "T", "H" },
  mode = gs.option { 2, values = { 0, 1 } },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x * p.mode }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
