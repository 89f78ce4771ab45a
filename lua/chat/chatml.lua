-- ChatML: <|im_start|>ROLE\nTEXT<|im_end|>\n for every message.
-- A chat file returns `known`, the templates it stands for by their key (length and hash of the
-- Jinja text), and `render(c)`: a list of pieces of text; {answer = text} is what is to be learnt.
-- c has messages ({role, content}), generate, bos, eos and option, the entry of `known`.
return {
  known = {
    ["361-bf8baf0d6cbff62c"] = {
      model = "SmolLM2-Instruct",
      system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
    },
    ["195-6219061630f0f6d8"] = { model = "ChatML" },
    ["2039-9719e790bb5fe27d"] = {
      model = "Qwen2.5-Instruct",
      system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
    },
  },

  render = function(c)
    local out = {}
    local system = c.option.system
    if system and c.messages[1].role ~= "system" then
      out[1] = "<|im_start|>system\n" .. system .. "<|im_end|>\n"
    end
    for _, m in ipairs(c.messages) do
      out[#out + 1] = "<|im_start|>" .. m.role .. "\n"
      local text = m.content .. "<|im_end|>"
      out[#out + 1] = m.role == "assistant" and { answer = text } or text
      out[#out + 1] = "\n"
    end
    if c.generate then out[#out + 1] = "<|im_start|>assistant\n" end
    return out
  end,
}
