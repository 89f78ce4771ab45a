-- Zephyr: <|ROLE|>\nTEXT</s>\n. TinyLlama's chat models write the same.
return {
  known = {
    ["397-972f476d22258934"] = { model = "Zephyr-7B" },
    ["307-29f3a20c8c23cdca"] = {
      model = "TinyLlama-Chat, without system messages",
      no_system = true,
    },
  },

  render = function(c)
    local out = {}
    local eos = c.eos or error("the tokenizer names no eos_token, which this template writes", 0)
    for _, m in ipairs(c.messages) do
      if not (m.role == "system" and c.option.no_system) then
        out[#out + 1] = "<|" .. m.role .. "|>\n"
        local text = m.content .. eos
        out[#out + 1] = m.role == "assistant" and { answer = text } or text
        out[#out + 1] = "\n"
      end
    end
    if c.generate then out[#out + 1] = "<|assistant|>\n" end
    return out
  end,
}
