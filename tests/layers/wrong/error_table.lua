-- expect: 10: the file raised an error that is not a text
local gs = require "gradsmith"

return gs.layer "error_table" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  w = gs.weight { "H" },

  forward = function(p)
    error({ "no text" })
  end,

  backward = function(p, d, s)
    return { x = d.y * p.w, w = gs.sum(d.y * p.x, "T") }
  end,
}
