-- adamw_8bit: AdamW whose moments are 8-bit codes with one absmax for each block of 256, over any
-- number of tensors in one launch (each begins at a multiple of 256; segments: adamw_segments).
-- Reference: bitsandbytes' optimizer_update_8bit_blockwise for Adam, as its CUDA kernel is: code
-- tables, layout, the order of update and decay, 1 - beta in f32, a negative first moment never
-- coded as zero, and where a gradient is not finite the parameter stays and the moments are zero.
-- Not followed: fast divisions and fused operations, so that an absmax may differ in the last bit;
-- and a block of zeros is coded as zeros.
local gs = require "gradsmith"
local codes = require "layers.lib.codes"
local f32 = codes.f32

-- An f32 here as in the reference: the operation under it is kept as it is written.
local function single(e) return gs.round(e, "f32") end

-- e [B, k] as codes of the given table: codes and absmax.
local function quantize(e, cuts)
  local absmax = gs.max(gs.abs(e), "k")
  return gs.bucket(single(e / gs.max(absmax, 1e-38)), cuts), absmax
end

return gs.kernel "adamw_8bit" {
  doc   = "p = (p - lr·√bc2/bc1 · m / (√v + √bc2·eps))·(1 - lr·decay), m and v in 8 bits",
  dims  = { "N", "S", B = "ceil(N/256)", k = "256" },
  outer = { "N", "S" },
  p = gs.input { "N" },
  g = gs.input { "N", type = "f32" },
  state1  = gs.input { "N", type = "u8" }, -- codes of m, of the signed map
  state2  = gs.input { "N", type = "u8" }, -- codes of v, of the unsigned map
  absmax1 = gs.input { "B", type = "f32", range = { 0 } },
  absmax2 = gs.input { "B", type = "f32", range = { 0 } },
  segment  = gs.input { "B", type = "i32", range = { 0, "S" } },
  lr_scale = gs.input { "S", type = "f32", range = { 0 } },
  decay    = gs.input { "S", type = "f32", range = { 0 } },
  lr   = gs.step_scalar(),
  bc1  = gs.step_scalar(), -- 1 - beta1^t, t from 1
  bc2  = gs.step_scalar(),
  coef = gs.step_scalar(), -- the factor of gradient clipping
  eps   = gs.scalar(1e-8),
  beta1 = gs.option(0.9),
  beta2 = gs.option(0.999),
  outputs = { "p_out", "state1_out", "state2_out", "absmax1_out", "absmax2_out",
    state1_out = "u8", state2_out = "u8", absmax1_out = "f32", absmax2_out = "f32" },
  inplace = { p_out = "p", state1_out = "state1", state2_out = "state2",
    absmax1_out = "absmax1", absmax2_out = "absmax2" },

  forward = function(p)
    local function blocks(e) return gs.split(e, "N", "B", "k", { tail = "mask" }) end
    local function flat(e) return gs.merge(e, "B", "k", "N") end
    local beta1, beta2 = f32(p.beta1), f32(p.beta2)
    local ok = gs.le(gs.abs(blocks(p.g)), 3.4028234663852886e38)
    local g = single(blocks(p.g) * p.coef)
    local m = single(blocks(codes.dynamic[p.state1]) * p.absmax1)
    local v = single(blocks(codes.dynamic_unsigned[p.state2]) * p.absmax2)
    m = gs.where(ok, single(m * beta1) + f32(1 - beta1) * g, 0)
    v = gs.where(ok, single(v * beta2) + single(single(f32(1 - beta2) * g) * g), 0)

    local lr = p.lr * gs.at(p.lr_scale, "S", p.segment)
    local decay = gs.at(p.decay, "S", p.segment)
    local c2 = gs.sqrt(p.bc2)
    local step = -lr * c2 / p.bc1
    local w = blocks(p.p)
    local new = gs.round(w + single(step * single(m / (gs.sqrt(v) + c2 * p.eps))), p.p.type)
    new = new * (1 - lr * decay)

    local code1, absmax1 = quantize(m, codes.dynamic_cuts)
    local code2, absmax2 = quantize(v, codes.dynamic_unsigned_cuts)
    code1 = gs.where(gs.and_(gs.lt(m, 0), gs.eq(code1, 127)), 126, code1)
    return { p_out = flat(gs.where(ok, new, w)),
             state1_out = flat(code1), state2_out = flat(code2),
             absmax1_out = absmax1, absmax2_out = absmax2 }
  end,
}
