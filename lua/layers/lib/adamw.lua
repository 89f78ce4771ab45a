-- The update of AdamW with decoupled weight decay (torch.optim.AdamW, amsgrad off), for the layers
-- that differ in how parameters and moments are stored. w, g, m, v: parameter, gradient, moments as
-- numbers; p holds bc1 = 1 - beta1^t, bc2 = 1 - beta2^t, coef (the factor of clipping), eps, betas.
-- Gives the new parameter and moments.
local gs = require "gradsmith"

return function(p, w, g, m, v, lr, decay)
  g = p.coef * g
  m = m + (1 - p.beta1) * (g - m)
  v = p.beta2 * v + (1 - p.beta2) * g^2
  local step = m / (gs.sqrt(v) / gs.sqrt(p.bc2) + p.eps)
  return w * (1 - lr * decay) - lr / p.bc1 * step, m, v
end
