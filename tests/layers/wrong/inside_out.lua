-- expect: 10: unknown name 'setmetatable'; known: assert, error, ipairs, math, pairs, require, select, string, table, tonumber, tostring, type || 11: unknown name 'rawset'; known: assert, error, ipairs, math, pairs, require, select, string, table, tonumber, tostring, type
local gs = require "gradsmith"

return gs.layer "inside_out" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    setmetatable({}, { __index = p })
    rawset(gs, "sum", nil)
    return { y = p.w * p.x }
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
