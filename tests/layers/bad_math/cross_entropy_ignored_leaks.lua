-- Wrong on purpose: ignored tokens have a gradient.
local gs = require "gradsmith"

return gs.layer "cross_entropy_ignored_leaks" {
  doc    = "loss = logsumexp(logits) - logits[label]",
  dims   = { "T", "V" },
  logits = gs.input { "T", "V" },
  label  = gs.input { "T", type = "i32", range = { 0, "V" }, also = { -100 } },
  ignore = gs.option(-100),
  outputs = { loss = "f32" },
  inplace = { dlogits = "logits" },

  forward = function(p)
    local ok = gs.ne(p.label, p.ignore)
    local lse = gs.logsumexp(p.logits, "V")
    return {
      loss = gs.where(ok, lse - gs.at(p.logits, "V", p.label, ok), 0),
      save = { lse = lse },
    }
  end,

  backward = function(p, d, s)
    local hot = gs.real(gs.eq(gs.index "V", p.label))
    return { logits = d.loss * (gs.exp(p.logits - s.lse) - hot) }
  end,
}
