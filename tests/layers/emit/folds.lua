-- Reductions by one's own step and merge: the largest and where it lies, then the second largest,
-- and a mean and variance in one pass.
local gs = require "gradsmith"

local function largest(x, i)
  return gs.reduce({ x = x, i = i }, "V", {
    init = { best = -math.huge, at = 0 },
    step = function(s, e)
      local more = gs.or_(gs.gt(e.x, s.best), gs.and_(gs.eq(e.x, s.best), gs.lt(e.i, s.at)))
      return { best = gs.where(more, e.x, s.best), at = gs.where(more, e.i, s.at) }
    end,
    merge = function(a, b)
      local more = gs.or_(gs.gt(b.best, a.best), gs.and_(gs.eq(b.best, a.best), gs.lt(b.at, a.at)))
      return { best = gs.where(more, b.best, a.best), at = gs.where(more, b.at, a.at) }
    end,
  })
end

local function welford(x)
  return gs.reduce({ x = x }, "V", {
    init = { n = 0.0, mean = 0.0, m2 = 0.0 },
    step = function(s, e)
      local n = s.n + 1
      local d = e.x - s.mean
      local mean = s.mean + d / n
      return { n = n, mean = mean, m2 = s.m2 + d * (e.x - mean) }
    end,
    merge = function(a, b)
      local n = a.n + b.n
      local part = gs.where(gs.gt(n, 0), b.n / gs.max(n, 1), 0)
      local d = b.mean - a.mean
      return { n = n, mean = a.mean + d * part, m2 = a.m2 + b.m2 + d * d * a.n * part }
    end,
  })
end

return gs.kernel "folds" {
  doc  = "the two largest of a row and where; its mean and variance",
  dims = { "T", "V" },
  x = gs.input { "T", "V", type = "f32" },
  outputs = { "y", "first", "i", "second", "j", "mean", "var", y = "f32", first = "f32", i = "i32",
              second = "f32", j = "i64", mean = "f32", var = "f32" },

  forward = function(p)
    local at = gs.index "V"
    local one = largest(p.x, at)
    local two = largest(gs.where(gs.ne(at, one.at), p.x, -1e30), at)
    local w = welford(p.x)
    return { y = (p.x - w.mean) * gs.rsqrt(w.m2 / w.n + 1e-3) + one.best, first = one.best,
             i = one.at, second = two.best, j = two.at, mean = w.mean, var = w.m2 / w.n }
  end,
}
