-- adamw: one step of AdamW with decoupled weight decay, in place over f32 masters and moments.
-- Reference: torch.optim.AdamW (amsgrad off). bc1 = 1 - beta1^t, bc2 = 1 - beta2^t, t from 1; coef
-- is the factor of gradient clipping. The betas are options, since 1 - beta2 must be exact.
local gs = require "gradsmith"
local update = require "layers.lib.adamw"

return gs.kernel "adamw" {
  doc  = "m, v = moments of coef·g;  p = p·(1 - lr·decay) - lr/bc1 · m / (√v/√bc2 + eps)",
  dims = { "N" },
  p = gs.input { "N", type = "f32" },
  m = gs.input { "N", type = "f32" },
  v = gs.input { "N", type = "f32", range = { 0 } },
  g = gs.input { "N", type = "f32" },
  lr   = gs.step_scalar(),
  bc1  = gs.step_scalar(),
  bc2  = gs.step_scalar(),
  coef = gs.step_scalar(),
  eps   = gs.scalar(1e-8),
  decay = gs.scalar(0),
  beta1 = gs.option(0.9),
  beta2 = gs.option(0.999),
  -- 1: also writes p to `copy` in the layer's storage type
  with_copy = gs.option { 0, values = { 0, 1 } },
  outputs = { "p_out", "m_out", "v_out", "copy", p_out = "f32", m_out = "f32", v_out = "f32" },
  inplace = { p_out = "p", m_out = "m", v_out = "v" },

  forward = function(p)
    local new, m, v = update(p, p.p, p.g, p.m, p.v, p.lr, p.decay)
    return { p_out = new, m_out = m, v_out = v, copy = p.with_copy ~= 0 and new or nil }
  end,
}
