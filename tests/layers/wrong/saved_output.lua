-- expect: 12: saved 'again' is what output 'z' holds: backward can read s.z
local gs = require "gradsmith"

return gs.layer "saved_output" {
  dims = { "T", "H" },
  outputs = { z = "f32" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local two = 2 * p.x
    return { y = p.w * p.x, z = two, save = { again = two } }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w + d.z * s.again, w = gs.sum(d.y * p.x, "T") }
  end,
}
