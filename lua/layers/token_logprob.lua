-- token_logprob: the log-probability of each token's label, f32; 0 where the label is the ignored
-- one. With the entropy of the distribution beside it, through which gradient flows too.
-- Reference: log_softmax(scale·logits) gathered at the label, as TRL's selective_log_softmax;
-- scale is 1 / temperature.
local gs = require "gradsmith"

local function scores(p)
  local u = p.scale * p.logits
  local z = p.softcap > 0 and p.softcap * gs.tanh(u / p.softcap) or u
  return z, gs.ne(p.label, p.ignore)
end

return gs.layer "token_logprob" {
  doc    = "logp = z[label] - logsumexp(z), z = softcap(scale·logits)",
  dims   = { "T", "V" },
  logits = gs.input { "T", "V" },
  label  = gs.input { "T", type = "i32", range = { 0, "V" }, also = { -100 } },
  ignore  = gs.option(-100),
  scale   = gs.option { 1, also = { 0.5 } },
  softcap = gs.option { 0, also = { 30 } },
  with_entropy = gs.option { 0, values = { 0, 1 } }, -- 1: also entropy = -Σ p·log p
  outputs = { "logp", "entropy", logp = "f32", entropy = { type = "f32", optional = true } },
  inplace = { dlogits = "logits" },

  forward = function(p)
    local z, ok = scores(p)
    local own = gs.at(z, "V", p.label, ok)
    local nll = gs.logsumexp(z - own, "V")
    local out = { logp = gs.where(ok, -nll, 0), save = { own = own, nll = nll } }
    if p.with_entropy ~= 0 then
      local logp = z - own - nll
      out.entropy = gs.where(ok, -gs.sum(gs.exp(logp) * logp, "V"), 0)
    end
    return out
  end,

  backward = function(p, d, s)
    local z, ok = scores(p)
    local logp = z - s.own - s.nll
    local hot = gs.real(gs.eq(gs.index "V", p.label))
    local dz = d.logp * (hot - gs.exp(logp))
    if p.with_entropy ~= 0 then dz = dz - d.entropy * gs.exp(logp) * (logp + s.entropy) end
    local slope = p.softcap > 0 and p.scale * (1 - (z / p.softcap)^2) or p.scale
    return { logits = gs.where(ok, slope * dz, 0) }
  end,
}
