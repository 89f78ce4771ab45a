-- names: lists of names in messages, "did you mean", and tables that report an unknown name.
local core = ...
local names = {}
local format = string.format

-- The keys of a table that are texts, sorted.
function names.keys(t)
  local list = {}
  for k in next, t do
    if type(k) == "string" then list[#list + 1] = k end
  end
  table.sort(list)
  return list
end

-- What can be a name in the generated text as well.
function names.is_name(s)
  return type(s) == "string" and #s < 32 and string.find(s, "^[%a_][%w_]*$") ~= nil
end

-- How many insertions, deletions, replacements or swaps of neighbours lie between two names.
local function distance(a, b)
  local before, row = {}, {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local older = before
    before, row = row, {}
    row[0] = i
    for j = 1, #b do
      local x, y = string.byte(a, i), string.byte(b, j)
      row[j] = math.min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x == y and 0 or 1))
      if i > 1 and j > 1 and x == string.byte(b, j - 1) and string.byte(a, i - 1) == y then
        row[j] = math.min(row[j], older[j - 2] + 1)
      end
    end
  end
  return row[#b]
end

-- "; did you mean 'H'? Known: T, H" with what is near enough, or only what is known.
function names.hint(name, list)
  if #name > 64 or #list > 200 then return "" end
  local best, near = 3, nil
  for _, candidate in ipairs(list) do
    local d = distance(string.lower(name), string.lower(candidate))
    if d < best and (d < #candidate or #candidate == 1) then best, near = d, candidate end
  end
  local known = #list == 0 and "" or #list > 12 and "" or "known: " .. table.concat(list, ", ")
  if not near then return known ~= "" and "; " .. known or "" end
  return format("; did you mean '%s'?%s", near, known ~= "" and " (" .. known .. ")" or "")
end

-- A table whose unknown fields are reported and give the silent value `nothing`.
-- silent: they are not reported, since what the fields are is unknown.
function names.guard(label, fields, nothing, silent)
  return setmetatable(fields, {
    __index = function(_, k)
      if silent then return nothing end
      core.report(nil, format("%s.%s does not exist", label, string.sub(tostring(k), 1, 64))
        .. names.hint(tostring(k), names.keys(fields)))
      return nothing
    end,
    __newindex = function(_, k)
      core.report(nil, format("%s.%s cannot be set: use a local", label, tostring(k)))
    end,
    __metatable = false,
  })
end

return names
