-- held_registers: w is read along H by sums over H, which keep it in registers, and along {e, H} by
-- a store, whose lanes meet other elements of it.
local gs = require "gradsmith"

return gs.layer "held_registers" {
  dims = { "T", "e", "H" },
  w = gs.input { "H" },
  z = gs.input { "T", "e" },
  c = gs.input { "T", "e", "H" },
  outputs = { o0 = "f32", o1 = "bf16", o2 = "f16" },
  forward = function(p)
    local lse = gs.logsumexp(p.z, "e")
    local gate = gs.sigmoid(p.w)^(1.5 + gs.sin(lse))
    return { o0 = gs.max(p.c, gate), o1 = gate, o2 = lse }
  end,
  backward = gs.derived,
}
