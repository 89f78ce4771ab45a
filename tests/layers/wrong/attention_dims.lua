-- expect: 6: the score of a pair depends on [K, D]; it may depend on [B1, K, G]
local gs = require "gradsmith"

return gs.attention "per_element" {
  w      = gs.input { "K", "D", grad = false },
  score  = function(s, i, p) return s + p.w end,
  dscore = function(dz) return dz end,
  keys   = function(i) return 0, i.q end,
}
