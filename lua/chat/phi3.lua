-- Phi-3.5: <|ROLE|>\nTEXT<|end|>\n; a finished conversation ends with the eos token.
return {
  known = { ["422-4c9cc08e5f13e1ce"] = { model = "Phi-3.5-mini-instruct" } },

  render = function(c)
    local out = {}
    local eos = c.eos or error("the tokenizer names no eos_token, which this template writes", 0)
    for _, m in ipairs(c.messages) do
      if m.role ~= "system" or m.content ~= "" then
        out[#out + 1] = "<|" .. m.role .. "|>\n"
        local text = m.content .. "<|end|>"
        out[#out + 1] = m.role == "assistant" and { answer = text } or text
        out[#out + 1] = "\n"
      end
    end
    out[#out + 1] = c.generate and "<|assistant|>\n" or eos
    return out
  end,
}
