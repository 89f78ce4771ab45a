-- norms: what the normalisation layers share. n is the normalised value, g the gradient of it.
local gs = require "gradsmith"
local M = {}

-- 1 / √(mean(x²) + eps) over a dim or a list of dims.
function M.rstd(x, over, eps) return gs.rsqrt(gs.mean(x^2, over) + eps) end

-- y = w·x·rstd in the rounding order that p.gemma chooses, and rstd.
function M.rmsnorm(p, over)
  local rstd = M.rstd(p.x, over, p.eps)
  local n = p.x * rstd
  if p.gemma == 0 then n = gs.round(n, p.x.type) end
  return (p.w + p.gemma) * n, rstd
end

-- The gradient of x where n = x·rstd.
function M.rms_backward(x, rstd, g, over)
  return rstd * (g - x * rstd^2 * gs.mean(x * g, over))
end

-- The gradient of x where n = (x - mean)·rstd.
function M.centred_backward(n, rstd, g, over)
  return rstd * (g - gs.mean(g, over) - n * gs.mean(n * g, over))
end

return M
