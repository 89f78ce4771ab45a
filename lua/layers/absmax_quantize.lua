-- absmax_quantize: the second quantisation of QLoRA: a weight's absmax in 8 bits, one f32 for each
-- block of 256 of them, after their mean is taken off. Reference: bitsandbytes' quantize_4bit with
-- compress_statistics, that is quantize_blockwise(absmax - mean, blocksize 256).
local gs = require "gradsmith"
local dynamic = require "layers.lib.dynamic"

return gs.kernel "absmax_quantize" {
  doc  = "offset = mean of x, q = codes of (x - offset)/absmax, absmax = max|x - offset| of 256",
  dims = { "N", B = "ceil(N/256)", k = "256" },
  x = gs.input { "N", type = "f32", range = { 0 } },
  outputs = { "q", "absmax", "offset", q = "u8", absmax = "f32", offset = "f32" },

  forward = function(p)
    local offset = gs.mean(p.x, "N")
    local y = dynamic.quantize(p.x - offset)
    return { q = y.q, absmax = y.absmax, offset = offset }
  end,
}
