-- qk_norm: RMSNorm of every head of queries and keys, in one launch.
-- Reference: q_norm and k_norm of transformers Qwen3Attention (gemma = 0), Gemma3Attention (1).
local gs = require "gradsmith"
local norm = require "layers.head_rmsnorm"

return gs.beside(norm, { x = "q", w = "q_w", y = "q_y", rstd = "q_rstd" },
  norm, { x = "k", w = "k_w", y = "k_y", rstd = "k_rstd", N = "K" })
