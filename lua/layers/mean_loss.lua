-- mean_loss: the sum of the tokens' losses times a step scalar, 1 / (number of labels of the whole
-- step), so that microbatches with unequal numbers of labels add up to the mean over all of them.
local gs = require "gradsmith"

return gs.layer "mean_loss" {
  doc  = "mean = inv_count · sum of loss over T",
  dims = { "T" },
  loss = gs.input { "T", type = "f32" },
  inv_count = gs.step_scalar(),
  outputs = { mean = "f32" },

  forward = function(p) return { mean = p.inv_count * gs.sum(p.loss, "T") } end,
  backward = function(p, d) return { loss = d.mean * p.inv_count } end,
}
