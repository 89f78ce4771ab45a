local gs = require "gradsmith"
return gs.layer "a" {
  dims = { "T", "H", k = "H/5" }, x = gs.input { "T", "h" }, w = gs.weight { "H" },
  forward = function(p) return { y = p.x == 0 and p.w or gs.sum(p.q, "Z") } end,
  backward = function(p, d) if d.y then return { x = d.y, w = d.y } end end,
}
