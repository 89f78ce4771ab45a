-- gradsmith: the authoring library. What `require "gradsmith"` gives is the table gs below; what
-- gen/lua calls is the table returned at the end. `core` holds the functions written in C.
local core = ...

local gs = {}
for name, f in pairs(core.functions) do gs[name] = f end

local names = core.part "names"
local declare = core.part "declare"
local composing = core.part "fuse"

for _, name in ipairs { "input", "weight", "scalar", "step_scalar", "option", "cuda" } do
  gs[name] = core.keep(declare[name])
end
gs.layer = core.keep(declare.layer)
gs.kernel = core.keep(declare.kernel)
gs.attention = core.keep(core.part "attention".attention)
gs.derived = declare.derived
gs.fuse = core.keep(composing.fuse)
gs.beside = core.keep(composing.beside)
core.part "values".export(gs)
core.part "reduce".export(gs)

-- halves(e, "D", "h"): the two halves of D, each along h = D/2. from_halves is the inverse.
gs.halves = core.keep(function(e, dim, half)
  local x = gs.split(e, dim, "two=2", half or "h")
  return gs.pick(x, "two", 0), gs.pick(x, "two", 1)
end)

gs.from_halves = core.keep(function(a, b, dim, half)
  return gs.merge(gs.join({ a, b }, "two=2"), "two", half or "h", dim)
end)

-- pairs(e, "D", "h"): elements 0, 2, 4 ... and 1, 3, 5 ... of D. from_pairs is the inverse.
gs.pairs = core.keep(function(e, dim, half)
  local x = gs.split(e, dim, half or "h", "two=2")
  return gs.pick(x, "two", 0), gs.pick(x, "two", 1)
end)

gs.from_pairs = core.keep(function(a, b, dim, half)
  return gs.merge(gs.join({ a, b }, "two=2"), half or "h", "two", dim)
end)

local function copy_of(t, keys)
  local c = {}
  if not keys then
    for k, v in pairs(t) do c[k] = v end
  else
    for k in string.gmatch(keys, "%a+") do c[k] = t[k] end
  end
  return c
end

-- Numbers sorted before texts, so that a loop over a table goes the same way in every run.
local function sorted_pairs(t)
  local keys = {}
  for k in next, t do keys[#keys + 1] = k end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return type(a) < type(b) end
    if type(a) == "number" or type(a) == "string" then return a < b end
    return tostring(a) < tostring(b)
  end)
  local i = 0
  return function()
    i = i + 1
    if keys[i] ~= nil then return keys[i], t[keys[i]] end
  end
end

-- What a text may do: without patterns, which can run without end inside one instruction.
local texts = copy_of(string, "format sub upper lower len rep byte char")
getmetatable("").__index = texts

-- The globals of an author's file.
local function environment()
  local env = copy_of(_G, "assert error ipairs tonumber tostring type select")
  env.pairs = sorted_pairs
  env.require = core.require
  env.string = copy_of(texts)
  env.table = copy_of(table, "concat sort unpack")
  env.table.sort = function(t, before) -- in C, where instructions are not counted
    if #t > 100000 then error("table.sort: at most 100000 elements", 0) end
    table.sort(t, before)
  end
  env.table.insert = function(t, v) t[rawlen(t) + 1] = v end
  env.math = copy_of(math)
  env.math.random, env.math.randomseed = nil, nil
  return setmetatable(env, {
    __index = function(_, k)
      core.report(nil, ("unknown name '%s'"):format(k) .. names.hint(k, names.keys(env)))
      return core.nothing
    end,
    __newindex = function(t, k, v)
      core.report(nil, ("'%s' is not a local: write local %s = ..."):format(k, k))
      rawset(t, k, v)
    end,
    __metatable = false,
  })
end

-- A copy of gs for each file that requires it; an unknown name is a mistake at once.
local function copy()
  return setmetatable(copy_of(gs), {
    __index = function(_, k)
      core.report(nil, ("gs.%s does not exist"):format(tostring(k))
        .. names.hint(tostring(k), names.keys(gs)))
      return core.nothing
    end,
    __metatable = false,
  })
end

return {
  environment = environment,
  copy = copy,
  hint = names.hint,
  finish = declare.finish,
  build = core.part "build",
}
