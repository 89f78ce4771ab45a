-- Indices from data: of rows, of elements of a row; and one that provably lies inside.
local gs = require "gradsmith"

return gs.kernel "gathers" {
  doc   = "elements at indices from data, and at the next place around a row",
  dims  = { "T", "V", "D" },
  outer = { "T", "V" },
  id  = gs.input { "T", type = "i32", range = { 0, "V" } },
  at  = gs.input { "T", "D", type = "u8", range = { 0, "D" } },
  tab = gs.input { "V", "D" },
  x   = gs.input { "T", "D" },
  outputs = { "y", "z" },

  forward = function(p)
    local row = gs.at(p.tab, "V", p.id)
    local x = gs.rename(p.x, "D", "E")
    local next = gs.remainder(gs.index "D" + 1, gs.size "D")
    return { y = row + gs.at(x, "E", p.at), z = gs.at(x, "E", next) }
  end,
}
