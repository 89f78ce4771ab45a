-- rope_table: cos and sin of the rotary angles, once a step, from the position of each token.
-- Reference: transformers LlamaRotaryEmbedding: position, frequency and their product in f32.
local gs = require "gradsmith"

return gs.kernel "rope_table" {
  doc  = "cos, sin of pos·inv_freq",
  dims = { "T", "h" },
  pos      = gs.input { "T", type = "i32" },
  inv_freq = gs.input { "h", type = "f32" },
  outputs  = { "cos", "sin", cos = "f32", sin = "f32" },

  forward = function(p)
    local angle = gs.real(p.pos) * p.inv_freq
    return { cos = gs.cos(angle), sin = gs.sin(angle) }
  end,
}
