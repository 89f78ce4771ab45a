-- expect: 3: gs.beside: argument 3 is not a layer
local gs = require "gradsmith"
return gs.beside(require "layers.add", { q = "z" }, 3)
