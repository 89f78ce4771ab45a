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

-- What is stored as a float of full arithmetic has a gradient; codes and integers have none.
local TYPES = { "f32", "bf16", "f16", "e4m3", "e5m2", "e8m0", "i64", "i32", "i8", "u8" }
local FLOATS = { f32 = true, bf16 = true, f16 = true }
local FIELDS = { "doc", "dims", "outer", "outputs", "inplace", "body", "forward", "backward" }
-- gs.derived, in the place of a function: backward is the compiler's.
declare.derived = setmetatable({}, { __metatable = false, __name = "gs.derived" })

local MARK = {}   -- metatable of what gs.input ... return
local LAYER = {}  -- metatable of a normalised layer

local function is_in(list, x)
  for _, v in ipairs(list) do if v == x then return true end end
  return false
end

local is_name = names.is_name

local serial = 0
local function mark(m)
  serial = serial + 1
  m.serial, m.where = serial, core.here()
  return setmetatable(m, MARK)
end

-- ---- values that checks draw ----

-- One end of a range: a number, or the name of a dim for its size.
local function range_end(v, what)
  if v == nil or type(v) == "number" and v == v or is_name(v) then return v end
  core.report(nil, format("range: its %s end is %s; a number or the name of a dim is wanted", what,
    type(v) == "string" and "'" .. v .. "'" or "a " .. type(v)))
end

-- range = { low, high }: values in [low, high); { low }: no upper end. also = { v ... }: single
-- values drawn now and then. ascending: sorted. offsets = "T": from 0 on, where each of several
-- pieces of T begins, and where the last one ends. Returns { low, high, also, ascending, offsets }.
local function read_drawn(spec)
  local d = { also = {}, ascending = spec.ascending and true or false, offsets = spec.offsets }
  if d.offsets ~= nil and not is_name(d.offsets) then
    core.report(nil, "offsets wants the name of a dim: offsets = \"T\"")
    d.offsets = nil
  end
  local range = spec.range
  if range ~= nil and type(range) ~= "table" then
    core.report(nil, "range wants both ends in braces: range = { 0, 1 }; { 0 } has no upper end")
    range = nil
  end
  d.low, d.high = range_end(range and range[1], "lower"), range_end(range and range[2], "upper")
  if type(d.low) == "number" and type(d.high) == "number" and not (d.low < d.high) then
    core.report(nil, format("range: no value is from %s up to, but below, %s", d.low, d.high))
    d.low, d.high = nil, nil
  end
  local also = spec.also
  if type(also) == "number" then also = { also } end
  for i, v in ipairs(type(also) == "table" and also or {}) do
    if type(v) ~= "number" or i > 8 then
      core.report(nil, "also wants up to 8 numbers: also = { -100 }")
      break
    end
    d.also[i] = v
  end
  return d
end

local function is_nonnegative(d)
  if type(d.low) ~= "number" and not is_name(d.low) then return false end
  local low = type(d.low) == "number" and d.low or 0
  for _, v in ipairs(d.also) do low = math.min(low, v) end
  return low >= 0
end

-- ---- gs.input and its like ----

-- optional: an option may leave it unread.
local SCALAR_FIELDS = { "range", "also", "optional" }
local TENSOR_FIELDS = { "type", "grad", "range", "also", "ascending", "offsets",
  "optional" }

local function check_fields(spec, what, known)
  for _, k in ipairs(names.keys(spec)) do
    if not is_in(known, k) then
      core.report(nil, format("%s has no field '%s'", what, k) .. names.hint(k, known))
    end
  end
end

-- The storage type, nil when it follows the layer; and whether it could be read.
local function read_type(t)
  if t == nil or is_in(TYPES, t) then return t, true end
  core.report(nil, format("unknown type '%s'", tostring(t)) .. names.hint(tostring(t), TYPES))
  return nil, false
end

