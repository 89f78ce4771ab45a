-- expect: 9: output 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn': not a name that a tensor can have || 11: gs.sum: unknown dim 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn'
local gs = require "gradsmith"

return gs.layer "long_name" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local n = string.rep("n", 1000000)
    return { [n] = p.w * p.x, y = gs.sum(p.x, n) + p[n] }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
