-- Wrong on purpose: the gradient goes to the next row.
local gs = require "gradsmith"

return gs.layer "embedding_off_by_one" {
  doc   = "y[t] = E[id[t]]",
  dims  = { "T", "V", "H" },
  outer = { "T", "V" },
  E     = gs.weight { "V", "H" },
  id    = gs.input { "T", type = "i32" },

  forward = function(p) return { y = gs.at(p.E, "V", p.id) } end,
  backward = function(p, d) return { E = gs.sum_by(d.y, p.id + 1, "T", "V") } end,
}
