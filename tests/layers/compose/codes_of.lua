-- codes_of: 4-bit codes, two to a byte, of a dim whose size a launch says and whose name differs.
local gs = require "gradsmith"

local scaled = gs.layer "scaled" {
  dims = { "N" },
  z = gs.input { "N" },
  outputs = { y = "f32" },
  forward = function(p) return { y = gs.sigmoid(p.z) * 1.5 } end,
  backward = gs.derived,
}

local codes = gs.kernel "codes" {
  dims = { "M", C = "ceil(M/2)" },
  x = gs.input { "M", grad = false },
  outputs = { q = "u8" },
  forward = function(p)
    return { q = gs.pack(gs.integer(gs.clamp(p.x, 0, 0.9375) * 16), "M", "C", "low-first") }
  end,
}

return gs.fuse(scaled, codes, { x = "y", M = "N", C = "Q" })
