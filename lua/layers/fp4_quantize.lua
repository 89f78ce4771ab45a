-- fp4_quantize: bitsandbytes' FP4 codes and absmax of blocks of numbers.
-- Reference: its quantize_4bit("fp4"), as its CUDA kernel decides: by size, then sign.
local gs = require "gradsmith"
local codes = require "layers.lib.codes"
local fourbit = require "layers.lib.fourbit"

-- In order of size the codes are fp4_order; the sign is the highest bit.
local function code(s)
  local size = codes.fp4_order[gs.bucket(gs.abs(s), codes.fp4_cuts)]
  return gs.integer(size + gs.where(gs.lt(s, 0), 8, 0))
end

return gs.kernel "fp4_quantize" {
  doc  = "absmax = max|x| of each block, q = codes of x/absmax, two in a byte, the first high",
  dims = fourbit.dims,
  x = gs.input { "N" },
  block = gs.option { 64, values = fourbit.blocks }, -- numbers that share an absmax
  outputs = { "q", "absmax", q = "u8", absmax = "f32" },

  forward = function(p) return fourbit.quantize(p.x, code) end,
}
