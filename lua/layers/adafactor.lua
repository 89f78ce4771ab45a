-- adafactor: one step of Adafactor over a matrix: the second moment is kept as the means of its
-- rows and columns; the update's root mean square is held to d, its size follows the parameter's.
-- Reference: torch.optim.Adafactor. rate = min(lr, t^-1/2), mix = t^decay_exponent (-0.8), t from
-- 1; coef is the factor of gradient clipping. For vectors: adafactor_vector.
local gs = require "gradsmith"

return gs.kernel "adafactor" {
  doc  = "p = p·(1 - lr·decay) - rate·max(eps2, rms p)·u/max(1, rms(u)/d),"
    .. " u = g/√(row·col/mean row)",
  dims = { "R", "C" },
  p   = gs.input { "R", "C", type = "f32" },
  g   = gs.input { "R", "C", type = "f32" },
  row = gs.input { "R", type = "f32", range = { 0 } },
  col = gs.input { "C", type = "f32", range = { 0 } },
  lr   = gs.step_scalar(),
  rate = gs.step_scalar(),
  mix  = gs.step_scalar(),
  coef = gs.step_scalar(),
  decay = gs.scalar(0),
  eps1  = gs.scalar(1.1920928955078125e-7), -- the ulp of 1, as in the reference
  eps2  = gs.scalar(1e-3),
  d     = gs.scalar(1),
  outputs = { "p_out", "row_out", "col_out", p_out = "f32", row_out = "f32", col_out = "f32" },
  inplace = { p_out = "p", row_out = "row", col_out = "col" },

  forward = function(p)
    local g = p.coef * p.g
    local row = p.row + p.mix * (gs.mean(g^2, "C") - p.row)
    local col = p.col + p.mix * (gs.mean(g^2, "R") - p.col)
    local estimate = row * col / gs.max(gs.mean(row, "R"), p.eps1)
    local u = g * gs.rsqrt(gs.max(estimate, p.eps1 * p.eps1))
    local size = p.rate * gs.max(p.eps2, gs.sqrt(gs.mean(p.p^2, "all")))
    local clip = gs.max(1, gs.sqrt(gs.mean(u^2, "all")) / p.d)
    return { p_out = p.p * (1 - p.lr * p.decay) - size / clip * u, row_out = row, col_out = col }
  end,
}
