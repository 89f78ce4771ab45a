-- expect: 11: an expression is nested more than 1000 deep: is a loop too long?
local gs = require "gradsmith"

return gs.layer "depth_bomb" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },

  forward = function(p)
    local y = p.x
    -- each step shares what it is made of: few values, but a deep expression
    for i = 1, 5000 do y = gs.sin(y) end
    return { y = y }
  end,

  backward = gs.derived,
}
