local gs = require "gradsmith"
local code = gs.table { -1, -0.5, 0, 0.5, 1 }
return gs.kernel "q" {
  dims = { "N", B = "ceil(N/4)", k = "4", k2 = "2" }, x = gs.input { "N" },
  outputs = { q = "u8", s = "f32" },
  forward = function(p)
    local x = gs.split(p.x, "N", "B", "k", { tail = "mask" })
    local m = gs.max(gs.abs(x), "k")
    local i = gs.bucket(gs.where(gs.gt(m, 0), x / m, 0), gs.table { -0.75, -0.25, 0.25, 0.75 })
    return { q = gs.pack(i, "k", "k2", "high-first"), s = m + 0 * code[i] }
  end,
}
