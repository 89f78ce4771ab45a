-- lora: adds a low-rank update, already multiplied out, to a projection's result. The two may be
-- stored in different types; the sum is formed in f32 and rounded once. Reference: peft LoraLayer:
-- scale = alpha/r, or alpha/√r (rsLoRA); its dropout, the layer `dropout`, is of what A multiplies.
local gs = require "gradsmith"

return gs.layer "lora" {
  doc   = "y = base + scale·delta",
  dims  = { "T", "H" },
  base  = gs.input { "T", "H" },
  delta = gs.input { "T", "H" },
  scale = gs.scalar(1),
  inplace = { y = "base" },

  forward = function(p) return { y = p.base + p.scale * p.delta } end,
  backward = function(p, d) return { base = d.y, delta = p.scale * d.y } end,
}
