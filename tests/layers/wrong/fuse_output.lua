-- expect: 3: no layer before rmsnorm has an output 'g' to feed its 'x'; did you mean 'h'?
local gs = require "gradsmith"
return gs.fuse(require "layers.add", require "layers.rmsnorm", { x = "g" })
