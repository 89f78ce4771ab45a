-- expect: 10: argument 2 of gs.bucket is a table: gs.table { ... } is wanted || 11: the table of bucket must ascend, but its element 1 is 3
local gs = require "gradsmith"

return gs.kernel "values_bucket" {
  doc  = "wrong",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },

  forward = function(p)
    local a = gs.bucket(p.x, { 1, 2 })
    return { y = gs.real(gs.bucket(p.x, gs.table { 1, 3, 2 })) + gs.real(a) }
  end,
}
