-- The values of codes, two to a byte, in blocks of an outer dim.
local gs = require "gradsmith"

local codes = gs.table { -1, -0.5, -0.25, -0.1, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1 }

return gs.kernel "block_values" {
  doc  = "y = the table's element of each code, times its block's largest absolute value",
  dims = { "N", B = "ceil(N/64)", P = "ceil(N/2)" },
  q = gs.input { "P", type = "u8", range = { 0, 256 } },
  absmax = gs.input { "B", type = "f32" },
  outputs = { "y" },

  forward = function(p)
    local q = gs.split(p.q, "P", "B", "j=32", { tail = "mask" })
    local code = gs.unpack(q, "j", "k", "high-first")
    return { y = gs.merge(codes[code] * p.absmax, "B", "k", "N") }
  end,
}
