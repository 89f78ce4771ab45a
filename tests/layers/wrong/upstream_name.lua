-- expect: 11: output 'y': its incoming gradient would be 'dy', which is the name of an input: use another
local gs = require "gradsmith"

return gs.layer "upstream_name" {
  dims = { "T", "H" },
  dy = gs.input { "T", "H", grad = false },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x + p.dy }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
