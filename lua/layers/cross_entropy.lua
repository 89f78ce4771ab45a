-- cross_entropy: the loss of each token, f32; 0 where the label is the ignored one.
-- The gradient (p - 1)·upstream is formed in f32 and rounded once.
-- Reference: torch.nn.functional.cross_entropy(reduction="none").
local gs = require "gradsmith"

return gs.layer "cross_entropy" {
  doc    = "loss = logsumexp(logits) - logits[label]",
  dims   = { "T", "V" },
  logits = gs.input { "T", "V" },
  label  = gs.input { "T", type = "i32" },
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
    return { logits = gs.where(ok, d.loss * (gs.exp(p.logits - s.lse) - hot), 0) }
  end,
}
