-- Blocks of an outer dim that may leave a rest: scales of blocks, codes by a table's cuts, two to a
-- byte, in one pass over x.
local gs = require "gradsmith"

local codes = gs.table { -1, -0.5, -0.25, -0.1, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1 }
local cuts = {}
for i = 1, #codes - 1 do cuts[i] = (codes[i - 1] + codes[i]) / 2 end
cuts = gs.table(cuts)

return gs.kernel "block_codes" {
  doc  = "codes, two to a byte, and the largest absolute value of every block of x",
  dims = { "N", B = "ceil(N/64)", P = "ceil(N/2)" },
  x = gs.input { "N" },
  outputs = { q = "u8", absmax = "f32" },

  forward = function(p)
    local x = gs.split(p.x, "N", "B", "k=64", { tail = "mask" })
    local absmax = gs.max(gs.abs(x), "k")
    local code = gs.bucket(gs.where(gs.gt(absmax, 0), x / absmax, 0), cuts)
    local bytes = gs.pack(code, "k", "j=32", "high-first")
    return { q = gs.merge(bytes, "B", "j", "P"), absmax = absmax }
  end,
}
