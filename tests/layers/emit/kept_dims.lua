-- Weight gradients of different kept dims from the same rows.
local gs = require "gradsmith"

return gs.layer "kept_dims" {
  doc  = "y = a·(w·n + b) with n a layer norm; a a number, h one a head",
  dims = { "T", "N", "D" },
  x = gs.input { "T", "N", "D" },
  w = gs.weight { "N", "D" },
  b = gs.weight { "D" },
  h = gs.weight { "N" },
  a = gs.weight { },

  forward = function(p)
    local m = gs.mean(p.x, { "N", "D" })
    local r = gs.rsqrt(gs.mean((p.x - m)^2, { "N", "D" }) + 1e-5)
    return { y = p.a * p.h * (p.w * (p.x - m) * r + p.b), save = { m = m, r = r } }
  end,

  backward = function(p, d, s)
    local n = (p.x - s.m) * s.r
    local g = d.y * p.a * p.h * p.w
    local all = { "N", "D" }
    return {
      x = s.r * (g - gs.mean(g, all) - n * gs.mean(g * n, all)),
      w = gs.sum(d.y * p.a * p.h * n, "T"),
      b = gs.sum(d.y * p.a * p.h, { "T", "N" }),
      h = gs.sum(d.y * p.a * (p.w * n + p.b), { "T", "D" }),
      a = gs.sum(d.y * p.h * (p.w * n + p.b), "all"),
    }
  end,
}
