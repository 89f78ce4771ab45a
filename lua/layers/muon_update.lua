-- muon_update: what of Muon comes after the orthogonalisation: weight decay and the step along o.
-- Reference: torch.optim.Muon, with adjust = √max(1, rows/columns) (its "original"), or
-- 0.2·√max(rows, columns) ("match_rms_adamw").
local gs = require "gradsmith"

return gs.kernel "muon_update" {
  doc  = "p = p·(1 - lr·decay) - lr·adjust·o",
  dims = { "N" },
  p = gs.input { "N", type = "f32" },
  o = gs.input { "N" },
  lr = gs.step_scalar(),
  adjust = gs.scalar(1),
  decay  = gs.scalar(0.1),
  -- 1: also writes p to `copy` in the layer's storage type
  with_copy = gs.option { 0, values = { 0, 1 } },
  outputs = { "p_out", "copy", p_out = "f32" },
  inplace = { p_out = "p" },

  forward = function(p)
    local new = p.p * (1 - p.lr * p.decay) - p.lr * p.adjust * p.o
    return { p_out = new, copy = p.with_copy ~= 0 and new or nil }
  end,
}
