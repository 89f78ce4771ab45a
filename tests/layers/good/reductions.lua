-- Reductions over lists of dims, "all", and the functions that the shipped layers do not use.
local gs = require "gradsmith"

return gs.layer "reductions" {
  dims = { "T", "N", "D" },
  x = gs.input { "T", "N", "D" },
  w = gs.weight { "N", "D" },
  c = gs.input { "N", "D", grad = false },
  id = gs.input { "T", type = "i32" },
  outputs = { "y", "total", "top", "best", total = "f32" },

  forward = function(p)
    local e = gs.erf(p.x) + gs.log(1 + p.x^2) + gs.tanh(p.x) * gs.cos(p.w)
    return {
      y = gs.mean(e, { "N", "D" }),
      total = gs.sum(gs.sin(p.x) * p.w, "all"),
      top = gs.max(p.x, "D"),
      best = gs.min(gs.max(p.x, 0), 1) * gs.stop(p.c) + gs.real(gs.not_(gs.or_(gs.eq(p.id, 3),
        gs.ne(p.id, 3)))),
    }
  end,

  backward = function(p, d)
    local n = gs.size "N" * gs.size "D"
    local slope = 2 / math.sqrt(math.pi) * gs.exp(-p.x^2) + 2 * p.x / (1 + p.x^2)
      + (1 - gs.tanh(p.x)^2) * gs.cos(p.w)
    local is_top = gs.real(gs.eq(p.x, gs.max(p.x, "D")))
    local inside = gs.and_(gs.gt(p.x, 0), gs.lt(p.x, 1))
    return {
      x = d.y * slope / n + d.total * gs.cos(p.x) * p.w + d.top * is_top
        + gs.where(inside, d.best * p.c, 0),
      w = gs.sum(-d.y * gs.tanh(p.x) * gs.sin(p.w) / n + d.total * gs.sin(p.x), "T"),
    }
  end,
}
