-- Blocks of a row: a scale of each, and codes relative to it.
local gs = require "gradsmith"

return gs.kernel "blocks" {
  doc  = "codes [T, B, k] and scales [T, B] of blocks of D",
  dims = { "T", "D", k = "32", B = "D/32" },
  x = gs.input { "T", "D" },
  outputs = { "q", "s", "z", q = "f32", s = "f32" },

  forward = function(p)
    local x = gs.split(p.x, "D", "B", "k")
    local s = gs.max(gs.abs(x), "k")
    local q = gs.floor(gs.where(gs.gt(s, 0), x / s, 0) * 127 + 0.5)
    return { q = q, s = s, z = gs.merge(q * s, "B", "k", "D") }
  end,
}
