-- expect: 10: 'y' is a string; a value or a number is wanted || 14: the gradient of 'x' is a boolean
local gs = require "gradsmith"

return gs.layer "result_kind" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },

  -- the place is that of the function
  forward = function(p)
    return { y = "p.x" }
  end,

  backward = function(p, d)
    return { x = true }
  end,
}
