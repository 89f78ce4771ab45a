-- expect: 11: Lua's `if` cannot see what 'big' will be: use gs.where; `if` is for options || 12: Lua's `not` cannot see what 'big' will be: use gs.not_ || 12: Lua's `and` cannot see what 'big' will be: use gs.and_, or gs.where to choose
local gs = require "gradsmith"

return gs.layer "lua_if" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local big = gs.gt(p.x, 1)
    if big then return { y = p.w } end
    return { y = p.w * p.x * (not big and 1 or 0) }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
