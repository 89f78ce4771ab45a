-- Wrong on purpose: ddelta lacks the scale.
local gs = require "gradsmith"

return gs.layer "lora_no_scale" {
  doc   = "y = base + scale·delta",
  dims  = { "T", "H" },
  base  = gs.input { "T", "H" },
  delta = gs.input { "T", "H" },
  scale = gs.scalar(2),
  inplace = { y = "base" },

  forward = function(p) return { y = p.base + p.scale * p.delta } end,
  backward = function(p, d) return { base = d.y, delta = d.y } end,
}
