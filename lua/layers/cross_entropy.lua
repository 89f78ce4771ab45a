-- cross_entropy: the loss of each token, or their sum or mean, f32; a token with the ignored label
-- counts nowhere. Every feature is an option and costs nothing when off. With
-- z = softcap·tanh(scale·logits/softcap), or scale·logits, it is
--   (1-smoothing)·w[label]·(lse - z[label]) + smoothing/V·Σ_v w[v]·(lse - z[v]) + z_loss·lse²
-- lse - z[label] is formed as logsumexp(z - z[label]), so that a small loss is not the difference
-- of two large numbers. The gradient is formed in f32, (p - 1)·upstream, and rounded once. The mean
-- divides by the step scalar `count`, the number of labels of the whole step (with class weights
-- the sum of the weights at them), so that microbatches of unequal numbers of labels add up; where
-- it is 0 the mean is 0.
-- Reference: torch.nn.functional.cross_entropy(weight, ignore_index, reduction, label_smoothing);
-- softcap as transformers Gemma2ForCausalLM; z_loss (not weighted by class) as Liger.
local gs = require "gradsmith"

-- e where a column is a class, else `other`.
local function of_class(p, e, other)
  if p.padding == 0 then return e end
  return gs.where(gs.lt(gs.index "V", gs.size "V" - p.padding), e, other)
end

-- z, and whether the token counts.
local function scores(p)
  local u = p.scale * p.logits
  local z = p.softcap > 0 and p.softcap * gs.tanh(u / p.softcap) or u
  return of_class(p, z, -math.huge), gs.ne(p.label, p.ignore)
end

-- The factors of the label's term and of each class's term, the sum of the latter, and the one of
-- the label's class.
local function factors(p, ok)
  local hit, class = 1 - p.smoothing, p.smoothing / (gs.size "V" - p.padding)
  if p.weighted == 0 then return hit, class, p.smoothing, class end
  local own = gs.at(p.weight, "V", p.label, ok)
  return hit * own, class * p.weight, class * gs.sum(of_class(p, p.weight, 0), "V"), class * own
end

local function reduced(p, e)
  if p.reduction == 0 then return e end
  if p.reduction == 1 then return gs.sum(e, "T") end
  return gs.where(gs.gt(p.count, 0), gs.sum(e, "T") / p.count, 0)
end

return gs.layer "cross_entropy" {
  doc    = "loss = logsumexp(z) - z[label], z = softcap(scale·logits)",
  dims   = { "T", "V" },
  logits = gs.input { "T", "V" },
  label  = gs.input { "T", type = "i32", range = { 0, "V" }, also = { -100 } },
  weight = gs.input { "V", type = "f32", grad = false, range = { 0, 2 }, optional = true },
  count  = gs.step_scalar { optional = true }, -- read by the mean only
  ignore    = gs.option(-100),
  padding   = gs.option(0), -- so many columns at the end are no classes: rows of a round length
  scale     = gs.option { 1, also = { 0.5 } },
  softcap   = gs.option { 0, also = { 30 } },
  smoothing = gs.option { 0, also = { 0.1 } },
  z_loss    = gs.option { 0, also = { 0.01 } },
  weighted  = gs.option { 0, values = { 0, 1 } }, -- 1: `weight` is read
  -- 0: a loss per token; 1: their sum; 2: their sum over count
  reduction = gs.option { 0, values = { 0, 1, 2 } },
  -- 1: also whether the highest logit is the label's
  with_accuracy = gs.option { 0, values = { 0, 1 } },
  with_entropy  = gs.option { 0, values = { 0, 1 } }, -- 1: also the entropy of softmax(z)
  outputs = { "loss", "accuracy", "entropy", loss = "f32",
    accuracy = { type = "f32", grad = false, optional = true },
    entropy  = { type = "f32", grad = false, optional = true } },
  inplace = { dlogits = "logits" },

  forward = function(p)
    local z, ok = scores(p)
    local hit, class, all = factors(p, ok)
    local own = gs.at(z, "V", p.label, ok)
    local nll = gs.logsumexp(z - own, "V")
    local loss = hit * nll
    if p.smoothing > 0 then
      loss = loss + all * nll - gs.sum(of_class(p, class * (z - own), 0), "V")
    end
    if p.z_loss > 0 then loss = loss + p.z_loss * (nll + own)^2 end
    local out = { loss = reduced(p, gs.where(ok, loss, 0)), save = { own = own, nll = nll } }
    if p.with_accuracy ~= 0 then
      local right = gs.eq(gs.argmax(z, "V"), p.label)
      out.accuracy = reduced(p, gs.real(gs.and_(ok, right)))
    end
    if p.with_entropy ~= 0 then
      local logp = z - own - nll
      local prob = gs.exp(logp) -- 0 where z is -inf: such a class adds nothing
      local entropy = gs.sum(gs.where(gs.gt(prob, 0), -prob * logp, 0), "V")
      out.entropy = reduced(p, gs.where(ok, entropy, 0))
    end
    return out
  end,

  -- z is own at the label: its gradient is a number of the row, and loses nothing to a difference
  -- of z and own there.
  backward = function(p, d, s)
    local z, ok = scores(p)
    local hit, class, all, own_class = factors(p, ok)
    local pull = hit + all + 2 * p.z_loss * (s.nll + s.own)
    local up = d.loss
    if p.reduction == 2 then up = gs.where(gs.gt(p.count, 0), up / p.count, 0) end
    local function slope(u)
      return p.softcap > 0 and p.scale * (1 - (u / p.softcap)^2) or p.scale
    end
    local there = up * slope(s.own) * (gs.exp(-s.nll) * pull - hit - own_class)
    local elsewhere = up * slope(z) * (gs.exp(z - s.own - s.nll) * pull - class)
    local dz = gs.where(gs.eq(gs.index "V", p.label), there, elsewhere)
    return { logits = gs.where(ok, of_class(p, dz, 0), 0) }
  end,
}
