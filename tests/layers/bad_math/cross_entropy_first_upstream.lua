-- Wrong on purpose: every token takes the upstream of token 0.
local gs = require "gradsmith"

return gs.layer "cross_entropy_first_upstream" {
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
    local ok = gs.ne(p.label, p.ignore)
    local hot = gs.real(gs.eq(gs.index "V", p.label))
    return { logits = gs.where(ok, gs.pick(d.loss, "T", 0) * (gs.exp(p.logits - s.lse) - hot), 0) }
  end,
}
