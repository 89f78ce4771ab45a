-- Mistral and Mixtral before function calling: [INST] QUESTION [/INST]ANSWER</s>, no system
-- message. The editions differ in the spaces: before [INST], and around an answer and its </s>.
return {
  known = {
    ["464-0b152cd3b82618f0"] = {
      model = "Mistral-7B-Instruct-v0.1",
      open = "[INST] ", before = "", middle = "", after = " ",
    },
    ["458-4575752083f2405d"] = {
      model = "Mistral-7B-Instruct-v0.2",
      open = "[INST] ", before = "", middle = "", after = "",
    },
    ["465-852806373283e0d2"] = {
      model = "Mixtral-8x7B-Instruct-v0.1",
      open = " [INST] ", before = " ", middle = "", after = "",
    },
    ["471-6a4b0e99930b2b8f"] = {
      model = "Mixtral-8x22B-Instruct-v0.1",
      open = " [INST] ", before = " ", middle = " ", after = "",
    },
  },

  render = function(c)
    local o, out = c.option, { c.bos or "" }
    local eos = c.eos or error("the tokenizer names no eos_token, which this template writes", 0)
    for i, m in ipairs(c.messages) do
      if (m.role == "user") ~= (i % 2 == 1) then
        error("the template of " .. o.model .. " wants user and assistant in turn, user first, "
          .. "and no system message (message " .. i .. " is " .. m.role .. "'s)", 0)
      end
      if m.role == "user" then
        out[#out + 1] = o.open .. m.content .. " [/INST]"
      elseif m.role == "assistant" then
        out[#out + 1] = { answer = o.before .. m.content .. o.middle .. eos }
        out[#out + 1] = o.after
      else
        error("the template of " .. o.model .. " knows user and assistant only", 0)
      end
    end
    return out
  end,
}
