-- lora_bias: lora whose B has a trained bias. Reference: peft with lora_bias, that is
-- scale·(B(A(x)) + bias).
local gs = require "gradsmith"

return gs.layer "lora_bias" {
  doc   = "y = base + scale·(delta + bias)",
  dims  = { "T", "H" },
  base  = gs.input { "T", "H" },
  delta = gs.input { "T", "H" },
  bias  = gs.weight { "H" },
  scale = gs.scalar(1),
  inplace = { y = "base" },

  forward = function(p) return { y = p.base + p.scale * (p.delta + p.bias) } end,

  backward = function(p, d)
    return { base = d.y, delta = p.scale * d.y, bias = p.scale * gs.sum(d.y, "T") }
  end,
}
