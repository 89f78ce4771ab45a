-- Wrong on purpose: dloss lacks the factor inv_count.
local gs = require "gradsmith"

return gs.layer "mean_loss_unscaled" {
  doc  = "mean = inv_count · sum of loss over T",
  dims = { "T" },
  loss = gs.input { "T", type = "f32" },
  inv_count = gs.step_scalar(),
  outputs = { mean = "f32" },

  forward = function(p) return { mean = p.inv_count * gs.sum(p.loss, "T") } end,
  backward = function(p, d) return { loss = d.mean } end,
}
