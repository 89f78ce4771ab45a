-- Reductions over part of the inner dims: sums over {c, S} of each group G of channels, weight
-- gradients over {N, S}.
local gs = require "gradsmith"

return gs.layer "groupnorm_like" {
  doc  = "y = w·n + b; n: normalised over a group's channels and S",
  dims = { "N", "C", "S", G = "C/3", c = "3" },
  x = gs.input { "N", "C", "S" },
  w = gs.weight { "C" },
  b = gs.weight { "C" },

  forward = function(p)
    local x = gs.split(p.x, "C", "G", "c")
    local m = gs.mean(x, { "c", "S" })
    local r = gs.rsqrt(gs.mean((x - m)^2, { "c", "S" }) + 1e-5)
    return { y = gs.merge((x - m) * r, "G", "c", "C") * p.w + p.b, save = { m = m, r = r } }
  end,

  backward = function(p, d, s)
    local n = (gs.split(p.x, "C", "G", "c") - s.m) * s.r
    local whole = gs.merge(n, "G", "c", "C")
    local g = gs.split(d.y * p.w, "C", "G", "c")
    local dx = s.r * (g - gs.mean(g, { "c", "S" }) - n * gs.mean(g * n, { "c", "S" }))
    return {
      x = gs.merge(dx, "G", "c", "C"),
      w = gs.sum(d.y * whole, { "N", "S" }),
      b = gs.sum(d.y, { "N", "S" }),
    }
  end,
}
