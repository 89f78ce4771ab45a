-- expect: 11: Lua's == cannot compare values, it is always false: use gs.eq || 12: Lua's == cannot compare values, it is always false: use gs.eq
local gs = require "gradsmith"

return gs.layer "lua_equal" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    local z = p.x
    local m = p.x == 0 and 1 or 2
    if z == p.w then m = 3 end
    return { y = p.w * p.x * m }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
