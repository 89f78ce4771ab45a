-- dpo: direct preference optimisation over P pairs, from the log-probabilities of whole sequences
-- (of sum_logprob; for ipo its mean) under the policy and under the reference.
-- Reference: TRL DPOTrainer.dpo_loss, loss_type sigmoid (with label_smoothing: cDPO), hinge, ipo.
-- The losses are per pair: mean_loss makes one of them.
local gs = require "gradsmith"

-- How much more the policy prefers the chosen one than the reference does.
local function preference(p)
  return p.chosen - p.rejected - (p.ref_chosen - p.ref_rejected)
end

local function log_prob() return gs.input { "P", type = "f32", range = { -20, 0 } } end
local function ref_log_prob()
  return gs.input { "P", type = "f32", range = { -20, 0 }, grad = false }
end

return gs.layer "dpo" {
  doc  = "loss = -log sigmoid(beta·h), h = (chosen - rejected) - (ref_chosen - ref_rejected)",
  dims = { "P" },
  chosen       = log_prob(),
  rejected     = log_prob(),
  ref_chosen   = ref_log_prob(),
  ref_rejected = ref_log_prob(),
  beta      = gs.scalar(0.1),
  loss_type = gs.option { 0, values = { 0, 1, 2 } }, -- 0: sigmoid; 1: hinge; 2: ipo
  -- of sigmoid: the probability that a pair is the wrong way round
  smoothing = gs.option { 0, also = { 0.1 } },
  outputs = { "loss", "reward_chosen", "reward_rejected", loss = "f32",
    reward_chosen   = { type = "f32", grad = false },
    reward_rejected = { type = "f32", grad = false } },

  forward = function(p)
    local h, loss = preference(p), nil
    if p.loss_type == 0 then
      loss = (1 - p.smoothing) * gs.softplus(-p.beta * h)
      if p.smoothing > 0 then loss = loss + p.smoothing * gs.softplus(p.beta * h) end
    elseif p.loss_type == 1 then
      loss = gs.max(1 - p.beta * h, 0)
    else
      loss = (h - 0.5 / p.beta)^2
    end
    return {
      loss = loss,
      reward_chosen   = p.beta * (p.chosen - p.ref_chosen),
      reward_rejected = p.beta * (p.rejected - p.ref_rejected),
    }
  end,

  backward = function(p, d)
    local h, dh = preference(p), nil
    if p.loss_type == 0 then
      dh = -p.beta * (1 - p.smoothing) * gs.sigmoid(-p.beta * h)
      if p.smoothing > 0 then dh = dh + p.beta * p.smoothing * gs.sigmoid(p.beta * h) end
    elseif p.loss_type == 1 then
      dh = gs.where(gs.lt(p.beta * h, 1), -p.beta, 0)
    else
      dh = 2 * (h - 0.5 / p.beta)
    end
    return { chosen = d.loss * dh, rejected = -d.loss * dh }
  end,
}
