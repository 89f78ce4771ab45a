-- AdamW whose parameters, gradients and moments all lie in the layer's storage type, as
-- torch.optim.AdamW has them for a model in bf16; the arithmetic is in f32. See lib/adamw.lua.
--   layer(name, random)   random: the new parameter is rounded up or down at random, so that steps
--                         smaller than half an ulp are kept on average
local gs = require "gradsmith"
local update = require "layers.lib.adamw"

return function(name, random)
  return gs.kernel(name) {
    doc  = "m, v = moments of coef·g;  p = p·(1 - lr·decay) - lr/bc1 · m / (√v/√bc2 + eps)"
      .. (random and ", rounded at random" or ""),
    dims = { "N" },
    p = gs.input { "N", type = random and "bf16" or nil },
    m = gs.input { "N" },
    v = gs.input { "N", range = { 0 } },
    g = gs.input { "N" },
    lr   = gs.step_scalar(),
    bc1  = gs.step_scalar(),
    bc2  = gs.step_scalar(),
    coef = gs.step_scalar(),
    seed = random and gs.step_scalar() or nil, -- another number every step
    eps   = gs.scalar(1e-8),
    decay = gs.scalar(0),
    beta1 = gs.option(0.9),
    beta2 = gs.option(0.999),
    outputs = { "p_out", "m_out", "v_out", p_out = random and "bf16" or nil },
    inplace = { p_out = "p", m_out = "m", v_out = "v" },

    forward = function(p)
      local new, m, v = update(p, p.p, p.g, p.m, p.v, p.lr, p.decay)
      if random then
        new = gs.round(new, p.p.type, { rand = gs.rand(p.seed, name, { "N" }) })
      end
      return { p_out = new, m_out = m, v_out = v }
    end,
  }
end
