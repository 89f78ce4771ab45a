-- lion: one step of Lion with decoupled weight decay, in place over f32 masters and the momentum.
-- Reference: Chen et al. 2023 (arXiv:2302.06675), algorithm 2; the betas are options, since
-- 1 - beta must be exact. coef is the factor of gradient clipping.
local gs = require "gradsmith"

return gs.kernel "lion" {
  doc  = "p = p·(1 - lr·decay) - lr·sign(beta1·m + (1 - beta1)·g);  m = beta2·m + (1 - beta2)·g",
  dims = { "N" },
  p = gs.input { "N", type = "f32" },
  m = gs.input { "N", type = "f32" },
  g = gs.input { "N", type = "f32" },
  lr   = gs.step_scalar(),
  coef = gs.step_scalar(),
  decay = gs.scalar(0),
  beta1 = gs.option(0.9),
  beta2 = gs.option(0.99),
  -- 1: also writes p to `copy` in the layer's storage type
  with_copy = gs.option { 0, values = { 0, 1 } },
  outputs = { "p_out", "m_out", "copy", p_out = "f32", m_out = "f32" },
  inplace = { p_out = "p", m_out = "m" },

  forward = function(p)
    local g = p.coef * p.g
    local way = gs.sign(p.beta1 * p.m + (1 - p.beta1) * g)
    local new = p.p * (1 - p.lr * p.decay) - p.lr * way
    return { p_out = new, m_out = p.beta2 * p.m + (1 - p.beta2) * g,
             copy = p.with_copy ~= 0 and new or nil }
  end,
}
