-- kto: Kahneman-Tversky optimisation over P single answers, each desirable (1) or not (0), from
-- log-probabilities of sequences under policy and reference. The baseline kl comes from answers
-- paired with other prompts (kl_policy, kl_reference) and takes no gradient.
-- Reference: TRL KTOTrainer.kto_loss.
local gs = require "gradsmith"

local function terms(p, kl)
  local good = gs.ne(p.desirable, 0)
  local sign = gs.where(good, 1, -1)
  local weight = gs.where(good, p.weight_desirable, p.weight_undesirable)
  return sign * p.beta * (p.policy - p.reference - kl), sign, weight
end

return gs.layer "kto" {
  doc  = "loss = weight·(1 - sigmoid(±beta·(policy - reference - kl)))",
  dims = { "P" },
  policy       = gs.input { "P", type = "f32", range = { -20, 0 } },
  reference    = gs.input { "P", type = "f32", range = { -20, 0 }, grad = false },
  kl_policy    = gs.input { "P", type = "f32", range = { -20, 0 }, grad = false },
  kl_reference = gs.input { "P", type = "f32", range = { -20, 0 }, grad = false },
  desirable    = gs.input { "P", type = "u8", range = { 0, 2 } },
  beta = gs.scalar(0.1),
  weight_desirable   = gs.scalar(1),
  weight_undesirable = gs.scalar(1),
  outputs = { "loss", "reward", "kl", loss = "f32",
    reward = { type = "f32", grad = false }, kl = { type = "f32", grad = false } },

  forward = function(p)
    local kl = gs.stop(gs.max(gs.mean(p.kl_policy - p.kl_reference, "P"), 0))
    local z, _, weight = terms(p, kl)
    return {
      loss   = weight * gs.sigmoid(-z),
      reward = p.beta * (p.policy - p.reference),
      kl     = kl,
    }
  end,

  backward = function(p, d, s)
    local z, sign, weight = terms(p, s.kl)
    local q = gs.sigmoid(-z)
    return { policy = -d.loss * weight * sign * p.beta * q * (1 - q) }
  end,
}
