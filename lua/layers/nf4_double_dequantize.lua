-- nf4_double_dequantize: numbers from NF4 codes whose absmax are codes too (QLoRA's double
-- quantisation), in one pass. Reference: bitsandbytes' dequantize_4bit with nested statistics:
-- absmax = dynamic[q_absmax]·absmax2 + offset in f32, one absmax2 for each 256.
local gs = require "gradsmith"
local codes = require "layers.lib.codes"
local fourbit = require "layers.lib.fourbit"

return gs.kernel "nf4_double_dequantize" {
  doc   = "x = nf4[q]·(dynamic[q_absmax]·absmax2 + offset)",
  dims  = { "N", B = "ceil(N/block)", P = "ceil(N/2)", C = "ceil(B/256)", k = "block",
    k2 = "k/2" },
  q        = gs.input { "P", type = "u8" },
  q_absmax = gs.input { "B", type = "u8" },
  absmax2  = gs.input { "C", type = "f32", range = { 0 } },
  offset   = gs.step_scalar(),
  block = gs.option { 64, values = fourbit.blocks }, -- numbers that share an absmax

  forward = function(p)
    local block = gs.quotient(gs.index "B", 256)
    local absmax = codes.dynamic[p.q_absmax] * gs.at(p.absmax2, "C", block) + p.offset
    return { x = fourbit.dequantize(p.q, absmax, codes.nf4) }
  end,
}
