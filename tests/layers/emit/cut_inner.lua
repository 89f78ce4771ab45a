-- Reductions over different inner dims, which no one row holds.
local gs = require "gradsmith"

return gs.kernel "cut_inner" {
  doc  = "sums over D, a maximum over K, and sums of these over T",
  dims = { "T", "K", "D" },
  x = gs.input { "T", "K", "D" },
  w = gs.input { "K", "D" },
  outputs = { "y", "a", "b", "dw", "dk", a = "f32", b = "f32", dw = "f32", dk = "f32" },

  forward = function(p)
    local a = gs.sum(p.x * p.w, "D")
    local b = gs.max(p.x, "K")
    local n = p.x * gs.rsqrt(gs.mean(p.x^2, "D") + 1)
    return { y = n * a + b, a = a, b = b, dw = gs.sum(n * p.x, { "T", "K" }), dk = gs.sum(a, "T") }
  end,
}
