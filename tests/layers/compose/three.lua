-- Three in a row, each fed by name: the second's h, which has a gradient of its own, feeds the last.
local gs = require "gradsmith"
return gs.fuse(require "layers.add", require "layers.rmsnorm", { x = "h" },
  require "layers.rmsnorm", { x = "h" })
