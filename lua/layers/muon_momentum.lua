-- muon_momentum: what of Muon comes before the orthogonalisation: the momentum, and the matrix that
-- is to be made orthogonal, in the layer's storage type. Reference: torch.optim.Muon.
-- coef is the factor of gradient clipping; muon_update is what comes after.
local gs = require "gradsmith"

return gs.kernel "muon_momentum" {
  doc  = "m = m + (1 - momentum)·(g - m);  u = m, or g + momentum·(m - g)",
  dims = { "N" },
  m = gs.input { "N", type = "f32" },
  g = gs.input { "N", type = "f32" },
  coef = gs.step_scalar(),
  momentum = gs.option(0.95),
  nesterov = gs.option { 1, values = { 1, 0 } },
  outputs = { "m_out", "u", m_out = "f32" },
  inplace = { m_out = "m" },

  forward = function(p)
    local g = p.coef * p.g
    local m = p.m + (1 - p.momentum) * (g - p.m)
    return { m_out = m, u = p.nesterov ~= 0 and g + p.momentum * (m - g) or m }
  end,
}
