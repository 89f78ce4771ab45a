-- dora_weight: DoRA on the side of the weights: the merged weight m·v/|v|, v = w + scale·ba, of
-- each output's row. As in peft the norm counts as a constant for the gradient; w is frozen.
local gs = require "gradsmith"

return gs.layer "dora_weight" {
  doc   = "y = m·v/|v|, v = w + scale·ba, |v| over I",
  dims  = { "O", "I" },
  w     = gs.input { "O", "I", grad = false },
  ba    = gs.input { "O", "I" },
  m     = gs.weight { "O" },
  scale = gs.scalar(1),

  forward = function(p)
    local v = p.w + p.scale * p.ba
    local norm = gs.stop(gs.sqrt(gs.sum(v^2, "I")))
    return { y = p.m / norm * v, save = { norm = norm } }
  end,

  backward = function(p, d, s)
    return {
      ba = p.scale * p.m / s.norm * d.y,
      m  = gs.sum(d.y * (p.w + p.scale * p.ba), "I") / s.norm,
    }
  end,
}
