-- grad_norm: the norm of all gradients, lying one after another, and the factor that clips them.
-- Reference: torch.nn.utils.clip_grad_norm_ (norm type 2).
local gs = require "gradsmith"

return gs.kernel "grad_norm" {
  doc  = "norm = √(sum of g²), coef = min(1, max_norm / (norm + 1e-6))",
  dims = { "N" },
  g = gs.input { "N", type = "f32" },
  max_norm = gs.scalar(1),
  outputs = { "norm", "coef", norm = "f32", coef = "f32" },

  forward = function(p)
    local norm = gs.sqrt(gs.sum(p.g^2, "all"))
    return { norm = norm, coef = gs.min(1, p.max_norm / (norm + 1e-6)) }
  end,
}
