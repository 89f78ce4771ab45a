-- reduce: reductions by the author's own step and merge, and what is made of them: argmax, argmin,
-- topk.
local core = ...
local f = core.functions
local names = core.part "names"
local reduce = {}
local format = string.format

local MOST_ELEMENTS, MOST_STATE = 8, 4

-- A list of what `fields` has under the sorted names `keys`.
local function listed(fields, keys)
  local list = {}
  for i, key in ipairs(keys) do list[i] = fields[key] end
  return list
end

-- The leaves of a fold's program, by name; integer(i) says which are integers.
local function leaves(make, label, keys, integer)
  local t = {}
  for i, key in ipairs(keys) do t[key] = make(i - 1, integer(i)) end
  return names.guard(label, t, core.nothing)
end

local function is_complete(result, keys, what)
  if type(result) ~= "table" then
    core.report(nil, format("gs.reduce: %s must return a table of all components: %s", what,
      table.concat(keys, ", ")))
    return false
  end
  local good = true
  for _, key in ipairs(keys) do
    if rawget(result, key) == nil then
      core.report(nil, format("gs.reduce: %s gives no '%s'", what, key))
      good = false
    end
  end
  for _, key in ipairs(names.keys(result)) do
    local known = false
    for _, k in ipairs(keys) do known = known or k == key end
    if not known then
      core.report(nil, format("gs.reduce: %s gives '%s', which init does not have", what, key)
        .. names.hint(key, keys))
      good = false
    end
  end
  return good
end

-- The spec's fields hold what they must.
local function is_spec(spec)
  local want = { init = "table", step = "function", merge = "function" }
  if type(spec) ~= "table" then
    core.report(nil, "argument 3 of gs.reduce must be { init = {...}, step = function(s, e) ... "
      .. "end, merge = function(a, b) ... end }")
    return false
  end
  for _, key in ipairs { "init", "merge", "step" } do
    if type(spec[key]) ~= want[key] then
      core.report(nil, format("gs.reduce: '%s' must be a %s, not %s", key, want[key],
        type(spec[key])))
      return false
    end
  end
  for _, key in ipairs(names.keys(spec)) do
    if not want[key] then
      core.report(nil, format("gs.reduce has no field '%s'", key)
        .. names.hint(key, { "init", "merge", "step" }))
      return false
    end
  end
  return true
end

local function is_init(init, keys)
  if #keys < 1 or #keys > MOST_STATE then
    core.report(nil, format("gs.reduce: init has %d named components, but 1 to %d are legal", #keys,
      MOST_STATE))
    return false
  end
  for _, key in ipairs(keys) do
    if type(init[key]) ~= "number" then
      core.report(nil, format("gs.reduce: the start of '%s' must be a number, not a %s", key,
        type(init[key])))
      return false
    end
  end
  return true
end

-- Values of the elements by name, or nil after reports.
local function read_elements(elements, keys)
  if type(elements) ~= "table" or #keys < 1 or #keys > MOST_ELEMENTS then
    core.report(nil, format("argument 1 of gs.reduce must be a table of 1 to %d named values: "
      .. "{ x = p.x }", MOST_ELEMENTS))
    return nil
  end
  local all, good = {}, true
  for _, key in ipairs(keys) do
    local x, ok = core.value(elements[key], format("element '%s' of gs.reduce", key))
    all[key] = x
    good = good and ok
  end
  return good and all or nil
end

