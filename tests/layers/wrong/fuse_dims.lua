-- expect: 3: 'y' has dims [T, F], but fp8_quantize's 'x' has [T, H]: say which dim is which, { x = "y", H = "NAME" }
local gs = require "gradsmith"
return gs.fuse(require "layers.swiglu", require "layers.fp8_quantize")
