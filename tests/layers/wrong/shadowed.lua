-- expect: 6: 'save' has a meaning of its own in a layer: use another name || 7: 'outputs' has a meaning of its own in a layer: use another name
local gs = require "gradsmith"

return gs.layer "shadowed" {
  dims = { "T", "H" },
  save = gs.input { "T", grad = false },
  outputs = gs.input { "T" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
