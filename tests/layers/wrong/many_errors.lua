-- expect: 6: outputs: unknown type 'f23' of 'y'; did you mean 'f32'? (known: f32, bf16, f16, e4m3, e5m2, e8m0, i64, i32, i8, u8) || 7: 'b': unknown dim 'V'; did you mean 'H'? (known: H, T) || 12: p.q does not exist; did you mean 'b'? (known: b, w, x) || 15: backward gives no gradient of 'b': return it, or declare 'b' with grad = false
local gs = require "gradsmith"

return gs.layer "many_errors" {
  dims = { "T", "H" },
  outputs = { y = "f23" },
  b = gs.input { "T", "V" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.q }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = d.y * p.x }
  end,
}
