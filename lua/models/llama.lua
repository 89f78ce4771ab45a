-- llama: decoder with RMSNorm, rotary positions, grouped queries, SwiGLU (Llama 1 to 3, SmolLM2).
-- Reference: transformers LlamaForCausalLM. Every field of config.json is either used here, known
-- not to matter, or an error: a field that is silently ignored is a wrong model.
local step = require "gradsmith.step"
local rope = require "models.lib.rope"
local config = require "models.lib.config"

local M = {
  architectures = { "LlamaForCausalLM" },
  -- tensors of a model file that may lie there unread
  unread = { "rotary_emb.inv_freq", "lm_head.weight" },
}

local fields = {
  used = { "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size", "rms_norm_eps", "tie_word_embeddings",
    "rope_theta", "rope_scaling", "rope_parameters", "max_position_embeddings",
    "original_max_position_embeddings" },
  -- what is built here, and nothing else
  fixed = { attention_bias = false, mlp_bias = false, hidden_act = "silu", attention_dropout = 0,
    pretraining_tp = 1, rope_interleaved = false, use_sliding_window = false,
    partial_rotary_factor = 1 },
}

-- The sizes and numbers of a config.json, checked.
local function read(c, tokens)
  config.check(c, fields)
  local p = {
    H = config.size(c, "hidden_size"), F = config.size(c, "intermediate_size"),
    layers = config.size(c, "num_hidden_layers"), V = config.size(c, "vocab_size"),
    N = config.size(c, "num_attention_heads"),
    eps = config.number(c, "rms_norm_eps", 1e-6), tied = c.tie_word_embeddings or false,
  }
  p.K = config.size(c, "num_key_value_heads", p.N)
  if not c.head_dim and p.H % p.N ~= 0 then
    step.refuse("hidden_size %d is no multiple of num_attention_heads %d", p.H, p.N)
  end
  p.D = config.size(c, "head_dim", p.H // p.N)
  if p.N % p.K ~= 0 then
    step.refuse("num_attention_heads %d is no multiple of num_key_value_heads %d", p.N, p.K)
  end
  if p.D % 2 ~= 0 then step.refuse("head_dim %d is odd, so that it has no halves", p.D) end
  p.rope = rope.read(c, p.D, tokens)
  if p.rope.R ~= p.D then step.refuse('"partial_rotary_factor" is not 1') end
  return p
end

local function attention(p, m, b, angles, n, name)
  local function project(what, heads, rotate)
    local y = step.linear(n, name .. what, heads * p.D):view { heads, p.D }
    return rotate and step.layer("rope", { x = y, cos = angles.cos, sin = angles.sin }) or y
  end
  local q = project("q_proj", p.N, true)
  local k = project("k_proj", p.K, true)
  local v = project("v_proj", p.K, false)
  local y = step.layer("attention", { q = q:view { p.K, p.N // p.K, p.D }, k = k, v = v,
    cu_q = b.cu, cu_k = b.cu, scale = p.D ^ -0.5 })
  return step.linear(y:view { p.N * p.D }, name .. "o_proj", p.H)
end

local function mlp(p, n, name)
  local gate = step.linear(n, name .. "gate_proj", p.F)
  local up = step.linear(n, name .. "up_proj", p.F)
  return step.linear(step.layer("swiglu", { gate = gate, up = up }), name .. "down_proj", p.H)
end

function M.forward(c, m, b)
  local p = read(c, b.tokens)
  local E = m.weight("model.embed_tokens.weight", { p.V, p.H })
  local angles = step.layer("rope_table",
    { pos = b.position, inv_freq = m.constant("inv_freq", p.rope.inv_freq), scale = p.rope.scale })
  local h, branch = step.layer("embedding", { E = E, id = b.id }), nil

  -- h takes the branch before it (none before the first), and is normalised
  local function norm(name)
    local w = m.weight(name .. ".weight", { p.H })
    if not branch then return step.layer("rmsnorm", { x = h, w = w, eps = p.eps }) end
    local o = step.layer("residual_rmsnorm", { x = h, r = branch, w = w, eps = p.eps })
    h = o.h
    return o.y
  end

  for i = 0, p.layers - 1 do
    local name = ("model.layers.%d."):format(i)
    branch = attention(p, m, b, angles, norm(name .. "input_layernorm"), name .. "self_attn.")
    branch = mlp(p, norm(name .. "post_attention_layernorm"), name .. "mlp.")
  end
  step.head(norm("model.norm"), "lm_head", p.V, { weight = p.tied and E or nil })
end

return M
