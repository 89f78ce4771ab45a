-- rotary: what the rotary layers share: the rotation, and the angles.
local gs = require "gradsmith"
local M = {}

-- x, whose dim has the rotated elements only, turned by the angles of cos and sin: pairs of
-- neighbours (interleaved), or element i with i + half.
function M.turn(x, dim, cos, sin, interleaved)
  local split = interleaved ~= 0 and gs.pairs or gs.halves
  local join = interleaved ~= 0 and gs.from_pairs or gs.from_halves
  local a, b = split(x, dim, "h")
  return join(a * cos - b * sin, b * cos + a * sin, dim, "h")
end

-- cos and sin of pos·inv_freq as the reference has them: all in f32, so that a position of 100 000
-- is off by thousandths of a turn. Models were trained so.
function M.reference(pos, inv_freq)
  local angle = gs.real(pos) * inv_freq
  return gs.cos(angle), gs.sin(angle)
end

-- cos and sin to f32's precision up to position 2^22; beyond, the frequency's last bit tells. The
-- frequency in turns a position is (high + low/2^24)/2^24, both whole numbers below 2^24: the
-- product is reduced to a fraction of a turn, in units of 2^-48, by integer arithmetic alone, and
-- then to an eighth of a turn around one of its quarters.
function M.exact(pos, high, low)
  local unit, quarter = 2^24, 2^46
  local top = gs.remainder(pos * gs.integer(high), unit)
  local turn = gs.remainder(top * unit + pos * gs.integer(low), 2^48)
  local k = gs.quotient(turn + quarter / 2, quarter) -- 0 .. 4
  local angle = gs.real(turn - k * quarter) * (2 * math.pi / 2^48)
  local c, s = gs.cos(angle), gs.sin(angle)
  local odd = gs.eq(gs.remainder(k, 2), 1)
  local behind = gs.and_(gs.ge(k, 1), gs.le(k, 2)) -- the cosine is below zero
  local below = gs.and_(gs.ge(k, 2), gs.le(k, 3))
  local cos, sin = gs.where(odd, s, c), gs.where(odd, c, s)
  return gs.where(behind, -cos, cos), gs.where(below, -sin, sin)
end

return M
