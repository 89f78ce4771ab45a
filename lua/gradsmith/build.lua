-- build: calls a layer's forward and backward on symbols, and holds what they return against the
-- declaration. Called by gen/lua/build.c; gen/lua/results.c types and lays out each result.
--
-- One run finds as many mistakes as it can: what a mistake leaves unknown is the silent value
-- `nothing`, and an error in forward does not keep backward from running.
local core = ...
local names = core.part "names"
local declare = core.part "declare"
local derived = core.part "derived"
local lint = core.part "lint"
local format = string.format

local nothing = core.nothing

-- Names of results in a fixed order: as `outputs` has them, then by name.
local function in_order(found, order)
  local list, done = {}, {}
  for _, name in ipairs(order) do
    if found[name] ~= nil and not done[name] then list[#list + 1], done[name] = name, true end
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

-- Where a function of the author returns a field, and whether that was found; else the layer.
local function place_of(l, f, name)
  if type(f) ~= "function" then return l.places.backward, false end
  local place, exact = core.field(f, name)
  return place or l.where, exact
end

local function function_place(l, f)
  return type(f) == "function" and core.defined(f) or l.where
end

-- ---- forward ----

-- What is not a text as a key of results: { p.x } or { [1] = ... }.
local function check_keys(t, what, place)
  for k in next, t do
    if type(k) ~= "string" then
      core.report(place, format("%s needs a name: %s = ..., not a %s as the key", what,
        type(k) == "number" and "y" or "NAME", type(k)))
      return false
    end
  end
  return true
end

local function run_forward(l, p)
  local place = function_place(l, l.forward)
  local ran, returned = core.try(l.forward, p)
  local out, save = {}, {}
  if type(returned) == "table" then
    for k, v in next, returned do out[k] = v end
    save, out.save = out.save or {}, nil
  elseif ran then
    core.report(place, "forward must return a table: return { y = ..., save = { ... } }")
    ran = false
  end
  if type(save) ~= "table" then
    core.report(place_of(l, l.forward, "save"), "save wants a table: save = { rstd = value }")
    save = {}
  end
  local named = check_keys(out, "an output", place)
  return out, save, check_keys(save, "a saved value", place) and named and ran
end

local function check_name(l, taken, name, what, place)
  if not names.is_name(name) then
    core.report(place, format("%s '%s': not a name that a tensor can have", what,
      string.sub(name, 1, 40)))
  elseif taken[name] then
    core.report(place, format("%s '%s' has the name of %s: use another", what, name, taken[name]))
  end
  taken[name] = "the " .. what
end

local function has_gradient(l, name)
  local o = l.outputs[name]
  return o == nil or o.grad ~= false
end

local function add_outputs(l, out, taken, ran)
  local list = in_order(out, l.order)
  for _, name in ipairs(list) do
    local place, exact = place_of(l, l.forward, name)
    check_name(l, taken, name, "output", place)
    if not l.kernel and has_gradient(l, name) and taken["d" .. name] == "an input" then
      core.report(place, format("output '%s': its incoming gradient would be 'd%s', which is the "
        .. "name of an input: use another", name, name))
    end
    core.output(name, out[name], (l.outputs[name] or {}).type, false, place, exact)
  end
  if not ran then return list end
  if #list == 0 then core.report(function_place(l, l.forward), "forward returns no output") end
  for _, name in ipairs(names.keys(l.outputs)) do
    if out[name] == nil and not l.outputs[name].optional then
      core.report(l.places.outputs, format("outputs: forward does not return '%s'", name)
        .. names.hint(name, list))
    end
  end
  return list
end

-- save = { rstd = value } or { rstd = { value, "bf16" } }; a truth value is stored as "u8"
local function add_saved(l, save, taken)
  local list = names.keys(save)
  for _, name in ipairs(list) do
    local v, t = save[name], nil
    if type(v) == "table" then v, t = v[1], v[2] end
    local place, exact = place_of(l, l.forward, name)
    if t ~= nil and not declare.is_type(t) then
      core.report(place, format("unknown type '%s' of saved '%s'", tostring(t), name)
        .. names.hint(tostring(t), declare.TYPES))
      v, t = nothing, nil
    end
    check_name(l, taken, name, "saved value", place)
    core.output(name, v, t, true, place, exact)
  end
  return list
end

-- ---- backward ----

-- Incoming gradients and what forward stored; unknown names are silent where forward has failed.
local function backward_views(l, outputs, saved, ran)
  local d, s = {}, {}
  for _, name in ipairs(outputs) do
    if has_gradient(l, name) then d[name] = core.upstream(name) end
    s[name] = core.stored(name)
  end
  for _, name in ipairs(saved) do s[name] = core.stored(name) end
  return names.guard("d", d, nothing, not ran), names.guard("s", s, nothing, not ran)
end

local function run_backward(l, p, outputs, saved, ran)
  local d, s = backward_views(l, outputs, saved, ran)
  local fields = {}
  local good, back
  if l.backward == declare.derived then
    if not ran or core.failed() then return fields, false end
    good, back = core.try(derived, l, p, d, s)
    good = back ~= nil
  else
    good, back = core.try(l.backward, p, d, s)
  end
  if type(back) == "table" then
    for k, v in next, back do fields[k] = v end
  elseif good then
    core.report(function_place(l, l.backward),
      "backward must return a table of gradients: return { x = ... }")
    good = false
  end
  return fields, good
end

local function check_gradient_names(l, back, number_of)
  check_keys(back, "a gradient", function_place(l, l.backward))
  for _, name in ipairs(names.keys(back)) do
    local p = l.params[number_of[name]]
    local place = place_of(l, l.backward, name)
    if not p then
      core.report(place, format("backward returns '%s', which is not an input", name)
        .. names.hint(name, names.keys(number_of)))
    elseif not p.grad and not p.broken then
      local tensor = p.role == "input" or p.role == "weight"
      core.report(place, format("backward returns '%s', which has no gradient (%s)", name,
        tensor and "its type is no float, or grad = false" or "it is a " .. p.role))
    end
  end
end

local function add_gradients(l, back, good)
  check_gradient_names(l, back, params_by_name(l))
  local unread = core.unread(false)
  for i, p in ipairs(l.params) do
    if p.grad and back[p.name] ~= nil and not p.broken then
      local place, exact = place_of(l, l.backward, p.name)
      core.gradient(i, back[p.name], place, exact)
    elseif p.grad and back[p.name] == nil and good and not (p.optional and unread[p.name]) then
      core.report(function_place(l, l.backward), format("backward gives no gradient of '%s': "
        .. "return it, or declare '%s' with grad = false", p.name, p.name))
    end
  end
end

-- recomputed = { y = value }: outputs that backward can make again.
local function add_recomputed(l, again, outputs)
  if again == nil then return end
  local place = place_of(l, l.backward, "recomputed")
  if type(again) ~= "table" then
    core.report(place, "recomputed wants a table of outputs: recomputed = { y = value }")
    return
  end
  for _, name in ipairs(names.keys(again)) do
    local known = false
    for _, o in ipairs(outputs) do known = known or o == name end
    if not known then
      core.report(place, format("recomputed '%s' is not an output", name)
        .. names.hint(name, outputs))
    else
      core.recomputed(name, again[name], place, true)
    end
  end
end

-- ---- what nothing reads, and inplace ----

local function check_params_read(l)
  local unread = core.unread(false)
  for _, p in ipairs(l.params) do
    if unread[p.name] and not p.optional then
      core.report(p.where, format("'%s' is not used: no output%s depends on it", p.name,
        l.kernel and "" or " and no gradient"))
    end
  end
end

local function check_backward_reads(l, outputs, saved)
  local unread = core.unread(true)
  for _, name in ipairs(outputs) do
    if has_gradient(l, name) and unread["d" .. name] then
      core.report(function_place(l, l.backward), format("backward does not use d.%s, so what comes "
        .. "through '%s' is lost: use it, or declare outputs = { %s = { grad = false } }", name,
        name, name))
    end
  end
  for _, name in ipairs(saved) do
    if unread[name] then
      core.report(place_of(l, l.forward, name), format("saved '%s' is never read: backward does "
        .. "not use s.%s; leave it out", name, name))
    end
  end
end

local function add_inplace(l)
  for _, result in ipairs(names.keys(l.inplace)) do
    local o = l.outputs[result]
    local is_result, is_tensor = core.inplace(result, l.inplace[result])
    if not is_result and not (o and o.optional) then
      core.report(l.places.inplace, format("inplace: '%s' is neither an output nor a gradient",
        result))
    elseif not is_tensor then
      core.report(l.places.inplace, format("inplace: '%s' is neither an input nor an incoming "
        .. "gradient", l.inplace[result]))
    end
  end
end

local function lint_functions(l)
  if type(l.forward) == "function" then lint(l.forward, l, "forward") end
  if type(l.backward) == "function" then lint(l.backward, l, "backward") end
end

return function(l, symbols)
  local taken = {}
  core.alias(nil)
  core.dims_unknown(l.dims_unknown)
  for name in next, symbols do taken[name] = "an input" end
  for _, p in ipairs(l.params) do
    if p.broken then symbols[p.name] = nothing end
  end
  lint_functions(l)
  local p = names.guard("p", symbols, nothing)
  local out, save, ran = {}, {}, false
  if type(l.forward) == "function" then out, save, ran = run_forward(l, p) end
  local outputs = add_outputs(l, out, taken, ran)
  local saved = add_saved(l, save, taken)
  if not l.kernel and l.backward ~= nil then
    local back, good = run_backward(l, p, outputs, saved, ran)
    local again = back.recomputed
    if not params_by_name(l).recomputed then back.recomputed = nil end
    add_gradients(l, back, good)
    add_recomputed(l, again, outputs)
  end
  if core.failed() then return end -- what follows would only repeat it
  check_params_read(l)
  if not l.kernel then check_backward_reads(l, outputs, saved) end
  add_inplace(l)
end
