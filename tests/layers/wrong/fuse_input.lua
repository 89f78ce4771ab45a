-- expect: 3: gs.fuse: rmsnorm has no input 'h'
local gs = require "gradsmith"
return gs.fuse(require "layers.add", require "layers.rmsnorm", { h = "x" })