-- reduce(elements, dims, { init, step, merge }): a table of the components.
-- Threads without elements keep init, and merge meets it on either side.
function reduce.reduce(elements, dims, spec)
  local nothing = setmetatable({}, { __index = function() return core.nothing end })
  local element_names = names.keys(type(elements) == "table" and elements or {})
  local given = read_elements(elements, element_names)
  if not is_spec(spec) or not given then return nothing end
  local state_names = names.keys(spec.init)
  if not is_init(spec.init, state_names) then return nothing end
  local function whole(i) return math.type(spec.init[state_names[i]]) == "integer" end
  local state = leaves(core.state, "the state", state_names, whole)
  local element = leaves(core.element, "the element", element_names, function(i)
    return core.is_integer(given[element_names[i]])
  end)
  local step = spec.step(state, element)
  local merge = spec.merge(state, leaves(core.element, "the state", state_names, whole))
  local complete = is_complete(step, state_names, "step")
  if not is_complete(merge, state_names, "merge") or not complete then return nothing end
  local parts = { core.fold(listed(given, element_names), dims, listed(spec.init, state_names),
    listed(step, state_names), listed(merge, state_names), state_names) }
  local result = {}
  for i, key in ipairs(state_names) do result[key] = parts[i] end
  return names.guard("the result of gs.reduce", result, core.nothing)
end

-- ---- the place of the largest ----

-- The best element among those where `ok` holds (nil: all), the lowest index of equal ones, and its
-- index; -1 where there is none.
local function best_of(x, dim, ok)
  local function better(e, s)
    local tie = f.and_(f.eq(e.best, s.best), f.lt(e.at, s.at))
    return f.or_(f.lt(s.at, 0), f.or_(f.gt(e.best, s.best), tie))
  end
  local function choose(take, e, s)
    return { best = f.where(take, e.best, s.best), at = f.where(take, e.at, s.at) }
  end
  local elements = { x = x, i = f.index(dim), ok = ok and f.real(ok) or nil }
  return reduce.reduce(elements, dim, {
    init = { best = -math.huge, at = -1 },
    step = function(s, e)
      local candidate = { best = e.x, at = e.i }
      local take = better(candidate, s)
      if ok then take = f.and_(f.gt(e.ok, 0), take) end
      return choose(take, candidate, s)
    end,
    merge = function(a, b) return choose(f.and_(f.ge(b.at, 0), better(b, a)), b, a) end,
  })
end

function reduce.argmax(e, dim)
  local x, ok = core.value(e, "argument 1 of gs.argmax")
  if not ok then return core.nothing end
  return f.max(best_of(x, dim).at, 0)
end

function reduce.argmin(e, dim)
  local x, ok = core.value(e, "argument 1 of gs.argmin")
  if not ok then return core.nothing end
  return f.max(best_of(-x, dim).at, 0)
end

-- "K=8" as name and number.
local function read_count(spec)
  if type(spec) ~= "string" then return nil end
  local at = string.find(spec, "=", 1, true)
  local count = at and math.tointeger(tonumber(string.sub(spec, at + 1)))
  return at and names.is_name(string.sub(spec, 1, at - 1)) and count
end

-- topk(e, "E", "K=8"): the K largest along a dim K, descending, and their indices; of equal ones
-- lowest index first.
function reduce.topk(e, dim, spec)
  local x, ok = core.value(e, "argument 1 of gs.topk")
  local count = read_count(spec) or core.size(spec)
  if not count or count < 1 or count > 64 then
    core.report(nil, "argument 3 of gs.topk must be a dim and its size, 1 to 64: \"K=8\"")
    return core.nothing, core.nothing
  end
  local whole = core.size(dim)
  if ok and whole and whole < count then
    core.report(nil, format("gs.topk of %d along %s, whose size is %d", count, dim, whole))
    ok = false
  end
  if not ok then return core.nothing, core.nothing end
  local at, value, left = {}, {}, nil
  for k = 1, count do
    at[k] = f.max(best_of(x, dim, left).at, 0)
    value[k] = f.at(x, dim, at[k])
    local other = f.ne(f.index(dim), at[k])
    left = left and f.and_(left, other) or other
  end
  return f.join(value, spec), f.join(at, spec)
end

function reduce.export(gs)
  for _, name in ipairs { "reduce", "argmax", "argmin", "topk" } do
    gs[name] = core.keep(reduce[name])
  end
end

return reduce
