-- expect: 4: gs.attention "incomplete": dscore is missing: dscore = function(dz, s, i, p) return dz end
local gs = require "gradsmith"

return gs.attention "incomplete" {
  score = function(s) return s end,
  keys  = function(i) return 0, i.q end,
}
