-- rmsnorm: root-mean-square normalisation, in both orders of rounding in use.
-- Reference: transformers LlamaRMSNorm (gemma = 0), GemmaRMSNorm (gemma = 1).
local gs = require "gradsmith"
local norms = require "layers.lib.norms"

return gs.layer "rmsnorm" {
  doc   = "y = w·x·rstd, rstd = (mean(x²) + eps)^-1/2",
  dims  = { "T", "H" },
  x     = gs.input { "T", "H" },
  w     = gs.weight { "H" },
  eps   = gs.scalar(1e-6),
  -- 0: x·rstd is rounded, then times w; 1: times 1 + w in f32, one rounding
  gemma = gs.option { 0, values = { 0, 1 } },

  forward = function(p)
    local y, rstd = norms.rmsnorm(p, "H")
    return { y = y, save = { rstd = rstd } }
  end,

  backward = function(p, d, s)
    return {
      x = norms.rms_backward(p.x, s.rstd, d.y * (p.w + p.gemma), "H"),
      w = gs.sum(d.y * p.x * s.rstd, "T"),
    }
  end,
}
