-- Qwen3: ChatML; an answer after the last question is preceded by its thoughts, empty ones when it
-- has none, and thoughts before the last question are left out. Tools are not rendered.
local function trim_lines(s) return (s:gsub("^\n+", "")) end

-- content → thoughts ("" when there are none), the rest; as the template splits at </think>.
local function split(content)
  if not content:find("</think>", 1, true) then return "", content end
  local first = content:sub(1, content:find("</think>", 1, true) - 1)
  local last = content
  while last:find("</think>", 1, true) do
    last = last:sub(select(2, last:find("</think>", 1, true)) + 1)
  end
  first = first:gsub("\n+$", "")
  while first:find("<think>", 1, true) do
    first = first:sub(select(2, first:find("<think>", 1, true)) + 1)
  end
  return trim_lines(first), trim_lines(last)
end

local function is_question(m)
  local answer = "<tool_response>"
  return m.role == "user"
    and not (m.content:sub(1, #answer) == answer and m.content:sub(-16) == "</tool_response>")
end

return {
  known = { ["3211-19b056be2956551e"] = { model = "Qwen3" } },

  render = function(c)
    local out, question = {}, #c.messages
    for i = #c.messages, 1, -1 do
      if is_question(c.messages[i]) then
        question = i
        break
      end
    end
    for i, m in ipairs(c.messages) do
      out[#out + 1] = "<|im_start|>" .. m.role .. "\n"
      local text = m.content
      if m.role == "assistant" then
        local thoughts, rest = split(text)
        text = rest
        if i > question and (i == #c.messages or thoughts ~= "") then
          thoughts = trim_lines(thoughts):gsub("\n+$", "")
          text = "<think>\n" .. thoughts .. "\n</think>\n\n" .. trim_lines(rest)
        end
      end
      text = text .. "<|im_end|>"
      out[#out + 1] = m.role == "assistant" and { answer = text } or text
      out[#out + 1] = "\n"
    end
    if c.generate then out[#out + 1] = "<|im_start|>assistant\n" end
    return out
  end,
}
