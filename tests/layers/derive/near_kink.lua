-- near_kink: a maximum whose arguments a test draws as near each other as it likes.
local gs = require "gradsmith"

return gs.layer "near_kink" {
  dims = { "T" },
  x = gs.input { "T", type = "f32" },
  r = gs.input { "T", type = "f32", grad = false },
  outputs = { y = "f32" },
  forward = function(p) return { y = gs.max(p.x, p.r) + gs.sin(p.x) } end,
  backward = gs.derived,
}
