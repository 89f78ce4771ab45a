-- captured: a maximum over H is read at indices that differ along H themselves.
local gs = require "gradsmith"

return gs.kernel "captured" {
  dims = { "T", "e", "H" },
  u = gs.input { "e", "H", grad = false },
  q = gs.input { "T", "H", type = "u8", range = { 0, 9 } },
  outputs = { y = "f32" },
  forward = function(p)
    local top = gs.max(gs.tanh(p.u), "H")
    local ok = gs.lt(p.q, gs.size "e")
    return { y = gs.at(top, "e", p.q, ok) + gs.real(p.q) }
  end,
}
