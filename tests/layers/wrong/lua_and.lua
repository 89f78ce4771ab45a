-- expect: 10: Lua's `and` cannot see what 'gs.gt(p.x, 0)' will be: use gs.and_, or gs.where to choose
local gs = require "gradsmith"

return gs.layer "lua_and" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    return { y = p.w * p.x * (gs.gt(p.x, 0) and 1 or 2) }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
