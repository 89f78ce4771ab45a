-- value_loss: PPO's clipped loss of a value head, per token; 0 where the mask is 0. The new value
-- may move by `clip` from the old one before the larger of two errors counts.
-- Reference: TRL PPOTrainer (vf_losses1, vf_losses2, 0.5·max).
local gs = require "gradsmith"

return gs.layer "value_loss" {
  doc  = "loss = ½·max((value - target)², (clamp(value, old ± clip) - target)²)",
  dims = { "T" },
  value  = gs.input { "T", type = "f32" },
  old    = gs.input { "T", type = "f32", grad = false },
  target = gs.input { "T", type = "f32", grad = false },
  mask   = gs.input { "T", type = "u8", range = { 0, 2 } },
  clip   = gs.scalar(0.2),
  outputs = { loss = "f32" },

  forward = function(p)
    local near = gs.clamp(p.value, p.old - p.clip, p.old + p.clip)
    local loss = 0.5 * gs.max((p.value - p.target)^2, (near - p.target)^2)
    return { loss = gs.where(gs.ne(p.mask, 0), loss, 0) }
  end,

  backward = function(p, d) -- the clipped branch wins only where the value no longer moves it
    local near = gs.clamp(p.value, p.old - p.clip, p.old + p.clip)
    local free = gs.ge(gs.abs(p.value - p.target), gs.abs(near - p.target))
    return { value = gs.where(gs.and_(gs.ne(p.mask, 0), free), d.loss * (p.value - p.target), 0) }
  end,
}
