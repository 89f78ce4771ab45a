-- expect: 9: forward must return a table || 13: backward must return a table of gradients
local gs = require "gradsmith"

return gs.layer "no_result" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local y = p.w * p.x
  end,

  backward = function(p, d, s)
    local x = d.y * p.w
  end,
}
