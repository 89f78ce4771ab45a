-- int8_quantize: 8-bit codes of the dynamic map and absmax of blocks of numbers.
-- Reference: bitsandbytes' quantize_blockwise as its CUDA kernel decides (a tie goes to the even
-- code); a block of zeros is coded as zeros.
local gs = require "gradsmith"
local dynamic = require "layers.lib.dynamic"

return gs.kernel "int8_quantize" {
  doc  = "absmax = max|x| of each block, q = codes of x/absmax",
  dims = dynamic.dims,
  x = gs.input { "N" },
  block = gs.option { 256, values = dynamic.blocks }, -- numbers that share an absmax
  outputs = { "q", "absmax", q = "u8", absmax = "f32" },

  forward = function(p) return dynamic.quantize(p.x) end,
}
