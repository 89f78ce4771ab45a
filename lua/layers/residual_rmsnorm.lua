-- residual_rmsnorm: h = x + r, y = rmsnorm(h), in one pass over the row. h is rounded to its
-- storage type before it is normalised, as when the two layers run one after the other.
local gs = require "gradsmith"

return gs.fuse(require "layers.add", require "layers.rmsnorm", { x = "h" })
