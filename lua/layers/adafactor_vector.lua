-- adafactor_vector: one step of Adafactor over a vector, whose second moment is kept whole.
-- Reference: torch.optim.Adafactor; see adafactor.lua for the scalars.
local gs = require "gradsmith"

return gs.kernel "adafactor_vector" {
  doc  = "p = p·(1 - lr·decay) - rate·max(eps2, rms(p))·u/max(1, rms(u)/d), u = g/√v",
  dims = { "N" },
  p = gs.input { "N", type = "f32" },
  g = gs.input { "N", type = "f32" },
  v = gs.input { "N", type = "f32", range = { 0 } },
  lr   = gs.step_scalar(),
  rate = gs.step_scalar(),
  mix  = gs.step_scalar(),
  coef = gs.step_scalar(),
  decay = gs.scalar(0),
  eps1  = gs.scalar(1.1920928955078125e-7), -- the ulp of 1, as in the reference
  eps2  = gs.scalar(1e-3),
  d     = gs.scalar(1),
  outputs = { "p_out", "v_out", p_out = "f32", v_out = "f32" },
  inplace = { p_out = "p", v_out = "v" },

  forward = function(p)
    local g = p.coef * p.g
    local v = p.v + p.mix * (g^2 - p.v)
    local u = g * gs.rsqrt(gs.max(v, p.eps1 * p.eps1))
    local size = p.rate * gs.max(p.eps2, gs.sqrt(gs.mean(p.p^2, "all")))
    local clip = gs.max(1, gs.sqrt(gs.mean(u^2, "all")) / p.d)
    return { p_out = p.p * (1 - p.lr * p.decay) - size / clip * u, v_out = v }
  end,
}
