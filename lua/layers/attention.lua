-- attention: causal attention over packed documents; G query heads share each of K key-value heads.
-- start[t] is the index of the first token of t's document, so t sees start[t] .. t.
-- The kernels are templates/attention.cu; what is written here is the mathematics that they are
-- checked against. Reference: transformers eager attention, softmax in f32.
local gs = require "gradsmith"

-- scores z[T,K,G,S] of query t for key s, and whether t sees s; keys are indexed by S.
local function scores(p)
  local z = p.scale * gs.sum(p.q * gs.rename(p.k, "T", "S"), "D")
  local t, s = gs.index "T", gs.index "S"
  return z, gs.and_(gs.le(s, t), gs.ge(s, p.start))
end

return gs.layer "attention" {
  doc  = "y = softmax(scale·q·kᵀ, over the earlier tokens of the document)·v",
  dims = { "T", "K", "G", "D" },
  q = gs.input { "T", "K", "G", "D" },
  k = gs.input { "T", "K", "D" },
  v = gs.input { "T", "K", "D" },
  start = gs.input { "T", type = "i32" },
  scale = gs.scalar(1),
  body  = gs.template "attention",

  forward = function(p)
    local z, seen = scores(p)
    local lse = gs.logsumexp(gs.where(seen, z, -1e30), "S")
    local w = gs.where(seen, gs.exp(z - lse), 0)
    return { y = gs.sum(w * gs.rename(p.v, "T", "S"), "S"), save = { lse = lse } }
  end,

  backward = function(p, d, s)
    local z, seen = scores(p)
    local w = gs.where(seen, gs.exp(z - s.lse), 0)
    local delta = gs.sum(d.y * s.y, "D")
    local dw = gs.sum(d.y * gs.rename(p.v, "T", "S"), "D")
    local dz = p.scale * w * (dw - delta)
    return {
      q = gs.sum(dz * gs.rename(p.k, "T", "S"), "S"),
      k = gs.rename(gs.sum(dz * p.q, { "T", "G" }), "S", "T"),
      v = gs.rename(gs.sum(w * d.y, { "T", "G" }), "S", "T"),
    }
  end,
}
