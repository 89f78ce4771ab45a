local gs = require "gradsmith"
return gs.layer "a" {
  dims = { "T", "N", "D" }, x = gs.input { "T", "N", "D" }, on = gs.option { 0, values = { 0, 1 } },
  outputs = { "y", "n", n = { type = "u8", optional = true } },
  forward = function(p)
    local y = gs.rename(gs.sum(p.x, { "N" }), "D", "D")
    for i = 0, 3 do y = y + gs.sin(i * y) end
    return { y = gs.round(y, p.x.type), n = p.on == 1 and gs.gt(y, 0) or nil }
  end,
  backward = function(p, d, s) return { x = d.y } end,
}
