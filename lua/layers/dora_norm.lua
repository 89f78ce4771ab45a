-- dora_norm: the norms of the rows of a weight with its low-rank update (already multiplied out),
-- one for each output. No gradient goes through them. Reference: peft DoraLinearLayer.
local gs = require "gradsmith"

return gs.kernel "dora_norm" {
  doc   = "norm = √(sum over I of (w + scale·ba)²)",
  dims  = { "O", "I" },
  w     = gs.input { "O", "I" },
  ba    = gs.input { "O", "I" },
  scale = gs.scalar(1),
  outputs = { norm = "f32" },

  forward = function(p) return { norm = gs.sqrt(gs.sum((p.w + p.scale * p.ba)^2, "I")) } end,
}
