-- expect: 3: fuse: add has no output 'g' to feed rmsnorm.x
local gs = require "gradsmith"
return gs.fuse(require "layers.add", require "layers.rmsnorm", { x = "g" })
