-- sgd: one step of gradient descent with momentum, in place over f32 masters and the momentum.
-- Reference: torch.optim.SGD. Its buffer is the gradient itself in the first step: take is 1 then,
-- and 1 - dampening afterwards. coef is the factor of gradient clipping.
local gs = require "gradsmith"

return gs.kernel "sgd" {
  doc  = "m = momentum·m + take·g;  p = p - lr·(m, or g + momentum·m), g with decay·p added",
  dims = { "N" },
  p = gs.input { "N", type = "f32" },
  m = gs.input { "N", type = "f32" },
  g = gs.input { "N", type = "f32" },
  lr   = gs.step_scalar(),
  take = gs.step_scalar(),
  coef = gs.step_scalar(),
  decay    = gs.scalar(0),
  momentum = gs.scalar(0.9),
  nesterov = gs.option { 0, values = { 0, 1 } },
  -- 1: also writes p to `copy` in the layer's storage type
  with_copy = gs.option { 0, values = { 0, 1 } },
  outputs = { "p_out", "m_out", "copy", p_out = "f32", m_out = "f32" },
  inplace = { p_out = "p", m_out = "m" },

  forward = function(p)
    local g = p.coef * p.g + p.decay * p.p
    local m = p.momentum * p.m + p.take * g
    local new = p.p - p.lr * (p.nesterov ~= 0 and g + p.momentum * m or m)
    return { p_out = new, m_out = m, copy = p.with_copy ~= 0 and new or nil }
  end,
}
