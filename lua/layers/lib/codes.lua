-- codes: the code tables of quantised types, and their cuts (which code a number gets), as
-- bitsandbytes has them. Every number is a float32, kept exactly; tables count from 0.
local gs = require "gradsmith"

-- Rounded to float32 (24 bits); for numbers far from the ends of its range.
local function f32(x)
  local c = x * (2 ^ 29 + 1)
  return c - (c - x)
end

-- The float32 next below x (x not 0, not subnormal).
local function below(x) return f32(x - math.abs(x) * (2 ^ -24 + 2 ^ -34)) end

-- Halfway between neighbours: a number above cut[i] is nearer to code i + 1.
local function midpoints(codes)
  local cuts = {}
  for i = 1, #codes - 1 do cuts[i] = f32((codes[i] + codes[i + 1]) / 2) end
  return cuts
end

-- bitsandbytes' binary search over 256 codes gives a tie to the even code (from 0): a cut below an
-- even code is moved to the number before it.
local function even_midpoints(codes)
  local cuts = midpoints(codes)
  for i = 2, #cuts, 2 do cuts[i] = below(cuts[i]) end
  return cuts
end

-- The means of neighbours among n numbers from 0.1 to 1 in equal steps, in f32 as torch.linspace
-- makes them: from both ends, by fused multiplication and addition (exact here in float64).
local function means(n)
  local step, b, m = f32(f32(1 - f32(0.1)) / (n - 1)), {}, {}
  for i = 0, n - 1 do
    b[i] = i < n // 2 and f32(f32(0.1) + step * i) or f32(1 - step * (n - 1 - i))
  end
  for i = 0, n - 2 do m[i + 1] = f32(f32(b[i] + b[i + 1]) / 2) end
  return m
end

-- The dynamic map of 8 bits (Dettmers, arXiv:1511.04561; bitsandbytes' create_dynamic_map): the
-- exponent goes from 10^-6 to 1; the smaller it is, the fewer bits are left for the fraction.
local function dynamic(signed)
  local codes = { 0, 1 }
  for e = 0, 6 do
    local items = signed and 2 ^ e or 2 ^ (e + 1)
    for _, m in ipairs(means(math.tointeger(items) + 1)) do
      local v = f32(f32(10.0 ^ (e - 6)) * m)
      codes[#codes + 1] = v
      if signed then codes[#codes + 1] = -v end
    end
  end
  table.sort(codes)
  return codes
end

-- QLoRA's NF4: quantiles of the normal distribution (arXiv:2305.14314), as printed there.
local nf4 = { -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
  -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534,
  0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434,
  0.5626170039176941, 0.7229568362236023, 1 }

-- bitsandbytes' FP4: a bit of sign, two of exponent, one of fraction; not in order of size.
-- 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4 and the same below zero.
local fp4 = {}
for i, twelfths in ipairs { 0, 0.0625, 8, 12, 4, 6, 2, 3 } do
  fp4[i] = f32(twelfths / 12)
  fp4[i + 8] = -fp4[i]
end

-- OCP FP4 (E2M1), the elements of MXFP4: the sign is the highest bit.
local e2m1 = { 0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6 }

local signed, unsigned = dynamic(true), dynamic(false)

return {
  f32 = f32,
  nf4 = gs.table(nf4),
  nf4_cuts = gs.table(midpoints(nf4)),
  fp4 = gs.table(fp4),
  -- of |x|: the numbers that bitsandbytes' kernel writes, and the code of each interval
  fp4_cuts = gs.table { f32(0.00260417), 0.0859375, f32(0.20833333), f32(0.29166667),
    f32(0.4166667), f32(0.583333), f32(0.8333333) },
  fp4_order = gs.table { 0, 1, 6, 7, 4, 5, 2, 3 },
  e2m1 = gs.table(e2m1),
  dynamic = gs.table(signed), -- code 127 is 0
  dynamic_cuts = gs.table(even_midpoints(signed)),
  dynamic_unsigned = gs.table(unsigned),
  dynamic_unsigned_cuts = gs.table(even_midpoints(unsigned)),
}
