-- expect: 9: gs.rename: 'T;' is not a name that a dim can have || 10: gs.split: the size of dim 'q' is not known
local gs = require "gradsmith"

return gs.layer "made_name" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },

  forward = function(p)
    local a = gs.rename(p.x, "T", "T;")
    local b = gs.split(p.x, "H", "q", "r")
    return { y = a * b }
  end,
  backward = function(p, d) return { x = d.y } end,
}
