-- Llama 3: <|start_header_id|>ROLE<|end_header_id|>\n\nTEXT<|eot_id|>, texts stripped of outer
-- white space. From 3.1 on a system message with dates always comes first. The date is the
-- template's own fixed one, also for 3.2, which otherwise writes the day it is run: a run can be
-- repeated.
local function header(role) return "<|start_header_id|>" .. role .. "<|end_header_id|>\n\n" end

return {
  known = {
    ["382-333f37cbf12d9aae"] = { model = "Llama-3-Instruct" },
    ["343-aa010ba2d2fcd990"] = { model = "Llama-3-Instruct, first edition", always = true },
    ["3841-3705e54e2b07e2b4"] = { model = "Llama-3.1-Instruct", dated = true },
    ["3294-70543d5f76dde00a"] = { model = "Llama-3.2-Instruct", dated = true },
  },

  render = function(c)
    local out, first = { c.bos or "" }, 1
    if c.option.dated then
      local system = ""
      if c.messages[1].role == "system" then
        system, first = strip(c.messages[1].content), 2
      end
      out[2] = header("system") .. "Cutting Knowledge Date: December 2023\n"
        .. "Today Date: 26 Jul 2024\n\n" .. system .. "<|eot_id|>"
    end
    for i = first, #c.messages do
      local m = c.messages[i]
      local text = strip(m.content) .. "<|eot_id|>"
      out[#out + 1] = header(m.role)
      out[#out + 1] = m.role == "assistant" and { answer = text } or text
    end
    if c.generate or c.option.always then out[#out + 1] = header("assistant") end
    return out
  end,
}
