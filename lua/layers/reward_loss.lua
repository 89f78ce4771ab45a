-- reward_loss: Bradley-Terry loss of a reward model over P pairs of rewards. center pulls the
-- rewards of a pair towards a sum of 0.
-- Reference: TRL RewardTrainer.compute_loss (margin, center_rewards_coefficient).
local gs = require "gradsmith"

local function lead(p)
  local h = p.chosen - p.rejected
  return p.with_margin ~= 0 and h - p.margin or h
end

return gs.layer "reward_loss" {
  doc  = "loss = -log sigmoid(chosen - rejected - margin) + center·(chosen + rejected)²",
  dims = { "P" },
  chosen   = gs.input { "P", type = "f32" },
  rejected = gs.input { "P", type = "f32" },
  margin   = gs.input { "P", type = "f32", grad = false, range = { 0, 3 }, optional = true },
  with_margin = gs.option { 0, values = { 0, 1 } }, -- 1: `margin` is read
  center      = gs.option { 0, also = { 0.01 } },
  outputs = { loss = "f32" },

  forward = function(p)
    return { loss = gs.softplus(-lead(p)) + p.center * (p.chosen + p.rejected)^2 }
  end,

  backward = function(p, d)
    local pull, sum = gs.sigmoid(-lead(p)), 2 * p.center * (p.chosen + p.rejected)
    return { chosen = d.loss * (sum - pull), rejected = d.loss * (sum + pull) }
  end,
}
