-- A composition of compositions.
local gs = require "gradsmith"
local normed = gs.fuse(require "layers.add", require "layers.rmsnorm")
return gs.fuse(normed, require "layers.swiglu", { gate = "y", up = "h", F = "H" })
