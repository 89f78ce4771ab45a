-- embedding: the row of E that each token's id names. Its gradient is a sum grouped by id, in the
-- order of the tokens.
local gs = require "gradsmith"

return gs.layer "embedding" {
  doc   = "y[t] = E[id[t]]",
  dims  = { "T", "V", "H" },
  outer = { "T", "V" },
  E     = gs.weight { "V", "H" },
  id    = gs.input { "T", type = "i32" },

  forward = function(p) return { y = gs.at(p.E, "V", p.id) } end,
  backward = function(p, d) return { E = gs.sum_by(d.y, p.id, "T", "V") } end,
}
