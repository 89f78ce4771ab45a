-- orpo: odds-ratio preference optimisation over P pairs, from mean log-probabilities of sequences
-- (sum_logprob with mean = 1), all of them below 0. alpha weighs the likelihood of the chosen one;
-- 0 leaves it to a cross_entropy over the chosen tokens.
-- Reference: TRL ORPOTrainer.odds_ratio_loss, log_odds formed with log(1 - exp(x)) without loss.
local gs = require "gradsmith"

local function log_odds(x) return x - gs.log(-gs.expm1(x)) end

return gs.layer "orpo" {
  doc  = "loss = -alpha·chosen - beta·log sigmoid(log_odds(chosen) - log_odds(rejected))",
  dims = { "P" },
  chosen   = gs.input { "P", type = "f32", range = { -20, 0 } },
  rejected = gs.input { "P", type = "f32", range = { -20, 0 } },
  beta  = gs.scalar(0.1),
  alpha = gs.scalar(1),
  outputs = { "loss", "reward_chosen", "reward_rejected", loss = "f32",
    reward_chosen   = { type = "f32", grad = false },
    reward_rejected = { type = "f32", grad = false } },

  forward = function(p)
    local h = log_odds(p.chosen) - log_odds(p.rejected)
    return {
      loss = p.beta * gs.softplus(-h) - p.alpha * p.chosen,
      reward_chosen   = p.beta * p.chosen,
      reward_rejected = p.beta * p.rejected,
    }
  end,

  backward = function(p, d)
    local h = log_odds(p.chosen) - log_odds(p.rejected)
    local pull = p.beta * gs.sigmoid(-h)
    return {
      chosen   = d.loss * (pull / gs.expm1(p.chosen) - p.alpha),
      rejected = -d.loss * pull / gs.expm1(p.rejected),
    }
  end,
}
