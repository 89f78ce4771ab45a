-- where_index: one element of a row of whole numbers is another number.
local gs = require "gradsmith"

return gs.kernel "where_index" {
  dims = { "T", "H" },
  at = gs.input { "T", type = "i32", grad = false },
  x = gs.input { "T", "H", type = "i32", grad = false },
  outputs = { y = "i32" },
  forward = function(p)
    return { y = gs.where(gs.eq(gs.index "H", p.at), p.at, p.x) }
  end,
}
