-- grpo: the clipped policy-gradient loss of group-relative policy optimisation, over packed tokens.
-- segment is the number of the sequence whose completion a token belongs to; -1: none (a prompt,
-- padding, a tool's answer). Log-ratios are masked before the exponential. The loss is the sum over
-- tokens divided by the step scalar `count`, 0 when that is 0:
--   by_token = 0: each sequence's mean (grpo); count is the number of sequences of the whole step
--   by_token = 1: tokens alike; count is the number of tokens of the step (dapo), or the number of
--                 sequences times the longest completion allowed (dr_grpo)
-- sequence = 1 takes one importance ratio a sequence, the geometric mean of its tokens' (GSPO).
-- Reference: TRL GRPOTrainer._compute_loss (epsilon, epsilon_high, beta with the k3 estimator,
-- loss_type, importance_sampling_level).
local gs = require "gradsmith"

local function counted(p) return gs.ge(p.segment, 0) end

-- log of the importance ratio, of each token or, with its sequence's mean, of the sequence; 0 where
-- the token counts nowhere.
local function log_ratio(p, ok, mean)
  if mean then return gs.at(mean, "S", p.segment, ok) end
  return gs.where(ok, p.logp - p.old, 0)
end

-- ratio·advantage, and the same with the ratio clipped.
local function gains(p, ok, ratio)
  local a = gs.at(p.advantage, "S", p.segment, ok)
  return ratio * a, gs.clamp(ratio, 1 - p.clip_low, 1 + p.clip_high) * a
end

-- What multiplies a token's loss.
local function share(p, ok, len)
  local w = gs.where(gs.gt(p.count, 0), 1 / p.count, 0)
  if p.by_token ~= 0 then return w end
  return w * gs.at(1 / len, "S", p.segment, ok)
end

return gs.layer "grpo" {
  doc   = "loss = Σ share·(-min(r·A, clip(r)·A) + beta·k3), r = exp(logp - old)",
  dims  = { "T", "S" },
  outer = { "T", "S" },
  logp = gs.input { "T", type = "f32", range = { -20, 0 } },
  old  = gs.input { "T", type = "f32", range = { -20, 0 }, grad = false },
  ref  = gs.input { "T", type = "f32", range = { -20, 0 }, grad = false, optional = true },
  advantage = gs.input { "S", type = "f32", grad = false },
  segment   = gs.input { "T", type = "i32", range = { 0, "S" }, also = { -1 } },
  count     = gs.step_scalar(),
  clip_low  = gs.scalar(0.2),
  clip_high = gs.scalar(0.2),
  -- weight of the divergence from `ref`, which is read when it is not 0
  beta     = gs.option { 0, also = { 0.04 } },
  by_token = gs.option { 0, values = { 0, 1 } },
  sequence = gs.option { 0, values = { 0, 1 } },
  -- 1: also the number of clipped tokens and the sum of k3
  with_metrics = gs.option { 0, values = { 0, 1 } },
  outputs = { "loss", "clipped", "kl", loss = "f32",
    clipped = { type = "f32", grad = false, optional = true },
    kl      = { type = "f32", grad = false, optional = true } },

  forward = function(p)
    local ok, out, len, mean = counted(p), {}, nil, nil
    if p.by_token == 0 or p.sequence ~= 0 then -- a sequence without tokens counts as of length 1
      len = gs.max(gs.sum_by(gs.real(ok), p.segment, "T", "S"), 1)
    end
    if p.sequence ~= 0 then mean = gs.sum_by(log_ratio(p, ok), p.segment, "T", "S") / len end
    local plain, clipped = gains(p, ok, gs.exp(log_ratio(p, ok, mean)))
    local loss = -gs.min(plain, clipped)
    if p.beta ~= 0 then
      local x = gs.where(ok, p.ref - p.logp, 0)
      local k3 = gs.expm1(x) - x
      loss = loss + p.beta * k3
      if p.with_metrics ~= 0 then out.kl = gs.sum(k3, "T") end
    end
    if p.with_metrics ~= 0 then out.clipped = gs.sum(gs.real(gs.lt(clipped, plain)), "T") end
    out.loss = gs.sum(gs.where(ok, share(p, ok, len) * loss, 0), "T")
    out.save = { len = p.by_token == 0 and len or nil, mean = mean }
    return out
  end,

  backward = function(p, d, s)
    local ok = counted(p)
    local mean = p.sequence ~= 0 and s.mean or nil
    local plain, clipped = gains(p, ok, gs.exp(log_ratio(p, ok, mean)))
    local dloss = -gs.where(gs.le(plain, clipped), plain, 0) -- d(ratio·A)/d(log ratio) is ratio·A
    if p.beta ~= 0 then dloss = dloss - p.beta * gs.expm1(gs.where(ok, p.ref - p.logp, 0)) end
    local w = share(p, ok, p.by_token == 0 and s.len or nil)
    return { logp = gs.where(ok, d.loss * w * dloss, 0) }
  end,
}