local function tensor(role)
  return function(spec)
    if type(spec) ~= "table" then
      core.report(nil, format("gs.%s wants its dims in braces: gs.%s { \"T\", \"H\" }", role,
        role))
      return mark { role = role, dims = {}, grad = true, value = 0, drawn = read_drawn {},
                    broken = true }
    end
    check_fields(spec, "gs." .. role, TENSOR_FIELDS)
    local t, known = read_type(spec.type)
    local float = t == nil or FLOATS[t] or false
    if spec.grad == true and not float then
      core.report(nil, format("grad = true: what is stored as %s has no gradient", t))
    end
    local drawn = read_drawn(spec)
    return mark { role = role, dims = { table.unpack(spec) }, type = t, value = 0, drawn = drawn,
                  grad = float and spec.grad ~= false, broken = not known,
                  optional = spec.optional and true or false, nonnegative = is_nonnegative(drawn) }
  end
end

declare.input = tensor "input"
declare.weight = tensor "weight"

local function number(v, what)
  if type(v) == "number" then return v end
  core.report(nil, format("%s wants a number, not a %s", what, type(v)))
  return 0
end

-- gs.scalar(1e-6), or gs.scalar { 1e-6, range = { 0, 1 } } with the values that checks draw.
local function scalar(role, default)
  return function(v)
    local spec = type(v) == "table" and getmetatable(v) == nil and v or { v }
    check_fields(spec, "gs." .. role, SCALAR_FIELDS)
    local drawn = read_drawn(spec)
    local value = spec[1]
    if value == nil then value = default end
    return mark { role = role, dims = {}, grad = false, drawn = drawn,
                  optional = spec.optional and true or false, value = number(value, "gs." .. role),
                  nonnegative = is_nonnegative(drawn) }
  end
end

declare.scalar = scalar "scalar"
declare.step_scalar = scalar("step_scalar", 0)

local function numbers(list, what)
  local out = {}
  if list ~= nil and type(list) ~= "table" then
    core.report(nil, format("%s of gs.option wants a list: %s = { 0, 1 }", what, what))
    return out
  end
  for i, x in ipairs(list or {}) do out[i] = number(x, what .. " of gs.option") end
  return out
end

