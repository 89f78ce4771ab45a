-- expect: 7: 'a b' is not a name that a tensor can have
local gs = require "gradsmith"

return gs.layer "names" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  ["a b"] = gs.input { "T" },
  forward = function(p) return { ["y z"] = p.x * p["a b"] } end,
  backward = function(p, d) return { x = d["y z"] } end,
}
