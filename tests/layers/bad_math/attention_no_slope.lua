-- Wrong on purpose: the slope of a capped score is not that of an uncapped one.
local gs = require "gradsmith"

return gs.attention "attention_no_slope" {
  doc    = "y = softmax(tanh(scale·q·kᵀ), over the earlier keys)·v",
  score  = function(s) return gs.tanh(s) end,
  dscore = function(dz) return dz end,
  keys   = function(i) return 0, i.q end,
}
