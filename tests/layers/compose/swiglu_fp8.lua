-- An activation whose output is quantised in the same pass: a layer, then a kernel.
local gs = require "gradsmith"
return gs.fuse(require "layers.swiglu", require "layers.fp8_quantize", { x = "y", H = "F" })
