-- NAME: a loss a token. Say here which reference it follows.
local gs = require "gradsmith"

return gs.layer "NAME" {
  doc    = "loss = logsumexp(logits) - logits[label], 0 where the label is negative",
  dims   = { "T", "V" },
  logits = gs.input { "T", "V" },
  -- An integer input has no gradient. What `check` draws for it: 0 to V - 1, now and then -100.
  label  = gs.input { "T", type = "i32", range = { 0, "V" }, also = { -100 } },
  outputs = { loss = "f32" },               -- storage types of outputs
  inplace = { dlogits = "logits" },         -- a permission; the compiler proves it safe first

  forward = function(p)
    local ok = gs.ge(p.label, 0)            -- Lua's own < gives no value: gs.lt, gs.ge, gs.eq ...
    local lse = gs.logsumexp(p.logits, "V")
    -- gs.at reads one element of V a token, and nothing where ok is false.
    local loss = lse - gs.at(p.logits, "V", p.label, ok)
    return { loss = gs.where(ok, loss, 0), save = { lse = lse } }
  end,

  -- exp(z - lse) - 1 at the label, formed in f32 and rounded once, when it is stored.
  backward = function(p, d, s)
    local hot = gs.real(gs.eq(gs.index "V", p.label))
    local g = gs.where(gs.ge(p.label, 0), d.loss, 0)
    return { logits = g * (gs.exp(p.logits - s.lse) - hot) }
  end,
}
