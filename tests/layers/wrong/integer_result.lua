-- expect: 11: 'n' is a real number, but its storage type is u8: use gs.integer or gs.bucket
local gs = require "gradsmith"

return gs.layer "integer_result" {
  dims = { "T", "H" },
  outputs = { n = "u8" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x, n = p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
