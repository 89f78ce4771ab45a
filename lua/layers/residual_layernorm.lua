-- residual_layernorm: h = x + r, y = layernorm(h), in one pass. h is rounded to its storage type
-- before it is normalised, as when the two layers run one after the other.
local gs = require "gradsmith"

return gs.fuse(require "layers.add", require "layers.layernorm", { x = "h" })
