-- lint: what Lua accepts in forward and backward, but cannot mean: `==`, `and`, `or`, `not`, `if`
-- on values, which Lua decides while the expression is built. It reads the text of the function, and
-- speaks only where it is certain that an operand is a value: p.NAME, d.NAME, s.NAME, gs.NAME(...),
-- arithmetic of them, and locals that hold such.
local core = ...
local format = string.format

local KEYWORDS = {}
for word in string.gmatch("and break do else elseif end false for function goto if in local nil "
  .. "not or repeat return then true until while", "%a+") do KEYWORDS[word] = true end

-- Functions of gs that give no value.
local NO_VALUE = { reduce = true, table = true, input = true, weight = true, scalar = true,
  step_scalar = true, option = true, template = true, layer = true, kernel = true, fuse = true,
  beside = true, cuda = true }

-- ---- tokens ----

local function skip_space(text, at, line)
  while true do
    local _, to = string.find(text, "^[ \t\r]+", at)
    if to then
      at = to + 1
    elseif string.sub(text, at, at) == "\n" then
      at, line = at + 1, line + 1
    elseif string.sub(text, at, at + 1) == "--" then
      local eq = string.match(text, "^%-%-%[(=*)%[", at)
      local _, close = nil, nil
      if eq then _, close = string.find(text, "]" .. eq .. "]", at, true) end
      if not close then close = (string.find(text, "\n", at, true) or #text + 1) - 1 end
      local _, lines = string.gsub(string.sub(text, at, close), "\n", "")
      at, line = close + 1, line + lines
    else
      return at, line
    end
  end
end

-- The end of the text literal that starts at `at`; a long one counts as one token as well.
local function literal_end(text, at)
  local quote = string.sub(text, at, at)
  local eq = string.match(text, "^%[(=*)%[", at)
  if eq then
    local _, to = string.find(text, "]" .. eq .. "]", at, true)
    return to or #text
  end
  local i = at + 1
  while i <= #text do
    local c = string.sub(text, i, i)
    if c == "\\" then
      i = i + 1
    elseif c == quote or c == "\n" then
      return i
    end
    i = i + 1
  end
  return #text
end

local function tokens(text, line)
  local list, at = {}, 1
  while #list < 20000 do
    at, line = skip_space(text, at, line)
    if at > #text then break end
    local to, kind
    local c = string.sub(text, at, at)
    if string.find(c, "[%a_]") then
      _, to = string.find(text, "^[%w_]+", at)
      kind = KEYWORDS[string.sub(text, at, to)] and "word" or "name"
    elseif string.find(text, "^%.?%d", at) then
      _, to = string.find(text, "^[%w_.]+", at)
      kind = "number"
    elseif c == '"' or c == "'" or string.find(text, "^%[=*%[", at) then
      to, kind = literal_end(text, at), "text"
    else
      _, to = string.find(text, "^[=~<>]=", at)
      if not to then _, to = string.find(text, "^%.%.%.?", at) end
      to, kind = to or at, "sign"
    end
    local word = string.sub(text, at, to)
    list[#list + 1] = { kind = kind, text = word, line = line }
    local _, lines = string.gsub(word, "\n", "")
    at, line = to + 1, line + lines
  end
  return list
end

-- ---- what is certainly a value ----

local OPEN = { ["("] = ")", ["["] = "]", ["{"] = "}" }
local CLOSE = { [")"] = "(", ["]"] = "[", ["}"] = "{" }

local function text_at(list, i) return list[i] and list[i].text or "" end

-- The bracket that closes the one at i, or opens it, going by `step`.
local function partner(list, i, step)
  local depth = 0
  while list[i] do
    local t = list[i].kind == "sign" and list[i].text
    if OPEN[t] then depth = depth + step elseif CLOSE[t] then depth = depth - step end
    if depth == 0 then return i end
    i = i + step
  end
end

-- Whether a primary that is a value starts at i; the index after it.
local function value_at(list, i, known)
  local t = list[i]
  if t.kind ~= "name" or text_at(list, i - 1) == "." or text_at(list, i - 1) == ":" then return end
  local after = i + 1
  if known.tables[t.text] and text_at(list, i + 1) == "." then
    if not known.tables[t.text](text_at(list, i + 2)) then return end
    after = i + 3
  elseif t.text == "gs" and text_at(list, i + 1) == "." and text_at(list, i + 3) == "(" then
    if NO_VALUE[text_at(list, i + 2)] then return end
    after = (partner(list, i + 3, 1) or #list) + 1
  elseif not known.locals[t.text] then
    return
  end
  local next_text = text_at(list, after)
  if next_text == "." or next_text == "[" or next_text == ":" or next_text == "(" then return end
  return after
end

local MIXED = { ["and"] = true, ["or"] = true, ["not"] = true, ["=="] = true, ["~="] = true,
  ["<"] = true, [">"] = true, ["<="] = true, [">="] = true, [".."] = true, ["#"] = true,
  ["function"] = true, ["="] = true }

local function is_value(list, from, to, known)
  local found, i = false, from
  while i <= to do
    local t = list[i].text
    local after = value_at(list, i, known)
    if after then
      found, i = true, after
    elseif list[i].kind ~= "text" and MIXED[t] then
      return false
    elseif OPEN[t] and list[i].kind == "sign" then
      local close = partner(list, i, 1)
      if not close or close > to then return false end
      local call = list[i - 1] and i > from and (list[i - 1].kind == "name")
      if t == "(" and not call and is_value(list, i + 1, close - 1, known) then found = true end
      i = close + 1
    else
      i = i + 1
    end
  end
  return found
end

local STOP = { [","] = true, [";"] = true, ["="] = true, ["and"] = true, ["or"] = true,
  ["return"] = true, ["then"] = true, ["do"] = true, ["if"] = true, ["elseif"] = true,
  ["while"] = true, ["until"] = true, ["not"] = true, ["else"] = true, ["end"] = true,
  ["local"] = true, ["in"] = true, ["function"] = true, ["repeat"] = true }
local COMPARE = { ["=="] = true, ["~="] = true, ["<"] = true, [">"] = true, ["<="] = true,
  [">="] = true }

local function ends_operand(t)
  return t.kind == "name" or t.kind == "number" or t.kind == "text" or CLOSE[t.text] ~= nil
end

local function starts_statement(list, i)
  local t, before = list[i], list[i - 1]
  return before and t.kind == "name" and t.line > before.line and ends_operand(before)
end

-- The operand that ends before i, or starts after i; `wide`: comparisons are part of it.
local function operand(list, i, step, wide)
  local k = i + step
  while list[k] do
    local t = list[k]
    local bracket = t.kind == "sign" and (step > 0 and OPEN or CLOSE)[t.text]
    local outer = t.kind == "sign" and (step > 0 and CLOSE or OPEN)[t.text]
    if outer or t.kind ~= "text" and (STOP[t.text] or not wide and COMPARE[t.text]) then break end
    if step > 0 and k > i + 1 and starts_statement(list, k) then break end
    if bracket then k = partner(list, k, step) or (step > 0 and #list or 1) end
    if step < 0 and starts_statement(list, k) then
      k = k - 1
      break
    end
    k = k + step
  end
  if step > 0 then return i + 1, k - 1 end
  return k + 1, i - 1
end

-- ---- the function ----

-- Its tokens from "function" on, when they can be told, and the names of its parameters.
local function body_of(list, what)
  local start
  for i, t in ipairs(list) do
    if t.text == "function" then
      start = start or i
      if text_at(list, i - 1) == "=" and text_at(list, i - 2) == what then
        start = i
        break
      end
    end
  end
  if not start or text_at(list, start + 1) ~= "(" then return end
  local params, close = {}, partner(list, start + 1, 1)
  for i = start + 2, close and close - 1 or start do
    if list[i].kind == "name" then params[#params + 1] = list[i].text end
  end
  local depth, opens = 0, { ["function"] = true, ["if"] = true, ["do"] = true, ["repeat"] = true }
  local last = #list
  for i = start, #list do
    local t = list[i]
    if t.kind == "word" then
      if opens[t.text] then depth = depth + 1 end
      if t.text == "end" or t.text == "until" then depth = depth - 1 end
      if depth == 0 then
        last = i
        break
      end
    end
  end
  return table.move(list, (close or start) + 1, last, 1, {}), params
end

local function tables_of(l, what, params)
  local is_tensor = {}
  for _, p in ipairs(l.params) do is_tensor[p.name] = true end
  local t = {}
  if params[1] then t[params[1]] = function(name) return is_tensor[name] end end
  for i = 2, what == "backward" and 3 or 1 do
    if params[i] then t[params[i]] = function() return true end end
  end
  return t
end

-- `local a, b = EXPR` and `a = EXPR`: which names hold values from here on.
local function learn(list, i, known)
  local first = i
  if text_at(list, i) == "local" then first = i + 1 end
  local k, assigned = first, {}
  while list[k] and list[k].kind == "name" do
    assigned[#assigned + 1] = list[k].text
    k = k + 1
    if text_at(list, k) ~= "," then break end
    k = k + 1
  end
  if #assigned == 0 or text_at(list, k) ~= "=" then return end
  if first == i and (text_at(list, i - 1) == "." or #assigned > 1) then return end
  local from, to = operand(list, k, 1, true)
  local holds = is_value(list, from, to, known) and text_at(list, to + 1) ~= "and"
    and text_at(list, to + 1) ~= "or"
  local one_call = #assigned == 1 or value_at(list, from, known) == to + 1
  for _, name in ipairs(assigned) do known.locals[name] = holds and one_call or nil end
end

local function words(list, from, to)
  local out = {}
  for i = from, math.min(to, from + 12) do out[#out + 1] = list[i].text end
  if to > from + 12 then out[#out + 1] = " ..." end
  return (string.gsub(table.concat(out), ",", ", "))
end

local SAYS = {
  ["=="] = "Lua's == cannot compare values, it is always false: use gs.eq",
  ["~="] = "Lua's ~= cannot compare values, it is always true: use gs.ne",
  ["and"] = "Lua's `and` cannot see what '%s' will be: use gs.and_, or gs.where to choose",
  ["or"] = "Lua's `or` cannot see what '%s' will be: use gs.or_, or gs.where to choose",
  ["not"] = "Lua's `not` cannot see what '%s' will be: use gs.not_",
  ["if"] = "Lua's `if` cannot see what '%s' will be: use gs.where; `if` is for options",
}

local function check_operator(list, i, known, report)
  local t = list[i].text
  if t == "==" or t == "~=" then
    local a, b = operand(list, i, -1, false)
    local from, to = operand(list, i, 1, false)
    local with_nil = b == a and text_at(list, a) == "nil"
      or to == from and text_at(list, to) == "nil"
    if not with_nil and (is_value(list, a, b, known) or is_value(list, from, to, known)) then
      report(list[i].line, SAYS[t])
    end
  elseif t == "and" or t == "or" then
    local a, b = operand(list, i, -1, true)
    local chosen = t == "or" and text_at(list, a - 1) == "and" -- c and VALUE or VALUE
    if a <= b and not chosen and is_value(list, a, b, known) then
      report(list[i].line, format(SAYS[t], words(list, a, b)))
    end
  elseif t == "not" or t == "if" or t == "elseif" or t == "while" then
    local from, to = operand(list, i, 1, t ~= "not")
    local whole = t == "not" or text_at(list, to + 1) == "then" or text_at(list, to + 1) == "do"
    if whole and from <= to and is_value(list, from, to, known) then
      report(list[i].line, format(t == "not" and SAYS["not"] or SAYS["if"], words(list, from, to)))
    end
  end
end

return function(f, l, what)
  local text, line, file = core.source(f)
  if not text or #text > 100000 then return end
  local list, params = body_of(tokens(text, line), what)
  if not list then return end
  local known = { locals = {}, tables = tables_of(l, what, params) }
  local function report(at, message) core.report(file .. ":" .. at, message) end
  for i, t in ipairs(list) do
    if t.kind == "word" and t.text == "local" or t.kind == "name" and i > 1
      and text_at(list, i - 1) ~= "local" and text_at(list, i - 1) ~= ","
      and text_at(list, i + 1) == "=" and text_at(list, i - 1) ~= "{" then
      learn(list, i, known)
    end
    if t.kind ~= "text" then check_operator(list, i, known, report) end
  end
end
