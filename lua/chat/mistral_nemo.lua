-- Mistral-Nemo: [INST]QUESTION[/INST]ANSWER</s>. A system message goes in front of the last
-- question, and only when the conversation ends with it, as in the template. No tools.
return {
  known = { ["2958-465c646c7421ec7b"] = { model = "Mistral-Nemo-Instruct-2407" } },

  render = function(c)
    local out, first, system = { c.bos or "" }, 1, nil
    local eos = c.eos or error("the tokenizer names no eos_token, which this template writes", 0)
    if c.messages[1].role == "system" then
      system, first = c.messages[1].content, 2
    end
    for i = first, #c.messages do
      local m = c.messages[i]
      if (m.role == "user") ~= ((i - first) % 2 == 0) or m.role == "system" then
        error("the template of Mistral-Nemo wants user and assistant in turn, user first, after at "
          .. "most one system message (message " .. i .. " is " .. m.role .. "'s)", 0)
      end
      if m.role == "assistant" then
        out[#out + 1] = { answer = m.content .. eos }
      elseif i == #c.messages and system then
        out[#out + 1] = "[INST]" .. system .. "\n\n" .. m.content .. "[/INST]"
      else
        out[#out + 1] = "[INST]" .. m.content .. "[/INST]"
      end
    end
    return out
  end,
}
