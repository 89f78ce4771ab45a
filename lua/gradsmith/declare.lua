-- declare: what a layer's table says, checked and put into lists that gen/lua/declare.c reads:
--   { name, file, doc, kernel, body, forward, backward, where,
--     dims    = { { name, size = "D/2" or nil, outer } ... },
--     params  = { { name, role, type, dims = { numbers }, value, grad, where } ... },   as written
--     options = { { name, value } ... },
--     order   = { names of outputs },  outputs = { [name] = { type, grad, optional } },
--     inplace = { [result] = tensor } }
local core = ...
local names = core.part "names"
local format = string.format
local declare = {}

local TYPES = { "f32", "bf16", "f16", "i32", "i64", "u8" }
local FLOATS = { f32 = true, bf16 = true, f16 = true }
local FIELDS = { "doc", "dims", "outer", "outputs", "inplace", "body", "forward", "backward" }
local MARK = {}   -- metatable of what gs.input ... return
local LAYER = {}  -- metatable of a normalised layer

local function is_in(list, x)
  for _, v in ipairs(list) do if v == x then return true end end
  return false
end

local is_name = names.is_name

-- ---- gs.input and its like ----

local serial = 0
local function mark(m)
  serial = serial + 1
  m.serial, m.where = serial, core.here()
  return setmetatable(m, MARK)
end

-- nonnegative: no element is below zero (a second moment); what checks draw keeps to it.
local TENSOR_FIELDS = { "type", "grad", "nonnegative" }

local function tensor(role)
  return function(spec, type_name)
    if type(spec) ~= "table" then
      core.report(nil, format("gs.%s wants its dims in braces: gs.%s { \"T\", \"H\" }", role,
        role))
      spec = {}
    end
    for _, k in ipairs(names.keys(spec)) do
      if not is_in(TENSOR_FIELDS, k) then
        core.report(nil, format("gs.%s has no field '%s'", role, k) .. names.hint(k, TENSOR_FIELDS))
      end
    end
    local t = spec.type or type_name
    if t ~= nil and not is_in(TYPES, t) then
      core.report(nil, format("unknown type '%s'", tostring(t)) .. names.hint(tostring(t), TYPES))
      t = nil
    end
    local float = t == nil or FLOATS[t]
    return mark { role = role, dims = { table.unpack(spec) }, type = t,
                  grad = (float and spec.grad ~= false) or false, value = 0,
                  nonnegative = spec.nonnegative and true or false }
  end
end

declare.input = tensor "input"
declare.weight = tensor "weight"

local function number(v, what)
  if type(v) == "number" then return v end
  core.report(nil, format("%s wants a number, not a %s", what, type(v)))
  return 0
end

function declare.scalar(v)
  return mark { role = "scalar", dims = {}, grad = false, value = number(v, "gs.scalar") }
end

function declare.step_scalar(v)
  return mark { role = "step_scalar", dims = {}, grad = false,
                value = number(v or 0, "gs.step_scalar") }
end

function declare.option(v) return mark { role = "option", value = number(v, "gs.option") } end

function declare.template(name)
  if not is_name(name) then
    core.report(nil, "gs.template wants the name of a file of templates/")
  end
  return mark { role = "template", value = tostring(name) }
end

-- ---- dims ----

