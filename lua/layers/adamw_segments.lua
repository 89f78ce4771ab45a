-- adamw_segments: AdamW over any number of tensors in one launch. They lie one after another, each
-- beginning at a multiple of 256; segment[b] says which group block b of 256 belongs to, and
-- the group has a factor of the learning rate and a weight decay. Formula: torch.optim.AdamW with
-- parameter groups; see adamw.lua.
local gs = require "gradsmith"
local update = require "layers.lib.adamw"

return gs.kernel "adamw_segments" {
  doc   = "p = p·(1 - lr·decay) - lr/bc1 · m / (√v/√bc2 + eps), lr and decay by segment",
  dims  = { "N", "S", B = "ceil(N/256)", k = "256" },
  outer = { "N", "S" },
  p = gs.input { "N", type = "f32" },
  m = gs.input { "N", type = "f32" },
  v = gs.input { "N", type = "f32", range = { 0 } },
  g = gs.input { "N", type = "f32" },
  segment  = gs.input { "B", type = "i32", range = { 0, "S" } },
  lr_scale = gs.input { "S", type = "f32", range = { 0 } },
  decay    = gs.input { "S", type = "f32", range = { 0 } },
  lr   = gs.step_scalar(),
  bc1  = gs.step_scalar(),
  bc2  = gs.step_scalar(),
  coef = gs.step_scalar(),
  eps   = gs.scalar(1e-8),
  beta1 = gs.option(0.9),
  beta2 = gs.option(0.999),
  -- 1: also writes p to `copy` in the layer's storage type
  with_copy = gs.option { 0, values = { 0, 1 } },
  outputs = { "p_out", "m_out", "v_out", "copy", p_out = "f32", m_out = "f32", v_out = "f32" },
  inplace = { p_out = "p", m_out = "m", v_out = "v" },

  forward = function(p)
    local function blocks(e) return gs.split(e, "N", "B", "k", { tail = "mask" }) end
    local function flat(e) return gs.merge(e, "B", "k", "N") end
    local lr = p.lr * gs.at(p.lr_scale, "S", p.segment)
    local decay = gs.at(p.decay, "S", p.segment)
    local new, m, v = update(p, blocks(p.p), blocks(p.g), blocks(p.m), blocks(p.v), lr, decay)
    return { p_out = flat(new), m_out = flat(m), v_out = flat(v),
             copy = p.with_copy ~= 0 and flat(new) or nil }
  end,
}
