-- head_rmsnorm: RMSNorm of each head of the queries or keys.
-- Reference: q_norm and k_norm of transformers Qwen3Attention (gemma = 0), Gemma3Attention (1).
local gs = require "gradsmith"
local norms = require "layers.lib.norms"

return gs.layer "head_rmsnorm" {
  doc   = "y = w·x·rstd, rstd = (mean(x²) + eps)^-1/2 of a head",
  dims  = { "T", "N", "D" },
  x     = gs.input { "T", "N", "D" },
  w     = gs.weight { "D" },
  eps   = gs.scalar(1e-6),
  -- 0: x·rstd is rounded, then times w; 1: times 1 + w in f32, one rounding
  gemma = gs.option { 0, values = { 0, 1 } },

  forward = function(p)
    local y, rstd = norms.rmsnorm(p, "D")
    return { y = y, save = { rstd = rstd } }
  end,

  backward = function(p, d, s)
    return {
      x = norms.rms_backward(p.x, s.rstd, d.y * (p.w + p.gemma), "D"),
      w = gs.sum(d.y * p.x * s.rstd, { "T", "N" }),
    }
  end,
}
