-- grad_norm: the norm of all gradients, lying one after another, and the factor that clips them.
-- Reference: torch.nn.utils.clip_grad_norm_ (norm type 2). Squares of numbers above 2^40 are summed
-- apart, scaled, so that only a norm that float32 can't hold is infinite. A NaN gives a NaN.
local gs = require "gradsmith"

return gs.kernel "grad_norm" {
  doc  = "norm = √(sum of g²), coef = min(1, max_norm / (norm + 1e-6))",
  dims = { "N" },
  g = gs.input { "N", type = "f32" },
  max_norm = gs.scalar(1),
  outputs = { "norm", "coef", norm = "f32", coef = "f32" },

  forward = function(p)
    local large = gs.gt(gs.abs(p.g), 2.0 ^ 40)
    local small = gs.sum(gs.where(large, 0, p.g)^2, "all")
    local big = gs.sum(gs.where(large, p.g * 2.0 ^ -90, 0)^2, "all")
    local scaled = 2.0 ^ 90 * gs.sqrt(big + small * 2.0 ^ -90 * 2.0 ^ -90)
    local norm = gs.where(gs.gt(big, 0), scaled, gs.sqrt(small))
    local coef = p.max_norm / (norm + 1e-6)
    return { norm = norm, coef = gs.where(gs.gt(coef, 1), 1, coef) }
  end,
}
