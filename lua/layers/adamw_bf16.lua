-- adamw_bf16: AdamW over bf16 parameters without f32 masters: the new parameter is rounded up or
-- down at random, so that steps smaller than half an ulp are kept on average. The random number
-- follows from seed and place alone. Formula: torch.optim.AdamW; see adamw.lua.
local gs = require "gradsmith"
local update = require "layers.lib.adamw"

return gs.kernel "adamw_bf16" {
  doc  = "p = p·(1 - lr·decay) - lr/bc1 · m / (√v/√bc2 + eps), rounded at random to bf16",
  dims = { "N" },
  p = gs.input { "N", type = "bf16" },
  m = gs.input { "N", type = "f32" },
  v = gs.input { "N", type = "f32", range = { 0 } },
  g = gs.input { "N", type = "f32" },
  lr   = gs.step_scalar(),
  bc1  = gs.step_scalar(),
  bc2  = gs.step_scalar(),
  coef = gs.step_scalar(),
  seed = gs.step_scalar(), -- another number every step
  eps   = gs.scalar(1e-8),
  decay = gs.scalar(0),
  beta1 = gs.option(0.9),
  beta2 = gs.option(0.999),
  outputs = { "p_out", "m_out", "v_out", p_out = "bf16", m_out = "f32", v_out = "f32" },
  inplace = { p_out = "p", m_out = "m", v_out = "v" },

  forward = function(p)
    local new, m, v = update(p, p.p, p.g, p.m, p.v, p.lr, p.decay)
    local r = gs.rand(p.seed, "adamw_bf16", { "N" })
    return { p_out = gs.round(new, "bf16", { rand = r }), m_out = m, v_out = v }
  end,
}
