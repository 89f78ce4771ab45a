-- config: config.json held against what a model file says of each field. An unknown field is an
-- error, since it may change the mathematics.
local step = require "gradsmith.step"
local M = {}

-- Fields that say nothing about the mathematics of a training step.
local harmless = {}
for name in ([[architectures model_type bos_token_id eos_token_id pad_token_id sep_token_id
  decoder_start_token_id max_position_embeddings initializer_range use_cache torch_dtype dtype
  transformers_version _name_or_path name_or_path _attn_implementation _attn_implementation_autoset
  output_attentions output_hidden_states return_dict return_dict_in_generate output_scores
  torchscript id2label label2id problem_type tokenizer_class prefix task_specific_params
  finetuning_task chunk_size_feed_forward max_window_layers is_llama_config
  unsloth_version unsloth_fixed max_length min_length do_sample early_stopping num_beams
  num_beam_groups diversity_penalty
  temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
  encoder_no_repeat_ngram_size bad_words_ids num_return_sequences forced_bos_token_id
  forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens
  begin_suppress_tokens transformers.js_config]]):gmatch("%S+") do
  harmless[name] = true
end

-- Fields of any model that are harmless at one value only.
local fixed_everywhere = { is_encoder_decoder = false, add_cross_attention = false,
  tie_encoder_decoder = false, is_decoder = false, use_bfloat16 = false }

-- Fields that are often met and never supported: what to do instead.
local advice = {
  quantization_config = "use the model's unquantised weights",
  sliding_window = "only full causal attention is built",
  auto_map = "code that comes with a model is not run; use a model without it",
}

local function sorted_names(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function show(v)
  if type(v) == "table" then return "{...}" end
  return type(v) == "string" and '"' .. v .. '"' or tostring(v)
end

-- c: the config; a null field is absent. fields.used: names that are read; fields.fixed: name = the
-- one value that is supported.
function M.check(c, fields)
  local used = {}
  for _, name in ipairs(fields.used) do used[name] = true end
  for _, name in ipairs(sorted_names(c)) do
    local want = fields.fixed[name]
    if want == nil then want = fixed_everywhere[name] end
    if want ~= nil then
      if c[name] ~= want then
        step.refuse('"%s" is %s, but only %s is supported', name, show(c[name]), show(want))
      end
    elseif advice[name] and not used[name] then
      step.refuse('"%s" = %s is not supported: %s', name, show(c[name]), advice[name])
    elseif not used[name] and not harmless[name] then
      step.refuse('field "%s" = %s is unknown and might change the mathematics; remove it from the '
        .. 'file if it does not', name, show(c[name]))
    end
  end
end

-- A positive whole number.
function M.size(c, name, default)
  local v = c[name]
  if v == nil then v = default end
  if v == nil then step.refuse('"%s" is missing', name) end
  if math.type(v) ~= "integer" or v < 1 or v > 2 ^ 31 then
    step.refuse('"%s" is %s, not a positive whole number', name, show(v))
  end
  return v
end

-- A positive number.
function M.number(c, name, default)
  local v = c[name]
  if v == nil then v = default end
  if v == nil then step.refuse('"%s" is missing', name) end
  if type(v) ~= "number" or not (v > 0 and v < math.huge) then
    step.refuse('"%s" is %s, not a positive number', name, show(v))
  end
  return v
end

return M
