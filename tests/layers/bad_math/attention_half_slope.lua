-- Wrong on purpose: the slope knows nothing of what the score adds for the distance, which is
-- right, but halves what comes in.
local gs = require "gradsmith"

return gs.attention "attention_half_slope" {
  doc    = "y = softmax(scale·q·kᵀ + 0.1·(k - q), over four keys)·v",
  sinks  = gs.weight { "K", "G" },
  score  = function(s, i) return s + 0.1 * (i.k - i.q) end,
  dscore = function(dz) return 0.5 * dz end,
  keys   = function(i) return i.q - 3, i.q end,
  sink_logit = function(p) return p.sinks end,
}
