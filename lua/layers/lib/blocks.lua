-- blocks: numbers in blocks of k that share an absmax, as bitsandbytes scales them before it looks
-- for the code: by the reciprocal, in f32. The last block may be short: what is missing counts as
-- zero.
local gs = require "gradsmith"

-- x [N] divided by the absmax of its block, [B, k] in [-1, 1]; and the absmax [B].
return function(x)
  local xb = gs.split(x, "N", "B", "k", { tail = "mask" })
  local absmax = gs.max(gs.abs(xb), "k")
  local inverse = gs.round(1 / gs.max(absmax, 1e-38), "f32")
  return gs.round(xb * inverse, "f32"), absmax
end
