-- layernorm: normalisation by mean and variance; the variance is taken about the mean, in a pass of
-- its own. Reference: torch.nn.LayerNorm.
local gs = require "gradsmith"
local norms = require "layers.lib.norms"

return gs.layer "layernorm" {
  doc  = "y = w·(x - mean)·rstd + b, rstd = (var(x) + eps)^-1/2",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },
  w    = gs.weight { "H" },
  b    = gs.weight { "H", optional = true },
  eps  = gs.scalar(1e-5),
  bias = gs.option { 1, values = { 0, 1 } }, -- 0: there is no b

  forward = function(p)
    local mean, var = gs.moments(p.x, "H")
    local rstd = gs.rsqrt(var + p.eps)
    local y = p.w * ((p.x - mean) * rstd)
    if p.bias ~= 0 then y = y + p.b end
    return { y = y, save = { mean = mean, rstd = rstd } }
  end,

  backward = function(p, d, s)
    local n = (p.x - s.mean) * s.rstd
    return {
      x = norms.centred_backward(n, s.rstd, d.y * p.w, "H"),
      w = gs.sum(d.y * n, "T"),
      b = p.bias ~= 0 and gs.sum(d.y, "T") or nil,
    }
  end,
}
