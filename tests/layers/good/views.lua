-- Every view of the language in one layer: neighbours as pairs, a slice, a join, a merge of dims.
local gs = require "gradsmith"

return gs.layer "views" {
  dims = { "T", "N", "D", h = "D/2", M = "N*D", r = "D/3" },
  x = gs.input { "T", "N", "D" },
  m = gs.input { "T", "M" },
  outputs = { "y", "z", "u" },

  forward = function(p)
    local a, b = gs.pairs(p.x, "D")
    local turned = gs.from_pairs(a * b, b - a, "D")
    local part = gs.slice(p.x, "D", "r", 1)
    local flat = gs.merge(p.x, "N", "D", "M")
    return { y = turned, z = gs.sum(part^2, "r"), u = flat * p.m }
  end,

  backward = function(p, d)
    local a, b = gs.pairs(p.x, "D")
    local da, db = gs.pairs(d.y, "D")
    local turned = gs.from_pairs(da * b - db, da * a + db, "D")
    local i = gs.index "D" - 1
    local inside = gs.and_(gs.ge(i, 0), gs.lt(i, gs.size "r"))
    local part = gs.where(inside, 2 * p.x * d.z, 0)
    local flat = gs.split(d.u * p.m, "M", "N", "D")
    return { x = turned + part + flat, m = gs.merge(p.x, "N", "D", "M") * d.u }
  end,
}
