local gs = require "gradsmith"

return gs.layer "scaled_tanh" {
  doc  = "y = tanh(w·x)",
  dims = { "T", "H" },                -- names; the last is contiguous, the first a launch argument
  x    = gs.input { "T", "H" },
  w    = gs.weight { "H" },

  forward = function(p)               -- p: the parameters, by name
    return { y = gs.tanh(p.w * p.x) }
  end,

  backward = function(p, d, s)        -- d: incoming gradients; s: outputs and saved values
    local g = d.y * (1 - s.y^2)
    return { x = g * p.w, w = gs.sum(g * p.x, "T") }
  end,
}
