-- attention: softmax attention over packed documents; G query heads share each of K heads of keys.
-- Positions count from the document's first key; its last query stands at its last key.
-- scale is above 0.
--
-- causal: keys up to the query. window: only the last `window` of these. cap: s becomes
-- cap·tanh(s/cap). alibi: slopes·(key - query) is added, a slope for each head. sink: a logit for
-- each head that takes part in the softmax and has no value. prefix: the first prefixes[b] keys of
-- document b are seen by all of its queries (the last of B1 is not read). fast_dq: sums for dq are
-- added in any order, so that the bits of dq differ from run to run.
-- Reference: transformers eager attention, softmax in f32; window, softcap as Gemma 2's, sinks as
-- gpt-oss's, ALiBi as BLOOM's.
local gs = require "gradsmith"

-- What ALiBi adds: less the farther away.
local function bias(i, p)
  return p.alibi == 1 and p.slopes * (i.k - i.q) or 0
end

return gs.attention "attention" {
  doc    = "y = softmax(score(scale·q·kᵀ), over the keys that a query sees)·v",
  causal = gs.option { 1, values = { 0, 1 } },
  window = gs.option { 0, also = { 3, 20 } },
  cap    = gs.option { 0, also = { 2.5 } },
  alibi  = gs.option { 0, values = { 0, 1 } },
  sink   = gs.option { 0, values = { 0, 1 } },
  prefix = gs.option { 0, values = { 0, 1 } },
  fast_dq = gs.option { 0, values = { 0, 1 } },
  slopes = gs.input { "K", "G", type = "f32", grad = false, optional = true, range = { 0, 1 } },
  sinks  = gs.weight { "K", "G", optional = true },
  prefixes = gs.input { "B1", type = "i32", optional = true, range = { 0, 40 } },

  score = function(s, i, p)
    local z = p.cap > 0 and p.cap * gs.tanh(s / p.cap) or s
    return z + bias(i, p)
  end,

  dscore = function(dz, _, i, p, z)
    if p.cap <= 0 then return dz end
    return dz * (1 - ((z - bias(i, p)) / p.cap)^2)
  end,

  keys = function(i, p)
    local first, last = 0, i.nk - 1
    if p.window > 0 then first = i.q - (p.window - 1) end
    if p.causal == 1 then
      last = i.q
    elseif p.window > 0 then
      last = i.q + (p.window - 1)
    end
    if p.prefix == 1 then
      first = p.window > 0 and gs.where(gs.gt(p.prefixes, 0), 0, first) or first
      last = gs.max(last, p.prefixes - 1)
    end
    return first, last
  end,

  sink_logit = function(p)
    if p.sink == 1 then return p.sinks end
  end,
}
