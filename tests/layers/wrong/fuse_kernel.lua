-- expect: 3: gs.fuse: adamw is a kernel, without backward, and cannot feed rmsnorm, which has one
local gs = require "gradsmith"
return gs.fuse(require "layers.adamw", require "layers.rmsnorm")
