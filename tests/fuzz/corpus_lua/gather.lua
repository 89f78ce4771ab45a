local gs = require "gradsmith"
return gs.layer "a" {
  dims = { "T", "V" }, z = gs.input { "T", "V" },
  label = gs.input { "T", type = "i32", range = { 0, "V" }, also = { -100 } },
  forward = function(p)
    local ok = gs.ne(p.label, -100)
    local lse = gs.logsumexp(p.z, "V")
    return { loss = gs.where(ok, lse - gs.at(p.z, "V", p.label, ok), 0), save = { lse = lse } }
  end,
  backward = function(p, d, s)
    local hot = gs.real(gs.eq(gs.index "V", p.label))
    return { z = gs.where(gs.ne(p.label, -100), d.loss * (gs.exp(p.z - s.lse) - hot), 0) }
  end,
}
