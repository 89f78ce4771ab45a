-- grouped_middle: rows summed by key, where the key's dim lies between the others in memory; and by
-- a key that is made of an operation.
local gs = require "gradsmith"

return gs.kernel "grouped_middle" {
  dims = { "T", "e", "H", j = 2 },
  c = gs.input { "T", "e", "j", grad = false },
  i = gs.input { "T", type = "i32", range = { 0, "H" } },
  outputs = { y = "f32", top = "f32", z = "f32" },
  forward = function(p)
    local y = gs.sum_by(p.c, p.i, "T", "H")
    return { y = y, top = gs.max(y, "H"), z = gs.sum_by(p.c, gs.remainder(p.i, 4), "T", "H") }
  end,
}
