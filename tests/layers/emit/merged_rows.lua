-- merged_rows: what is found along blocks of an outer dim is stored along the whole of it, beside an
-- inner dim.
local gs = require "gradsmith"

return gs.layer "merged_rows" {
  dims = { "N", B = "ceil(N/32)", "e", k = 32, j = 2 },
  z = gs.input { "N", "e" },
  outputs = { y = "f16", v = "bf16" },
  forward = function(p)
    local x = gs.split(p.z, "N", "B", "k", { tail = "mask" })
    local v = gs.topk(x, "k", "j=2")
    return { y = gs.merge(gs.softmax(x, "k"), "B", "k", "N"), v = v }
  end,
  backward = gs.derived,
}
