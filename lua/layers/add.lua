-- add: the residual stream takes a branch.
local gs = require "gradsmith"

return gs.layer "add" {
  doc  = "h = x + r",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },
  r    = gs.input { "T", "H" },
  inplace = { h = "r" },

  forward = function(p) return { h = p.x + p.r } end,
  backward = function(p, d) return { x = d.h, r = d.h } end,
}
