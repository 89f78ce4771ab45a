-- plain_rmsnorm: what a file without a backward of its own becomes is plain_rmsnorm_derived.lua.
local gs = require "gradsmith"

return gs.layer "plain_rmsnorm" {
  doc  = "y = w·x·rstd",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },
  w    = gs.weight { "H" },
  eps  = gs.scalar(1e-6),

  forward = function(p)
    local rstd = gs.rsqrt(gs.mean(p.x^2, "H") + p.eps)
    return { y = p.w * gs.round(p.x * rstd, p.x.type) } -- what follows stays
  end,

  backward = gs.derived,
}
