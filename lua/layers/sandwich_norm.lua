-- sandwich_norm: the end of a block of Gemma 2 and 3 and the start of the next: h = r + rmsnorm(x),
-- then rmsnorm(h); x is the branch, r the residual stream. Each value in between is rounded as when
-- the layers run one after the other.
local gs = require "gradsmith"
local rmsnorm = require "layers.rmsnorm"
local after = gs.fuse(rmsnorm, require "layers.add", { x = "y" })

return gs.fuse(after, rmsnorm, { x = "h" })
