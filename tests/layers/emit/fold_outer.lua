-- Refused: a fold over an outer dim.
local gs = require "gradsmith"

return gs.kernel "fold_outer" {
  doc  = "a product over T",
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  outputs = { "y", y = "f32" },

  forward = function(p)
    local r = gs.reduce({ x = p.x }, "T", {
      init = { p = 1.0 },
      step = function(s, e) return { p = s.p * e.x } end,
      merge = function(a, b) return { p = a.p * b.p } end,
    })
    return { y = r.p }
  end,
}
