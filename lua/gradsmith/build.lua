-- build: calls a layer's forward and backward on symbols, and holds what they return against the
-- declaration. Called by gen/lua/build.c, which types and lays out each result.
local core = ...
local names = core.part "names"
local format = string.format

local nothing = core.nothing

-- Names of results in a fixed order: as `outputs` has them, then by name.
local function in_order(found, order)
  local list, done = {}, {}
  for _, name in ipairs(order) do
    if found[name] ~= nil then list[#list + 1], done[name] = name, true end
  end
  for _, name in ipairs(names.keys(found)) do
    if not done[name] then list[#list + 1] = name end
  end
  return list
end

local function params_by_name(l)
  local t = {}
  for i, p in ipairs(l.params) do t[p.name] = i end
  return t
end

local function check_result_name(taken, name, what, place)
  if not names.is_name(name) then
    core.report(place, format("%s '%s': not a name that a tensor can have", what, tostring(name)))
  end
  if taken[name] then
    core.report(place, format("%s '%s' has the name of %s: use another", what, name, taken[name]))
  end
  taken[name] = "the " .. what
end

-- ---- forward ----

local function run_forward(l, p)
  local place = core.defined(l.forward)
  local out = l.forward(p)
  if type(out) ~= "table" then
    core.report(place, "forward must return a table: return { y = ..., save = { ... } }")
    out = {}
  end
  local save = out.save or {}
  out.save = nil
  return out, save, place
end

local function add_outputs(l, out, taken, place)
  local list = in_order(out, l.order)
  for _, name in ipairs(list) do
    check_result_name(taken, name, "output", place)
    core.output(name, out[name], (l.outputs[name] or {}).type, false, place)
  end
  if #list == 0 then core.report(place, "forward returns no output") end
  for _, name in ipairs(names.keys(l.outputs)) do
    if out[name] == nil and not l.outputs[name].optional then
      core.report(l.where, format("outputs: forward does not return '%s'", name)
        .. names.hint(name, list))
    end
  end
  return list
end

-- save = { rstd = value } or { rstd = { value, "bf16" } }
local function add_saved(l, save, taken, place)
  local list = names.keys(save)
  for _, name in ipairs(list) do
    local v, t = save[name], nil
    if type(v) == "table" then v, t = v[1], v[2] end
    if t ~= nil and t ~= "f32" and t ~= "bf16" and t ~= "f16" and t ~= "i32" then
      core.report(place, format("unknown type '%s' of saved '%s'", tostring(t), name))
      t = nil
    end
    check_result_name(taken, name, "saved value", place)
    core.output(name, v, t, true, place)
  end
  return list
end

-- ---- backward ----

local function has_gradient(l, name)
  local o = l.outputs[name]
  return o == nil or o.grad ~= false
end

local function run_backward(l, p, outputs, saved)
  local d, s, fields = {}, {}, {}
  for _, name in ipairs(outputs) do
    if has_gradient(l, name) then d[name] = core.upstream(name) end
    s[name] = core.stored(name)
  end
  for _, name in ipairs(saved) do s[name] = core.stored(name) end
  local place = core.defined(l.backward)
  local back = l.backward(p, names.guard("d", d, nothing), names.guard("s", s, nothing))
  if type(back) ~= "table" then
    core.report(place, "backward must return a table of gradients: return { x = ... }")
    back = {}
  end
  for k, v in next, back do fields[k] = v end
  return fields, place
end

local function add_gradients(l, back, place)
  local number_of = params_by_name(l)
  for _, name in ipairs(names.keys(back)) do
    local p = l.params[number_of[name]]
    if not p then
      core.report(place, format("backward returns '%s', which is not an input", name)
        .. names.hint(name, names.keys(number_of)))
    elseif not p.grad then
      local tensor = p.role == "input" or p.role == "weight"
      core.report(place, format("backward returns '%s', which has no gradient (%s)", name,
        tensor and "its type is an integer, or grad = false" or "it is a " .. p.role))
    end
  end
  for i, p in ipairs(l.params) do
    if p.grad and back[p.name] ~= nil then
      core.gradient(i, back[p.name], place)
    elseif p.grad then
      core.report(place, format("backward gives no gradient of '%s': return it, or declare '%s' "
        .. "with grad = false", p.name, p.name))
    end
  end
end

-- ---- what nothing reads, and inplace ----

local function check_reads(l, outputs, place)
  local unread = core.unread(false)
  for _, p in ipairs(l.params) do
    if unread[p.name] then
      core.report(p.where, format("'%s' is not used: no output%s depends on it", p.name,
        l.kernel and "" or " and no gradient"))
    end
  end
  if l.kernel then return end
  unread = core.unread(true)
  for _, name in ipairs(outputs) do
    if has_gradient(l, name) and unread["d" .. name] then
      core.report(place, format("backward does not use d.%s, so what comes through '%s' is lost: "
        .. "use it, or declare outputs = { %s = { grad = false } }", name, name, name))
    end
  end
end

local function add_inplace(l)
  for _, result in ipairs(names.keys(l.inplace)) do
    local o = l.outputs[result]
    local is_result, is_tensor = core.inplace(result, l.inplace[result])
    if not is_result and not (o and o.optional) then
      core.report(l.where, format("inplace: '%s' is neither an output nor a gradient", result))
    elseif not is_tensor then
      core.report(l.where, format("inplace: '%s' is neither an input nor an incoming gradient",
        l.inplace[result]))
    end
  end
end

return function(l, symbols)
  local taken = {}
  for name in next, symbols do taken[name] = "an input" end
  local p = names.guard("p", symbols, nothing)
  local out, save, place = run_forward(l, p)
  local outputs = add_outputs(l, out, taken, place)
  local saved = add_saved(l, save, taken, place)
  if not l.kernel then
    local back
    back, place = run_backward(l, p, outputs, saved)
    add_gradients(l, back, place)
  end
  if core.failed() then return end -- what follows would only repeat it
  check_reads(l, outputs, place)
  add_inplace(l)
end
