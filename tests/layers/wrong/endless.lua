-- expect: 10: stopped after 50 million instructions: is there an endless loop?
local gs = require "gradsmith"

return gs.layer "endless" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local n = 0; while true do n = n + 1 end
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
