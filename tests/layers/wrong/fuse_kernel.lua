-- expect: 3: gs.fuse: adamw is a kernel, without backward, and cannot be fused
local gs = require "gradsmith"
return gs.fuse(require "layers.add", require "layers.adamw")