-- Derived dims in an order in which each comes after those it names.
local function derived_dims(spec, known)
  local list, waiting = {}, {}
  for k, v in next, spec do
    if type(k) == "string" then waiting[k] = tostring(v) end
  end
  local moved = true
  while moved do
    moved = false
    for _, name in ipairs(names.keys(waiting)) do
      local ready = true
      for used in string.gmatch(waiting[name], "[%a_][%w_]*") do ready = ready and known[used] end
      if ready then
        list[#list + 1] = { name = name, size = waiting[name], outer = false }
        known[name], waiting[name], moved = #list, nil, true
      end
    end
  end
  return list, waiting
end

local function read_dims(l, spec)
  local dims, number_of = {}, {}
  if type(spec.dims) ~= "table" or spec.dims[1] == nil then
    core.report(l.where, "dims is missing: dims = { \"T\", \"H\" }, the last the contiguous one")
    spec.dims = {}
  end
  for i, name in ipairs(spec.dims) do
    if not is_name(name) or name == "all" then
      core.report(l.where, format("dims: '%s' is not a name that a dim can have", tostring(name)))
    elseif number_of[name] then
      core.report(l.where, format("dims: '%s' is there twice", name))
    end
    dims[i] = { name = tostring(name), outer = i == 1 and spec.outer == nil }
    number_of[tostring(name)] = i
  end
  local derived, unknown = derived_dims(spec.dims, setmetatable({}, { __index = number_of }))
  for _, d in ipairs(derived) do
    if number_of[d.name] then core.report(l.where, format("dims: '%s' is there twice", d.name)) end
    dims[#dims + 1] = d
    number_of[d.name] = #dims
  end
  for _, name in ipairs(names.keys(unknown)) do
    core.report(l.where, format("dims: the size of '%s', \"%s\", names an unknown dim", name,
      unknown[name]))
  end
  if type(spec.outer or {}) ~= "table" then spec.outer = { spec.outer } end
  for _, name in ipairs(spec.outer or {}) do
    local d = dims[number_of[name]]
    if not d then
      core.report(l.where, format("outer: unknown dim '%s'", tostring(name))
        .. names.hint(tostring(name), names.keys(number_of)))
    elseif d.size then
      core.report(l.where, format("outer: the size of '%s' is derived, so it is fixed", name))
    else
      d.outer = true
    end
  end
  if #dims > 24 then core.report(l.where, "dims: a layer may declare at most 24") end
  l.dims, l.number_of = dims, number_of
end

-- ---- parameters ----

local function param_dims(l, p)
  local list, seen = {}, {}
  for i, name in ipairs(p.dims) do
    local d = l.number_of[name]
    if not d then
      core.report(p.where, format("'%s': unknown dim '%s'", p.name, tostring(name))
        .. names.hint(tostring(name), names.keys(l.number_of)))
    elseif seen[d] then
      core.report(p.where, format("'%s' has dim %s twice", p.name, name))
    elseif i > 1 and l.dims[d].outer then
      core.report(p.where, format("'%s': only the first dim of a tensor may be outer, but %s is",
        p.name, name))
    elseif i > 6 then
      core.report(p.where, format("'%s' has more than 6 dims", p.name))
    else
      list[#list + 1], seen[d] = d, true
    end
  end
  return list
end

local function read_params(l, spec)
  local list = {}
  for _, key in ipairs(names.keys(spec)) do
    local v = spec[key]
    if getmetatable(v) == MARK then
      if not is_name(key) then
        core.report(v.where, format("'%s' is not a name that a tensor can have", key))
      end
      v.name = key
      list[#list + 1] = v
    elseif not is_in(FIELDS, key) then
      core.report(l.where, format("'%s' is not a field of a layer", key) .. names.hint(key, FIELDS))
    end
  end
  table.sort(list, function(a, b) return a.serial < b.serial end)
  l.params, l.options = {}, {}
  for i, p in ipairs(list) do
    if i > 1 and list[i - 1].serial == p.serial then
      core.report(p.where, format("'%s' and '%s' are one and the same declaration",
        list[i - 1].name, p.name))
    end
    if p.role == "template" then
      l.body = p.value
    elseif p.role == "option" then
      l.options[#l.options + 1] = p
    else
      p.dims = param_dims(l, p)
      l.params[#l.params + 1] = p
    end
  end
end

-- A gradient "dx" and an input "dx" would be one name for two tensors.
local function check_names(l)
  local taken = {}
  for _, p in ipairs(l.params) do taken[p.name] = p end
  for _, p in ipairs(l.params) do
    local other = p.grad and taken["d" .. p.name]
    if other then
      core.report(other.where, format("'%s' is the name of the gradient of '%s': use another",
        other.name, p.name))
    end
  end
end

-- ---- outputs, inplace ----

-- { "y", "lse", y = "bf16", lse = { type = "f32", grad = false, optional = true } }
local function read_outputs(l, spec)
  l.order, l.outputs = {}, {}
  for _, name in ipairs(spec or {}) do
    l.order[#l.order + 1], l.outputs[name] = name, { optional = true, grad = true }
  end
  for _, name in ipairs(names.keys(spec or {})) do
    local o = spec[name]
    if type(o) ~= "table" then o = { type = o } end
    local t = o.type
    if t ~= nil and not is_in(TYPES, t) then
      core.report(l.where, format("outputs: unknown type '%s' of '%s'", tostring(t), name)
        .. names.hint(tostring(t), TYPES))
      t = nil
    end
    local float = t == nil or FLOATS[t]
    l.outputs[name] = { type = t, grad = (float and o.grad ~= false) or false,
                        optional = o.optional }
  end
end

-- { result = tensor }: whether they exist is seen when forward and backward have run.
local function read_inplace(l, spec)
  l.inplace = {}
  for _, result in ipairs(names.keys(spec or {})) do l.inplace[result] = tostring(spec[result]) end
end

-- ---- the layer ----

local function read_functions(l, spec)
  l.forward, l.backward = spec.forward, spec.backward
  if type(l.forward) ~= "function" then
    core.report(l.where, "forward is missing: forward = function(p) return { y = ... } end")
  end
  if l.kernel and l.backward ~= nil then
    core.report(l.where, "a gs.kernel has no backward; a layer with one is gs.layer")
  elseif not l.kernel and type(l.backward) ~= "function" then
    core.report(l.where, "backward is missing: backward = function(p, d, s) return { x = ... } "
      .. "end; what has none is gs.kernel")
  end
end

local function declarer(kernel)
  return function(name)
    local where, file = core.here(), core.file()
    if not is_name(name) then
      core.report(where, "a layer wants a name: gs.layer \"rmsnorm\" { ... }")
    end
    return core.keep(function(spec)
      local l = setmetatable({ name = tostring(name), where = where, file = file,
        kernel = kernel }, LAYER)
      if type(spec) ~= "table" then error("a layer is a table: gs.layer \"name\" { ... }", 0) end
      l.doc = type(spec.doc) == "string" and spec.doc or nil
      read_dims(l, spec)
      read_params(l, spec)
      check_names(l)
      read_outputs(l, spec.outputs)
      read_inplace(l, spec.inplace)
      read_functions(l, spec)
      return l
    end)
  end
end

declare.layer = declarer(false)
declare.kernel = declarer(true)
declare.LAYER = LAYER

function declare.is_layer(l) return getmetatable(l) == LAYER end

-- What a file returned must be a layer; one without a name of its own is called after the file.
function declare.finish(l, stem, file)
  if not declare.is_layer(l) then
    core.report(file .. ":1", format("the file does not return a layer: return gs.layer \"%s\" "
      .. "{ ... }", stem))
    return nil
  end
  l.name = l.name or stem
  l.file = l.file or file
  return l
end

return declare
