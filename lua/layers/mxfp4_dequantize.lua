-- mxfp4_dequantize: numbers from MXFP4: blocks of 32 four-bit E2M1 codes, each with a power of two.
-- Layout as in gpt-oss' files: two codes in a byte, the first in the low nibble; scales are bytes,
-- 2^(byte - 127). R are the rows of all matrices, G the blocks of a row.
-- Reference: OCP MX 1.0; transformers' convert_moe_packed_tensors.
local gs = require "gradsmith"
local codes = require "layers.lib.codes"

return gs.kernel "mxfp4_dequantize" {
  doc  = "x = e2m1[q]·scale",
  dims = { "R", "G", k = "32", k2 = "16", H = "G*32" },
  q     = gs.input { "R", "G", "k2", type = "u8" },
  scale = gs.input { "R", "G", type = "e8m0" },

  forward = function(p)
    local c = gs.unpack(p.q, "k2", "k", "low-first")
    return { x = gs.merge(codes.e2m1[c] * p.scale, "G", "k", "H") }
  end,
}