-- gs.option(0); gs.option { 0, values = { 0, 1 } }: it may have no other value;
-- gs.option { 0, also = { 0.1 } }: it may, and these are values that checks try besides.
function declare.option(v)
  local spec = type(v) == "table" and getmetatable(v) == nil and v or { v }
  check_fields(spec, "gs.option", { "values", "also" })
  local value = number(spec[1], "gs.option")
  local values, tries = numbers(spec.values, "values"), numbers(spec.also, "also")
  if #tries > 0 then table.insert(tries, 1, value) end
  if #values > 0 and not is_in(values, value) then
    core.report(nil, format("gs.option: the default, %s, is none of its values", value))
  end
  return mark { role = "option", value = value, values = values,
                tries = #tries > 0 and tries or values }
end

-- Kernels from a family of templates: what gs.attention names.
function declare.template(name) return mark { role = "template", value = name } end

-- gs.cuda [[ ... ]]: kernels as CUDA C of the author's own.
function declare.cuda(text)
  if type(text) ~= "string" then
    core.report(nil, "gs.cuda wants a text: gs.cuda [[ ... ]]")
    text = ""
  end
  return mark { role = "cuda", value = text }
end

-- ---- dims ----

-- A derived dim is "D/2" of inner dims, a fixed number, or "ceil(N/64)" of an outer dim: then it is
-- outer itself. Where it names an outer dim in another way, that is a mistake.
local function is_outer_size(l, name, size, dim_named)
  local whole = string.match(size, "^%s*ceil%s*%(%s*([%a_][%w_]*)%s*/[^()]*%)%s*$")
    or string.match(size, "^%s*([%a_][%w_]*)%s*$")
  for used in string.gmatch(size, "[%a_][%w_]*") do
    local d = dim_named(used)
    if d and d.outer and used ~= whole then
      core.report(l.places.dims, format("dims: the size of '%s', \"%s\", depends on the outer dim "
        .. "%s, whose size varies: write \"ceil(%s/NUMBER)\", which makes '%s' an outer dim",
        name, size, used, used, name))
    end
  end
  local d = whole and dim_named(whole)
  return d ~= nil and d.outer == true
end

local function is_ready(l, size, dim_named)
  for used in string.gmatch(size, "[%a_][%w_]*") do
    if used ~= "ceil" and not dim_named(used) and not l.is_option[used] then return false end
  end
  return true
end

-- Derived dims in an order in which each comes after those it names; and those that never can.
local function derived_dims(l, waiting, dim_named)
  local list, moved = {}, true
  local function named(name) return dim_named(name) or list[name] end
  while moved do
    moved = false
    for _, name in ipairs(names.keys(waiting)) do
      local size = waiting[name]
      if is_ready(l, size, named) then
        local d = { name = name, size = size, outer = is_outer_size(l, name, size, named) }
        list[#list + 1], list[name], waiting[name], moved = d, d, nil, true
      end
    end
  end
  return list
end

-- The dims as written: names, and "h=D/2" for a derived one whose place in the order matters.
local function listed_dims(l, spec)
  local dims, waiting = {}, {}
  for i, entry in ipairs(spec) do
    local name, size = entry, nil
    if type(entry) == "string" then
      local a, b = string.match(entry, "^%s*([%a_][%w_]*)%s*=%s*(.-)%s*$")
      if a then name, size = a, b end
    end
    if not is_name(name) or name == "all" or name == "ceil" then
      core.report(l.places.dims, format("dims: '%s' is not a name that a dim can have",
        tostring(name)))
    elseif dims[name] then
      core.report(l.places.dims, format("dims: '%s' is there twice", name))
    else
      local d = { name = name, outer = i == 1 and not size, waits = size ~= nil }
      dims[#dims + 1], dims[name], waiting[name] = d, d, size
    end
  end
  for name, size in next, spec do
    if type(name) == "string" then
      if not is_name(name) or name == "all" or name == "ceil" then
        core.report(l.places.dims, format("dims: '%s' is not a name that a dim can have", name))
      elseif dims[name] then
        core.report(l.places.dims, format("dims: '%s' is there twice", name))
      else
        waiting[name] = math.type(size) == "float" and format("%g", size) or tostring(size)
      end
    end
  end
  return dims, waiting
end

local function read_outer(l, spec, dims, waiting)
  if spec == nil then return end
  if type(spec) ~= "table" then spec = { spec } end
  if dims[1] then dims[1].outer = false end
  for _, name in ipairs(spec) do
    local d = dims[name]
    if waiting[name] then
      core.report(l.places.outer, format("outer: the size of '%s' is derived: it is outer where "
        .. "the dim it comes from is", name))
    elseif not d then
      core.report(l.places.outer, format("outer: unknown dim '%s'", tostring(name))
        .. names.hint(tostring(name), names.keys(dims)))
    else
      d.outer = true
    end
  end
end

-- Listed dims in their order; derived ones after them, but outer ones before the first inner one.
local function place_dims(dims, derived)
  local list, at = {}, nil
  for i, d in ipairs(dims) do
    local full = d.waits and derived[d.name] or d
    if not full.outer and not at then at = i end
    if not d.waits or derived[d.name] then list[#list + 1] = full end
  end
  at = at or #list + 1
  for _, d in ipairs(derived) do
    if not dims[d.name] and d.outer then
      table.insert(list, at, d)
      at = at + 1
    elseif not dims[d.name] then
      list[#list + 1] = d
    end
  end
  return list
end

local function read_dims(l, spec)
  local _, before = core.failed()
  if type(spec.dims) ~= "table" or next(spec.dims) == nil then
    core.report(l.places.dims, "dims is missing: dims = { \"T\", \"H\" }, the last the contiguous "
      .. "one")
    spec = { dims = {} }
  end
  l.is_option = {}
  for name, v in next, spec do
    l.is_option[name] = getmetatable(v) == MARK and v.role == "option"
  end
  local dims, waiting = listed_dims(l, spec.dims)
  read_outer(l, spec.outer, dims, waiting)
  local derived = derived_dims(l, waiting, function(name)
    local d = dims[name]
    return d and not d.waits and d or nil
  end)
  for _, name in ipairs(names.keys(waiting)) do
    core.report(l.places.dims, format("dims: the size of '%s', \"%s\", names neither a dim nor an "
      .. "option that is known", name, waiting[name]))
  end
  l.dims, l.number_of = place_dims(dims, derived), {}
  for i, d in ipairs(l.dims) do l.number_of[d.name] = i end
  if #l.dims > 24 then core.report(l.places.dims, "dims: a layer may declare at most 24") end
  local _, after = core.failed()
  l.dims_unknown = after > before
end

-- ---- parameters ----

local function param_dims(l, p)
  local list, seen = {}, {}
  for i, name in ipairs(p.dims) do
    local d = l.number_of[name]
    if not d then
      p.broken = true
      if not l.dims_unknown then
        core.report(p.where, format("'%s': unknown dim '%s'", p.name, tostring(name))
          .. names.hint(tostring(name), names.keys(l.number_of)))
      end
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

-- Ends of ranges that are dims, as numbers of dims.
local function drawn_dims(l, p)
  for _, key in ipairs { "low", "high", "offsets" } do
    local name = p.drawn[key]
    if type(name) == "string" then
      p.drawn[key .. "_dim"], p.drawn[key] = l.number_of[name], nil
      if not l.number_of[name] then
        core.report(p.where, format("'%s': %s: unknown dim '%s'", p.name,
          key == "offsets" and key or "range", name)
          .. names.hint(name, names.keys(l.number_of)))
      end
    end
  end
end

local function read_params(l, spec)
  local list = {}
  for _, key in ipairs(names.keys(spec)) do
    local v = spec[key]
    if getmetatable(v) == MARK then
      if is_in(FIELDS, key) and not (v.role == "template" or v.role == "cuda") or key == "save" then
        core.report(v.where, format("'%s' has a meaning of its own in a layer: use another name",
          key))
        v.broken, spec[key] = true, nil
      elseif not is_name(key) then
        core.report(v.where, format("'%s' is not a name that a tensor can have",
          string.sub(key, 1, 40)))
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
    elseif p.role == "cuda" then
      l.body, l.cuda, l.cuda_line = "cuda", p.value, core.text_line(p.where, p.value)
    elseif p.role == "option" then
      l.options[#l.options + 1] = p
    else
      p.dims = param_dims(l, p)
      drawn_dims(l, p)
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
      core.report(l.places.outputs, format("outputs: unknown type '%s' of '%s'", tostring(t), name)
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
  l.derived = spec.backward == declare.derived
  if type(l.forward) ~= "function" then
    core.report(l.where, "forward is missing: forward = function(p) return { y = ... } end")
  end
  if l.kernel and l.backward ~= nil then
    core.report(l.where, "a gs.kernel has no backward; a layer with one is gs.layer")
  elseif not l.kernel and l.backward ~= declare.derived and type(l.backward) ~= "function" then
    core.report(l.where, "backward is missing: backward = function(p, d, s) return { x = ... } "
      .. "end, or gs.derived; what has none is gs.kernel")
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
      l.places = setmetatable({}, { -- where the text has a field of the layer
        __index = function(_, key) return (core.field(where, key)) end,
      })
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

declare.TYPES = TYPES

function declare.is_type(t) return is_in(TYPES, t) end

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
