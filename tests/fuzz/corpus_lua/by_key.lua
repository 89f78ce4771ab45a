local gs = require "gradsmith"
return gs.layer "a" {
  dims = { "T", "V", "D" }, outer = { "T", "V" }, w = gs.weight { "V", "D" },
  id = gs.input { "T", type = "i64" },
  forward = function(p) return { y = gs.at(p.w, "V", p.id) } end,
  backward = function(p, d) return { w = gs.sum_by(d.y, p.id, "T", "V") } end,
}
