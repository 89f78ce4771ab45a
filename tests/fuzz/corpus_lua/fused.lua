local gs = require "gradsmith"
return gs.fuse(require "layers.add", require "layers.rmsnorm", { x = "h" })
