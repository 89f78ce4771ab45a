-- int8_dequantize: numbers from 8-bit codes of the dynamic map and the absmax of blocks
-- of numbers.
-- Reference: bitsandbytes' dequantize_blockwise.
local gs = require "gradsmith"
local dynamic = require "layers.lib.dynamic"

return gs.kernel "int8_dequantize" {
  doc  = "x = dynamic[q]·absmax",
  dims = dynamic.dims,
  q      = gs.input { "N", type = "u8" },
  absmax = gs.input { "B", type = "f32", range = { 0 } },
  block = gs.option { 256, values = dynamic.blocks }, -- numbers that share an absmax

  forward = function(p) return { x = dynamic.dequantize(p.q, p.absmax) } end,
}
