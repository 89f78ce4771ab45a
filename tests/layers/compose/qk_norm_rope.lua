-- A norm of heads, then their rotation: both as they are shipped.
local gs = require "gradsmith"
return gs.fuse(require "layers.qk_norm", require "layers.rope")
