-- fuse: composition of two layers. Outputs of a feed inputs of b; every output of a stays one.
--
-- At the seam the value is rounded to the type it is stored in, so the fused layer gives what the
-- two give one after the other. Backward is made of the two closed forms: b's gradient of the value
-- in between is added, in f32, to what comes in for it from elsewhere. Where a name of b is taken
-- by a, b's becomes NAME-OF-B_name.
local core = ...
local names = core.part "names"
local declare = core.part "declare"
local format = string.format
local nothing = core.nothing

local function own_name(taken, b, name)
  return taken[name] and b.name .. "_" .. name or name
end

-- ---- the declaration ----

local function join_dims(l, a, b)
  l.dims, l.number_of = {}, {}
  for _, part in ipairs { a, b } do
    for _, d in ipairs(part.dims) do
      local at = l.number_of[d.name]
      local have = at and l.dims[at]
      if not have then
        l.dims[#l.dims + 1], l.number_of[d.name] = d, #l.dims + 1
      elseif have.outer ~= d.outer or have.size ~= d.size then
        core.report(l.where, format("fuse: dim %s is %s in %s, but %s in %s", d.name,
          have.outer and "outer" or have.size or "inner", a.name,
          d.outer and "outer" or d.size or "inner", b.name))
      end
    end
  end
end

local function moved_param(l, part, p, name)
  local q = {}
  for k, v in next, p do q[k] = v end
  q.name, q.dims = name, {}
  for i, d in ipairs(p.dims or {}) do q.dims[i] = l.number_of[part.dims[d].name] end
  return q
end

-- Adds the parameters of a part; returns {its name = name in l} for those that are not fed.
local function take_params(l, part, taken, fed)
  local map = {}
  for _, kind in ipairs { "params", "options" } do
    for _, p in ipairs(part[kind]) do
      if not fed[p.name] then
        local name = own_name(taken, part, p.name)
        if taken[name] then
          core.report(l.where, format("fuse: the name '%s' is taken twice", name))
        end
        taken[name], map[p.name] = true, name
        table.insert(l[kind], moved_param(l, part, p, name))
      end
    end
  end
  return map
end

-- ---- forward ----

-- A part's own p: its names for the values of the fused layer's.
local function part_view(part, p, map, fed)
  local view = {}
  for own, name in next, map do view[own] = p[name] end
  for own, v in next, fed do view[own] = v end
  return names.guard("p", view, nothing)
end

local function first_input(part)
  for _, p in ipairs(part.params) do
    if p.role == "input" then return p.name end
  end
end

local function first_output(part, out)
  for _, name in ipairs(part.order) do
    if out[name] ~= nil then return name end
  end
  return names.keys(out)[1]
end

local function returned(part, p)
  local out = part.forward(p)
  if type(out) ~= "table" then
    core.report(core.defined(part.forward), "forward must return a table: return { y = ... }")
    out = {}
  end
  local save = out.save or {}
  out.save = nil
  return out, save
end

-- The values that feed b, each as the output of a that it is will be stored.
local function feed(l, a, b, out, feeds)
  local fed = {}
  for to, from in next, feeds do
    if out[from] == nil then
      core.report(l.where, format("fuse: %s has no output '%s' to feed %s.%s", a.name,
        tostring(from), b.name, to) .. names.hint(tostring(from), names.keys(out)))
      fed[to] = nothing
    else
      fed[to] = core.seam(from, out[from], (a.outputs[from] or {}).type)
    end
  end
  return fed
end

-- Moves b's results into those of a under names of their own; returns {b's name = name}.
local function move_results(b, results, into, taken)
  local map = {}
  for _, name in ipairs(names.keys(results)) do
    map[name] = own_name(taken, b, name)
    into[map[name]] = results[name]
  end
  return map
end

local function forward_of(l, a, b, state)
  return function(p)
    local out, save = returned(a, part_view(a, p, state.a_params, {}))
    local taken = {}
    for _, t in ipairs { state.params, out, save } do
      for name in next, t do taken[name] = true end
    end
    state.a_outputs, state.a_saved = names.keys(out), names.keys(save)
    state.feeds = state.map or { [first_input(b)] = first_output(a, out) }
    local fed = feed(l, a, b, out, state.feeds)
    local b_out, b_save = returned(b, part_view(b, p, state.b_params, fed))
    state.b_outputs = move_results(b, b_out, out, taken)
    state.b_saved = move_results(b, b_save, save, taken)
    for own, name in next, state.b_outputs do l.outputs[name] = b.outputs[own] end
    for _, own in ipairs(b.order) do table.insert(l.order, state.b_outputs[own]) end
    out.save = save
    return out
  end
