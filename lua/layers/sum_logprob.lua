-- sum_logprob: the log-probability of each sequence, the sum or the mean over its tokens. segment
-- is the number of the sequence that a token counts for; -1: for none (a prompt, padding).
-- The tokens of a sequence are added in their order. Reference: TRL's DPOTrainer (sum) and
-- CPOTrainer with average_log_prob (mean).
local gs = require "gradsmith"

return gs.layer "sum_logprob" {
  doc   = "y[s] = Σ logp over the tokens of sequence s, or their mean",
  dims  = { "T", "S" },
  outer = { "T", "S" },
  logp    = gs.input { "T", type = "f32" },
  segment = gs.input { "T", type = "i32", range = { 0, "S" }, also = { -1 } },
  -- 1: divided by the number of tokens; 0 where there is none
  mean    = gs.option { 0, values = { 0, 1 } },
  outputs = { y = "f32" },

  forward = function(p)
    local ok = gs.ge(p.segment, 0)
    local sum = gs.sum_by(gs.where(ok, p.logp, 0), p.segment, "T", "S")
    if p.mean == 0 then return { y = sum } end
    local inv = 1 / gs.max(gs.sum_by(gs.real(ok), p.segment, "T", "S"), 1)
    return { y = sum * inv, save = { inv = inv } }
  end,

  backward = function(p, d, s)
    local up = p.mean == 0 and d.y or d.y * s.inv
    return { logp = gs.at(up, "S", p.segment, gs.ge(p.segment, 0)) }
  end,
}
