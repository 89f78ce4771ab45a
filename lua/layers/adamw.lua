-- adamw: one step of AdamW with decoupled weight decay, in place over f32 masters and moments.
-- Reference: torch.optim.AdamW (amsgrad off). bc1 = 1 - beta1^t, bc2 = 1 - beta2^t, t from 1; coef
-- is the factor of gradient clipping. The betas are options, since 1 - beta2 must be exact.
local gs = require "gradsmith"

return gs.kernel "adamw" {
  doc  = "m, v = moments of coef·g;  p = p·(1 - lr·decay) - lr/bc1 · m / (√v/√bc2 + eps)",
  dims = { "N" },
  p = gs.input { "N", type = "f32" },
  m = gs.input { "N", type = "f32" },
  v = gs.input { "N", type = "f32", nonnegative = true },
  g = gs.input { "N", type = "f32" },
  lr   = gs.step_scalar(),
  bc1  = gs.step_scalar(),
  bc2  = gs.step_scalar(),
  coef = gs.step_scalar(),
  eps   = gs.scalar(1e-8),
  decay = gs.scalar(0),
  beta1 = gs.option(0.9),
  beta2 = gs.option(0.999),
  with_copy = gs.option(0), -- 1: also writes p to `copy` in the layer's storage type
  outputs = { "p_out", "m_out", "v_out", "copy", p_out = "f32", m_out = "f32", v_out = "f32" },
  inplace = { p_out = "p", m_out = "m", v_out = "v" },

  forward = function(p)
    local g = p.coef * p.g
    local m = p.m + (1 - p.beta1) * (g - p.m)
    local v = p.beta2 * p.v + (1 - p.beta2) * g^2
    local step = m / (gs.sqrt(v) / gs.sqrt(p.bc2) + p.eps)
    local new = p.p * (1 - p.lr * p.decay) - p.lr / p.bc1 * step
    return { p_out = new, m_out = m, v_out = v, copy = p.with_copy ~= 0 and new or nil }
  end,
}
