-- residual_scale: the residual stream takes a branch times a number. Reference: transformers
-- GraniteDecoderLayer (residual_multiplier), which rounds the product before it adds.
local gs = require "gradsmith"

return gs.layer "residual_scale" {
  doc  = "y = x + scale·r",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },
  r    = gs.input { "T", "H" },
  scale = gs.scalar(1),
  inplace = { y = "r" },

  forward = function(p) return { y = p.x + gs.round(p.scale * p.r, p.r.type) } end,
  backward = function(p, d) return { x = d.y, r = p.scale * d.y } end,
}
