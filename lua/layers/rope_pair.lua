-- rope_pair: rotary position embedding of queries and keys, in one launch that reads the angles
-- once. Reference: transformers apply_rotary_pos_emb of Llama.
local gs = require "gradsmith"
local rope = require "layers.rope"

return gs.beside(rope, { x = "q", y = "q_y" }, rope, { x = "k", y = "k_y", N = "K" })
