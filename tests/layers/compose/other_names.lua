-- Parts that call a dim differently, and a derived dim whose name means another size in each.
local gs = require "gradsmith"

local halved = gs.layer "halved" {
  dims = { "T", "D", h = "D/2" },
  x = gs.input { "T", "D" },
  forward = function(p)
    local a, b = gs.halves(p.x, "D", "h")
    return { y = a * gs.sigmoid(b) }
  end,
  backward = gs.derived,
}

local again = gs.layer "again" {
  dims = { "T", "W", h = "W/2" },
  x = gs.input { "T", "W" },
  w = gs.weight { "h" },
  forward = function(p)
    local a, b = gs.pairs(p.x, "W", "h")
    return { z = p.w * (a - b)^2 }
  end,
  backward = function(p, d)
    local a, b = gs.pairs(p.x, "W", "h")
    local g = 2 * d.z * p.w * (a - b)
    return { x = gs.from_pairs(g, -g, "W", "h"), w = gs.sum(d.z * (a - b)^2, "T") }
  end,
}

-- What `again` calls W is the half of D here.
return gs.fuse(halved, again, { x = "y", W = "h" })
