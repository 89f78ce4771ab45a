-- head_rmsnorm_rope: RMSNorm of each head and its rotation, in one pass over the row. The value in
-- between is rounded to its storage type, as when head_rmsnorm and rope run one after the other; it
-- is not written.
local gs = require "gradsmith"
local norms = require "layers.lib.norms"
local rotary = require "layers.lib.rotary"

return gs.layer "head_rmsnorm_rope" {
  doc   = "(a, b) -> (a·cos - b·sin, b·cos + a·sin), a and b the halves of w·x·rstd",
  dims  = { "T", "N", "D", h = "D/2" },
  x     = gs.input { "T", "N", "D" },
  w     = gs.weight { "D" },
  cos   = gs.input { "T", "h", type = "f32", grad = false },
  sin   = gs.input { "T", "h", type = "f32", grad = false },
  eps   = gs.scalar(1e-6),
  gemma = gs.option { 0, values = { 0, 1 } }, -- the order of rounding, as in rmsnorm
  interleaved = gs.option { 0, values = { 0, 1 } },

  forward = function(p)
    local n, rstd = norms.rmsnorm(p, "D")
    local y = rotary.turn(gs.round(n, p.x.type), "D", p.cos, p.sin, p.interleaved)
    return { y = y, save = { rstd = rstd } }
  end,

  backward = function(p, d, s)
    local g = rotary.turn(d.y, "D", p.cos, -p.sin, p.interleaved)
    return {
      x = norms.rms_backward(p.x, s.rstd, g * (p.w + p.gemma), "D"),
      w = gs.sum(g * p.x * s.rstd, { "T", "N" }),
    }
  end,
}
