-- nf4_quantize: NF4 codes and absmax of blocks of numbers (QLoRA: 64).
-- Reference: bitsandbytes' quantize_4bit("nf4"): codes, layout and absmax to the bit.
local gs = require "gradsmith"
local codes = require "layers.lib.codes"
local fourbit = require "layers.lib.fourbit"

return gs.kernel "nf4_quantize" {
  doc  = "absmax = max|x| of each block, q = codes of x/absmax, two in a byte, the first high",
  dims = fourbit.dims,
  x = gs.input { "N" },
  block = gs.option { 64, values = fourbit.blocks }, -- numbers that share an absmax
  outputs = { "q", "absmax", q = "u8", absmax = "f32" },

  forward = function(p)
    return fourbit.quantize(p.x, function(s) return gs.bucket(s, codes.nf4_cuts) end)
  end,
}
