-- router: the top_k experts of each token and their weights, f32; ties go to the lowest index, and
-- experts come in the order of their scores. Scores are softmax(logits) or sigmoid(logits); with
-- `bias` (which takes no gradient) the choice is by score + bias, the weight by the score alone.
-- Reference: transformers MixtralSparseMoeBlock and Qwen3MoeTopKRouter (sigmoid = 0; gpt-oss'
-- softmax over the chosen logits is the same as renormalising), DeepseekV3TopkRouter with one group
-- (sigmoid = 1, renormalise = 1, biased = 1), Llama4Router (sigmoid = 1, top_k = 1); scores in f32.
local gs = require "gradsmith"

local TINY = 1e-20 -- as DeepseekV3TopkRouter adds it to the sum of sigmoids

-- What experts are chosen by. Without a bias the logits have the order of their scores.
local function choice(p)
  if p.biased == 0 then return p.logits end
  return (p.sigmoid ~= 0 and gs.sigmoid(p.logits) or gs.softmax(p.logits, "E")) + p.bias
end

-- The weights of the chosen experts, from their logits v, without `scale`; and what a gradient g
-- of them gives for v, but for the part that goes through all logits.
local function weights(p, v, lse)
  if p.sigmoid == 0 then
    local w = p.renormalise ~= 0 and gs.softmax(v, "K") or gs.exp(v - lse)
    return w, function(g) return w * g end, w
  end
  local s = gs.sigmoid(v)
  local sum = p.renormalise ~= 0 and gs.sum(s, "K") + TINY or 1
  return s / sum, function(g)
    if p.renormalise ~= 0 then g = g - gs.sum(g * s, "K") / sum end
    return s * (1 - s) / sum * g
  end
end

return gs.layer "router" {
  doc    = "w, index = top_k of softmax(logits) or sigmoid(logits)",
  dims   = { "T", "E", K = "top_k" },
  logits = gs.input { "T", "E" },
  bias   = gs.input { "E", type = "f32", grad = false, optional = true },
  scale  = gs.scalar(1),
  top_k  = gs.option { 2, also = { 1, 3 } },
  sigmoid     = gs.option { 0, values = { 0, 1 } }, -- 1: scores are sigmoids
  renormalise = gs.option { 1, values = { 0, 1 } }, -- 1: the chosen weights add up to `scale`
  biased      = gs.option { 0, values = { 0, 1 } }, -- 1: `bias` is read
  outputs = { "w", "index", w = "f32", index = "i32" },

  forward = function(p)
    local _, index = gs.topk(choice(p), "E", "K")
    local lse = p.sigmoid + p.renormalise == 0 and gs.logsumexp(p.logits, "E") or nil
    local w = weights(p, gs.at(p.logits, "E", index), lse)
    return { w = p.scale * w, index = index, save = { lse = lse } }
  end,

  backward = function(p, d, s)
    local all = p.sigmoid + p.renormalise == 0 -- every logit is in the sum of the softmax
    local v = gs.at(p.logits, "E", s.index)
    local w, through = weights(p, v, all and s.lse)
    local g = p.scale * d.w
    local dv = through(g)
    local mean = p.sigmoid == 0 and gs.sum(g * w, "K")
    if p.sigmoid == 0 and not all then dv = dv - w * mean end
    local dlogits = gs.sum(gs.where(gs.eq(gs.index "E", s.index), dv, 0), "K")
    if all then dlogits = dlogits - gs.exp(p.logits - s.lse) * mean end
    return { logits = dlogits }
  end,
}
