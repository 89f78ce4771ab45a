-- expect: 14: gs.reduce: step gives no 'n' || 15: gs.reduce: 'merge' must be a function, not nil || 16: what step gives for 'n' is not an integer, but its start is one || 19: step and merge of a fold may use the state, the element and numbers alone, but they use x || 12: gs.reduce: unknown dim 'R' || 21: the state.m does not exist || 12: a fold over the dim T, whose size is known only at launch
local gs = require "gradsmith"

return gs.kernel "values_reduce" {
  doc  = "wrong",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },

  forward = function(p)
    local function keep(a) return { n = a.n } end
    local function none() return {} end
    local function fold(dim, spec) return gs.reduce({ x = p.x }, dim, spec) end
    local init = { n = 0 }
    local a = gs.reduce({ x = p.x }, "H", { init = init, step = none, merge = keep })
    local b = gs.reduce({ x = p.x }, "H", { init = init, step = keep })
    local c = gs.reduce({ x = p.x }, "H", { init = init, merge = keep,
      step = function(s, e) return { n = s.n + e.x } end })
    local function reads(s) return { n = gs.where(gs.gt(p.x, 0), s.n, 0) } end
    local d = gs.reduce({ x = p.x }, "H", { init = init, step = reads, merge = keep })
    local e = fold("R", { init = init, step = keep, merge = keep })
    local f = fold("H", { init = init, step = function(s) return { n = s.m } end, merge = keep })
    local g = fold("T", { init = init, step = keep, merge = keep })
    return { y = p.x * a.n * b.n * c.n * d.n * e.n * f.n * g.n }
  end,
}
