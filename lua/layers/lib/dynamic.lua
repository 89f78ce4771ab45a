-- dynamic: bitsandbytes' 8-bit blocks: N numbers in blocks of k have one absmax each and a code of
-- the signed dynamic map for each number. The last block may be short.
local gs = require "gradsmith"
local codes = require "layers.lib.codes"
local scaled = require "layers.lib.blocks"

local function quantize(x)
  local s, absmax = scaled(x)
  return { q = gs.merge(gs.bucket(s, codes.dynamic_cuts), "B", "k", "N"), absmax = absmax }
end

local function dequantize(q, absmax)
  local qb = gs.split(q, "N", "B", "k", { tail = "mask" })
  return gs.merge(codes.dynamic[qb] * absmax, "B", "k", "N")
end

return { quantize = quantize, dequantize = dequantize,
  blocks = { 256, 64, 128, 512, 1024, 2048, 4096 },
  dims = { "N", B = "ceil(N/block)", k = "block" } }
