-- Two layers of the same kind in one: the second's names that are taken get its name in front.
local gs = require "gradsmith"

return gs.fuse(require "layers.rmsnorm", require "layers.rmsnorm", { x = "y" })
