-- NAME: a kernel has no backward: an optimizer, a quantiser, a table.
local gs = require "gradsmith"

return gs.kernel "NAME" {
  doc  = "p = p - lr·(momentum·m + g),  m = momentum·m + g",
  dims = { "N" },
  p    = gs.input { "N", type = "f32" },
  m    = gs.input { "N", type = "f32" },
  g    = gs.input { "N" },
  lr   = gs.step_scalar(),       -- read on the device in every step
  momentum = gs.option(0.9),     -- a Lua number here; each value is a specialisation
  outputs = { "p_out", "m_out", p_out = "f32", m_out = "f32" },
  inplace = { p_out = "p", m_out = "m" },

  forward = function(p)
    local m = p.momentum * p.m + p.g
    return { p_out = p.p - p.lr * (p.momentum * m + p.g), m_out = m }
  end,
}
