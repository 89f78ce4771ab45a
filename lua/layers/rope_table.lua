-- rope_table: cos and sin of the rotary angles, once a step, from the position of each token.
-- Reference: transformers LlamaRotaryEmbedding: position, frequency and their product in f32; scale
-- is its attention_scaling. With exact = 1 the angles are exact to f32's precision: see
-- lib/rotary.lua for `turns`.
local gs = require "gradsmith"
local rotary = require "layers.lib.rotary"

return gs.kernel "rope_table" {
  doc  = "cos, sin of pos·inv_freq, times scale",
  dims = { "T", "h", two = "2" },
  pos      = gs.input { "T", type = "i32", range = { 0, 200000 } },
  inv_freq = gs.input { "h", type = "f32", optional = true },
  turns    = gs.input { "two", "h", type = "f32", range = { 0, 16777216 }, optional = true },
  scale    = gs.scalar(1),
  exact    = gs.option { 0, values = { 0, 1 } },
  outputs  = { "cos", "sin", cos = "f32", sin = "f32" },

  forward = function(p)
    local cos, sin
    if p.exact == 0 then
      cos, sin = rotary.reference(p.pos, p.inv_freq)
    else
      cos, sin = rotary.exact(p.pos, gs.pick(p.turns, "two", 0), gs.pick(p.turns, "two", 1))
    end
    return { cos = p.scale * cos, sin = p.scale * sin }
  end,
}
