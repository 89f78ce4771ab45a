-- embedding: the row of E that each token's id names. Its gradient is a sum grouped by id, in the
-- order of the tokens; the padding id adds nothing to it.
-- Reference: torch.nn.functional.embedding(padding_idx); gemma = 1: transformers
-- GemmaModel, which multiplies by √H rounded to the storage type.
local gs = require "gradsmith"

local function scale(p)
  return p.gemma ~= 0 and gs.round(gs.sqrt(gs.size "H"), p.E.type) or 1
end

return gs.layer "embedding" {
  doc   = "y[t] = E[id[t]]",
  dims  = { "T", "V", "H" },
  outer = { "T", "V" },
  E     = gs.weight { "V", "H" },
  id    = gs.input { "T", type = "i32", range = { 0, "V" } },
  gemma   = gs.option { 0, values = { 0, 1 } }, -- 1: times √H
  padding = gs.option { -1, also = { 0 } }, -- an id that takes no gradient

  forward = function(p)
    local row = gs.at(p.E, "V", p.id)
    if p.padding >= 0 then row = gs.where(gs.eq(p.id, p.padding), gs.stop(row), row) end
    return { y = scale(p) * row }
  end,

  backward = function(p, d)
    local g = scale(p) * d.y
    if p.padding >= 0 then g = gs.where(gs.ne(p.id, p.padding), g, 0) end
    return { E = gs.sum_by(g, p.id, "T", "V") }
  end,
}
