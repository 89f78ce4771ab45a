-- simpo: preference optimisation without a reference over P pairs, from length-normalised
-- log-probabilities (sum_logprob with mean = 1). gamma is the margin that is asked for.
-- Reference: TRL CPOTrainer, loss_type simpo: gamma here is its simpo_gamma.
local gs = require "gradsmith"

local function score(p) return p.beta * (p.chosen - p.rejected) - p.gamma end

return gs.layer "simpo" {
  doc  = "loss = -log sigmoid(beta·(chosen - rejected) - gamma)",
  dims = { "P" },
  chosen   = gs.input { "P", type = "f32", range = { -20, 0 } },
  rejected = gs.input { "P", type = "f32", range = { -20, 0 } },
  beta  = gs.scalar(2),
  gamma = gs.scalar(1),
  smoothing = gs.option { 0, also = { 0.1 } },
  outputs = { "loss", "reward_chosen", "reward_rejected", loss = "f32",
    reward_chosen   = { type = "f32", grad = false },
    reward_rejected = { type = "f32", grad = false } },

  forward = function(p)
    local z = score(p)
    local loss = (1 - p.smoothing) * gs.softplus(-z)
    if p.smoothing > 0 then loss = loss + p.smoothing * gs.softplus(z) end
    return {
      loss = loss,
      reward_chosen   = p.beta * p.chosen,
      reward_rejected = p.beta * p.rejected,
    }
  end,

  backward = function(p, d)
    local g = d.loss * p.beta * (p.smoothing - gs.sigmoid(-score(p)))
    return { chosen = g, rejected = -g }
  end,
}
