-- expect: 10: argument 3 of gs.topk must be a dim and its size || 11: gs.topk of 7 along H, whose size is 6 || 12: argument 1 of gs.softmax is nil || 13: gs.round to 'i32': a storage type is wanted || 14: argument 3 of gs.round may be { rand = ... } only
local gs = require "gradsmith"

return gs.kernel "values_topk" {
  doc  = "wrong",
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },

  forward = function(p)
    local a = gs.topk(p.x, "H", 3)
    local b = gs.topk(p.x, "H", "K=7")
    local c = gs.softmax(p.nothing and nil, "H")
    local d = gs.round(p.x, "i32")
    return { y = gs.round(p.x, "bf16", { random = 1 }) }
  end,
}