end

-- ---- backward ----

local function gradients(part, p, d, s)
  local g = part.backward(p, names.guard("d", d, nothing), names.guard("s", s, nothing))
  if type(g) == "table" then return g end
  core.report(core.defined(part.backward), "backward must return a table of gradients")
  return {}
end

local function differentiable(part, name)
  local o = part.outputs[name]
  return o == nil or o.grad ~= false
end

-- b's gradients, and what they add to the upstreams of a's outputs.
local function backward_of_b(b, p, d, s, state)
  local fed, d_b, s_b = {}, {}, {}
  for to, from in next, state.feeds do fed[to] = s[from] end
  for own, name in next, state.b_outputs do
    if differentiable(b, own) then d_b[own] = d[name] end
    s_b[own] = s[name]
  end
  for own, name in next, state.b_saved do s_b[own] = s[name] end
  return gradients(b, part_view(b, p, state.b_params, fed), d_b, s_b)
end

local function backward_of_a(a, b, p, d, s, g_b, state)
  local d_a, s_a = {}, {}
  for _, name in ipairs(state.a_outputs) do
    if differentiable(a, name) then d_a[name] = d[name] end
    s_a[name] = s[name]
  end
  for _, name in ipairs(state.a_saved) do s_a[name] = s[name] end
  for _, to in ipairs(names.keys(state.feeds)) do
    local from = state.feeds[to]
    if g_b[to] == nil then
      core.report(core.defined(b.backward), format("backward gives no gradient of '%s'", to))
    elseif d_a[from] then
      d_a[from] = d_a[from] + g_b[to]
    end
  end
  return gradients(a, part_view(a, p, state.a_params, {}), d_a, s_a)
end

local function backward_of(a, b, state)
  return function(p, d, s)
    local g_b = backward_of_b(b, p, d, s, state)
    local g_a = backward_of_a(a, b, p, d, s, g_b, state)
    local all = {}
    for own, v in next, g_a do all[state.a_params[own] or own] = v end
    for own, v in next, g_b do
      if not state.feeds[own] then all[state.b_params[own] or own] = v end
    end
    return all
  end
end

-- ---- gs.fuse ----

local function check_parts(a, b, map)
  for i, part in ipairs { a, b } do
    if not declare.is_layer(part) then
      error(format("gs.fuse: argument %d is not a layer", i), 0)
    elseif part.kernel or part.body then
      error(format("gs.fuse: %s %s and cannot be fused", part.name,
        part.body and "has a template of its own" or "is a kernel, without backward,"), 0)
    end
  end
  local inputs = {}
  for _, p in ipairs(b.params) do
    if p.role == "input" then inputs[p.name] = true end
  end
  for to in next, map or {} do
    if not inputs[to] then
      error(format("gs.fuse: %s has no input '%s'", b.name, tostring(to))
        .. names.hint(tostring(to), names.keys(inputs)), 0)
    end
  end
  if not next(inputs) then error("gs.fuse: " .. b.name .. " has no input", 0) end
end

local function fuse(a, b, map)
  check_parts(a, b, map)
  local l = setmetatable({ where = core.here(), params = {}, options = {}, inplace = {},
    outputs = {}, order = {}, kernel = false,
    doc = (a.doc or a.name) .. "; " .. (b.doc or b.name) }, declare.LAYER)
  local fed, state = {}, { map = map, params = {} }
  for to in next, map or { [first_input(b)] = true } do fed[to] = true end
  join_dims(l, a, b)
  state.a_params = take_params(l, a, state.params, {})
  state.b_params = take_params(l, b, state.params, fed)
  for _, name in ipairs(a.order) do table.insert(l.order, name) end
  for name, o in next, a.outputs do l.outputs[name] = o end
  for result, with in next, a.inplace do l.inplace[result] = state.a_params[with] end
  l.forward = forward_of(l, a, b, state)
  l.backward = backward_of(a, b, state)
  return l
end

return fuse
