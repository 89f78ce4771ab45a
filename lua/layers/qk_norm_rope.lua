-- qk_norm_rope: norm and rotation of every head of queries and keys, in one launch.
-- Reference: transformers Qwen3Attention (gemma = 0), Gemma3Attention (1).
local gs = require "gradsmith"
local head = require "layers.head_rmsnorm_rope"

return gs.beside(head, { x = "q", w = "q_w", y = "q_y", rstd = "q_rstd" },
  head, { x = "k", w = "k_w", y = "k_y", rstd = "k_rstd", N = "K" })
