-- groupnorm: normalisation of each group of channels of a sample. The C = G·c channels of [N, C, S]
-- are seen as G groups of c, which is the same memory; S: all places of a channel.
-- Reference: torch.nn.GroupNorm.
local gs = require "gradsmith"
local norms = require "layers.lib.norms"
local group = { "c", "S" }

return gs.layer "groupnorm" {
  doc  = "y = w·(x - mean)·rstd + b, mean and rstd over the channels and places of a group",
  dims = { "N", "G", "c", "S" },
  x    = gs.input { "N", "G", "c", "S" },
  w    = gs.weight { "G", "c" },
  b    = gs.weight { "G", "c" },
  eps  = gs.scalar(1e-5),

  forward = function(p)
    local mean, var = gs.moments(p.x, group)
    local rstd = gs.rsqrt(var + p.eps)
    return { y = p.w * ((p.x - mean) * rstd) + p.b, save = { mean = mean, rstd = rstd } }
  end,

  backward = function(p, d, s)
    local n = (p.x - s.mean) * s.rstd
    return {
      x = norms.centred_backward(n, s.rstd, d.y * p.w, group),
      w = gs.sum(d.y * n, { "N", "S" }),
      b = gs.sum(d.y, { "N", "S" }),
    }
  end,
}
