-- fourbit: bitsandbytes' 4-bit blocks, shared by NF4 and FP4. N numbers in blocks of k (32 to 4096)
-- have one absmax each; two codes lie in a byte, the first in the high nibble. The last block and
-- the last byte may be short.
local gs = require "gradsmith"
local scaled = require "layers.lib.blocks"

-- code: from numbers in [-1, 1] to codes. Gives q [P] u8 and absmax [B].
local function quantize(x, code)
  local s, absmax = scaled(x)
  return { q = gs.merge(gs.pack(code(s), "k", "k2", "high-first"), "B", "k2", "P"),
           absmax = absmax }
end

-- q [P] u8 and absmax [B] to numbers [N].
local function dequantize(q, absmax, codes)
  local c = gs.unpack(gs.split(q, "P", "B", "k2", { tail = "mask" }), "k2", "k", "high-first")
  return gs.merge(codes[c] * absmax, "B", "k", "N")
end

return { quantize = quantize, dequantize = dequantize,
  blocks = { 64, 32, 128, 256, 512, 1024, 2048, 4096 },
  dims = { "N", B = "ceil(N/block)", P = "ceil(N/2)", k = "block", k2 = "k/2" } }
