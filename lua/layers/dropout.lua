-- dropout: each element is 0 with probability `rate`, else divided by 1 - rate. What is dropped
-- follows from the seed and the element's index alone, so the backward makes it again and any
-- schedule drops the same. Reference: torch.nn.functional.dropout (with another stream of numbers);
-- at rate 1 everything is 0.
local gs = require "gradsmith"

local function kept(p, e)
  local r = gs.rand(p.seed, "dropout", { "T", "H" })
  return gs.where(gs.ge(r, p.rate), e / (1 - p.rate), 0)
end

return gs.layer "dropout" {
  doc  = "y = x/(1 - rate) where a random number is at least rate, else 0",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },
  seed = gs.step_scalar(),
  rate = gs.scalar(0.1),
  inplace = { y = "x", dx = "dy" },

  forward = function(p) return { y = kept(p, p.x) } end,
  backward = function(p, d) return { x = kept(p, d.y) } end,
}
