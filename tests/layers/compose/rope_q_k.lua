-- Queries and keys, of different numbers of heads, rotated by one table.
local gs = require "gradsmith"
return gs.beside(require "layers.rope", { x = "q", y = "q_turned", N = "NQ" },
  require "layers.rope", { x = "k", y = "k_turned", N = "NK" })
