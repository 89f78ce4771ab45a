-- Sums of a row's elements by a key that differs from row to row.
local gs = require "gradsmith"

return gs.kernel "row_keys" {
  doc  = "what each of V gets of a row's D elements, and how many they are",
  dims = { "T", "V", "D" },
  x = gs.input { "T", "D" },
  i = gs.input { "T", "D", type = "i32", range = { 0, "V" } },
  outputs = { "y", "n", y = "f32", n = "f32" },

  forward = function(p)
    return { y = gs.sum_by(p.x, p.i, "D", "V"), n = gs.sum_by(gs.real(gs.ge(p.i, 0)), p.i, "D", "V") }
  end,
}
