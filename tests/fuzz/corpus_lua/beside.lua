local gs = require "gradsmith"
local a = require "layers.rope"
return gs.beside(a, { x = "q", y = "u", N = "NQ" }, a, { x = "k", y = "v", N = "NK" })
