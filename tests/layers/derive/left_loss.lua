-- left_loss: a loss, so that its gradient is made in the forward pass too.
local gs = require "gradsmith"

return gs.layer "left_loss" {
  dims   = { "T", "V" },
  logits = gs.input { "T", "V" },
  label  = gs.input { "T", type = "i32", range = { 0, "V" } },
  outputs = { loss = "f32" },

  forward = function(p)
    local lse = gs.logsumexp(p.logits, "V")
    return { loss = lse - gs.at(p.logits, "V", p.label) }
  end,
  backward = gs.derived,
}
