-- mean_pool: the mean over the tokens of each sequence. segment is the number of the sequence that
-- a token counts for; -1: for none. A sequence without tokens gives 0. Tokens are added in order.
-- Reference: sentence-transformers Pooling (mean over the attention mask), summed in f32.
local gs = require "gradsmith"

return gs.layer "mean_pool" {
  doc   = "y[s] = mean of x over the tokens of sequence s",
  dims  = { "T", "S", "H" },
  outer = { "T", "S" },
  x       = gs.input { "T", "H" },
  segment = gs.input { "T", type = "i32", range = { 0, "S" }, also = { -1 } },

  forward = function(p)
    local ok = gs.ge(p.segment, 0)
    local inv = 1 / gs.max(gs.sum_by(gs.real(ok), p.segment, "T", "S"), 1)
    return { y = inv * gs.sum_by(p.x, p.segment, "T", "S"), save = { inv = inv } }
  end,

  backward = function(p, d, s)
    return { x = gs.at(s.inv * d.y, "S", p.segment, gs.ge(p.segment, 0)) }
  end,
}
