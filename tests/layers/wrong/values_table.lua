-- expect: 10: element 2 of gs.table, counted from 1, is x: finite numbers || 11: element 4 of a table: a whole number from 0 to 1 is legal || 12: the index of a table is a boolean || 13: the first argument of lookup is a real number, but it must be an integer
local gs = require "gradsmith"

return gs.kernel "values_table" {
  doc  = "wrong",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },

  forward = function(p)
    local bad = gs.table { 1, "x" }
    local n = gs.table { 1, 2 }[4]
    local none = gs.table { 1, 2 }[true]
    return { y = gs.table { 1, 2 }[p.x] }
  end,
}
