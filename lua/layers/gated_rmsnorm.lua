-- gated_rmsnorm: RMSNorm with a gate, in groups of the channels (G = 1: over all of them).
-- Reference: transformers MambaRMSNormGated of Mamba2 (gate_first = 1: the gate, then the norm),
-- Qwen3NextRMSNormGated (0: the norm, then the gate). Both round the normalised value before w.
local gs = require "gradsmith"
local norms = require "layers.lib.norms"

return gs.layer "gated_rmsnorm" {
  doc  = "y = w·u·rstd, u = x·silu(z); or y = w·x·rstd·silu(z)",
  dims = { "T", "G", "H" },
  x    = gs.input { "T", "G", "H" },
  z    = gs.input { "T", "G", "H" },
  w    = gs.weight { "G", "H" },
  eps  = gs.scalar(1e-6),
  gate_first = gs.option { 1, values = { 0, 1 } },

  forward = function(p)
    local gate = p.z * gs.sigmoid(p.z)
    local u = p.gate_first ~= 0 and p.x * gate or p.x
    local rstd = norms.rstd(u, "H", p.eps)
    local y = p.w * gs.round(u * rstd, p.x.type)
    if p.gate_first == 0 then y = gs.round(y, p.x.type) * gate end
    return { y = y, save = { rstd = rstd } }
  end,

  backward = function(p, d, s)
    local sg = gs.sigmoid(p.z)
    local gate, slope = p.z * sg, sg * (1 + p.z * (1 - sg))
    if p.gate_first ~= 0 then
      local u = p.x * gate
      local du = norms.rms_backward(u, s.rstd, d.y * p.w, "H")
      return { x = du * gate, z = du * p.x * slope, w = gs.sum(d.y * u * s.rstd, "T") }
    end
    local g = d.y * gate
    return {
      x = norms.rms_backward(p.x, s.rstd, g * p.w, "H"),
      z = d.y * p.w * p.x * s.rstd * slope,
      w = gs.sum(g * p.x * s.rstd, "T"),
    }
  end,
}
