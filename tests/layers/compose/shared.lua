-- One input read by both: its gradients add up. The second is a layer whose backward is derived.
local gs = require "gradsmith"

local bent = gs.layer "bent" {
  dims = { "T", "H" },
  x = gs.input { "T", "H" },
  a = gs.weight { "H" },
  eps = gs.scalar(0.5),
  forward = function(p) return { z = gs.tanh(p.a * p.x) + p.eps * gs.mean(p.x^2, "H") } end,
  backward = gs.derived,
}

return gs.beside(require "layers.rmsnorm", { eps = "norm_eps" }, bent)
