-- expect: 6: 'n': range: unknown dim 'V'; did you mean 'H'? (known: H, T) || 7: range: no value is from 3 up to, but below, 1 || 8: gs.input has no field 'rang'; did you mean 'range'? (known: type, grad, range, also, ascending, offsets, optional) || 16: backward gives no gradient of 'm': return it, or declare 'm' with grad = false || 16: backward gives no gradient of 'o': return it, or declare 'o' with grad = false
local gs = require "gradsmith"

return gs.layer "ranges" {
  dims = { "T", "H" },
  n = gs.input { "T", type = "i32", range = { 0, "V" } },
  m = gs.input { "T", range = { 3, 1 } },
  o = gs.input { "T", also = "x", rang = 1 },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
