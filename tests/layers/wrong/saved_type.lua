-- expect: 10: unknown type 'bf61' of saved 'm'; did you mean 'bf16'? (known: f32, bf16, f16, e4m3, e5m2, e8m0, i64, i32, i8, u8)
local gs = require "gradsmith"

return gs.layer "saved_type" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x, save = { m = { p.x, "bf61" } } }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w * s.m, w = gs.sum(d.y * p.x, "T") }
  end,
}
