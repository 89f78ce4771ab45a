-- expect: 6: unknown type 'bf61'; did you mean 'bf16'? || 8: outputs: unknown type 'f23' of 'y'; did you mean 'f32'?
local gs = require "gradsmith"

return gs.layer "wrong_type" {
  dims = { "T", "H" },
  x = gs.input { "T", "H", type = "bf61" },
  w = gs.weight { "H" },
  outputs = { y = "f23" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
