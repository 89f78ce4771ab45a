-- fp4_dequantize: numbers from FP4 codes and the absmax of blocks of numbers.
-- Reference: bitsandbytes' dequantize_4bit("fp4"): the product is formed in f32 and rounded once.
local gs = require "gradsmith"
local codes = require "layers.lib.codes"
local fourbit = require "layers.lib.fourbit"

return gs.kernel "fp4_dequantize" {
  doc  = "x = fp4[q]·absmax",
  dims = fourbit.dims,
  q      = gs.input { "P", type = "u8" },
  absmax = gs.input { "B", type = "f32", range = { 0 } },
  block = gs.option { 64, values = fourbit.blocks }, -- numbers that share an absmax

  forward = function(p) return { x = fourbit.dequantize(p.q, p.absmax, codes.fp4) } end,
}
