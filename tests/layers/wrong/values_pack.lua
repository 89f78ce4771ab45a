-- expect: 10: gs.pack: the order of the codes in a byte is 'high-first' or 'low-first', not missing || 11: argument 1 of gs.pack is real, but codes are integers: see gs.integer || 12: gs.unpack: the order
local gs = require "gradsmith"

return gs.kernel "values_pack" {
  doc  = "wrong",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },

  forward = function(p)
    local a = gs.pack(gs.integer(p.x), "H", "h=3")
    local b = gs.pack(p.x, "H", "h=3", "high-first")
    local c = gs.unpack(gs.integer(p.x), "H", "D=12", "big")
    return { y = p.x }
  end,
}
