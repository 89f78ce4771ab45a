-- DeepSeek-R1's distilled models: the last system message first, thoughts of an answer left out.
-- Tools are not rendered.
local function after_thoughts(s)
  while s:find("</think>", 1, true) do
    s = s:sub(select(2, s:find("</think>", 1, true)) + 1)
  end
  return s
end

return {
  known = { ["2215-8c2f39dd7ee55cc8"] = { model = "DeepSeek-R1-Distill-Qwen" } },

  render = function(c)
    local system = ""
    for _, m in ipairs(c.messages) do
      if m.role == "system" then system = m.content end
    end
    local out = { (c.bos or "") .. system }
    for _, m in ipairs(c.messages) do
      if m.role == "user" then
        out[#out + 1] = "<｜User｜>" .. m.content
      elseif m.role == "assistant" then
        out[#out + 1] = "<｜Assistant｜>"
        out[#out + 1] = { answer = after_thoughts(m.content) .. "<｜end▁of▁sentence｜>" }
      end
    end
    if c.generate then out[#out + 1] = "<｜Assistant｜><think>\n" end
    return out
  end,
}
