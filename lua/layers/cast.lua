-- cast: the same values in another storage type, rounded once.
local gs = require "gradsmith"

return gs.layer "cast" {
  doc  = "y = x",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },

  forward = function(p) return { y = p.x } end,
  backward = function(p, d) return { x = d.y } end,
}
