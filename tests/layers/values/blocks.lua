-- Blocks of which the last may not be full, bytes of two codes, random numbers by place.
local gs = require "gradsmith"

return gs.kernel "blocks" {
  doc     = "blocks of N and of E",
  dims    = { "N", "E", B = "ceil(N/5)", P = "ceil(N/2)", C = "ceil(E/4)", k = "5", e = "4" },
  outputs = { mass = "f32", back = "f32", codes = "u8", high = "u8", low = "u8", pairs = "u8",
    back_codes = "i32", inner = "f32", inner_back = "f32", rand = "f32", moved = "f32",
    up = "e4m3" },
  x       = gs.input { "N" },
  y       = gs.input { "N", "E" },
  seed    = gs.step_scalar(),

  forward = function(p)
    local block = gs.split(p.x, "N", "B", "k=5", { tail = "mask" })
    local mass = gs.sum(gs.exp(block), "k")   -- exp(0) = 1 past the end
    local scaled = block / mass
    local codes = gs.bucket(p.x, gs.table { -1.5, -1, -0.5, 0, 0.5, 1, 1.5 })
    local high = gs.pack(codes, "N", "P", "high-first")
    local wide = gs.split(p.y, "E", "C", "e=4", { tail = "mask" })
    local r = gs.rand(p.seed, "here", { "N", "E" })
    return {
      mass = mass, back = gs.merge(scaled, "B", "k", "N"), codes = codes, high = high,
      low = gs.pack(codes, "N", "P", "low-first"),
      back_codes = gs.unpack(high, "P", "N", "high-first"),
      inner = gs.sum(wide, "e"), inner_back = gs.merge(2 * wide, "C", "e", "E"),
      rand = r, moved = gs.rand(p.seed, "here", { "N", "E" }, { offset = 7 }),
      up = gs.round(p.y, "e4m3", { rand = r }), pairs = gs.merge(gs.split(high, "P", "B2", "q=3",
        { tail = "mask" }), "B2", "q", "P"),
    }
  end,
}
