-- fuse, beside: layers made of layers. Every output of a part is an output of the whole.
--
-- gs.fuse(a, b, { x = "h" }, c ...): each layer is fed by those before it; where a value passes on
-- it is rounded to the type it is stored in, so that the whole gives what the parts give in turn.
-- gs.beside(a, { x = "q" }, b, { x = "k" }): parts beside each other; inputs of the same name and
-- shape are one input. Backward is made of the parts' own: gradients of what is read in several
-- places are added in f32.
--
-- A part keeps the names of its file: `p`, `d` and `s` are given to it under these, and while it
-- runs its names of dims stand for those of the whole. Where a name is taken, that of a later part
-- becomes NAME-OF-PART_name.
local core = ...
local names = core.part "names"
local declare = core.part "declare"
local derived = core.part "derived"
local format = string.format
local nothing = core.nothing

-- A part: { layer, feeds = { input = output }, rename = { own name = name },
--   params, options, dims, outputs, saved = { own name = name of the whole } }.

local function own_name(taken, layer, name)
  return taken[name] and layer.name .. "_" .. name or name
end

local function report(l, ...) core.report(l.where, format(...)) end

-- ---- dims ----

local function renamed_size(part, size)
  if not size then return nil end
  return (string.gsub(size, "[%a_][%w_]*", function(word)
    return part.dims[word] or part.options[word] or word
  end))
end

-- Outer dims stand before inner ones, so that a tensor may have one outer dim as its first; and a
-- new dim before those that follow it in the part, so that the part's tensors keep their layout.
local function insert_dim(l, d, following)
  local at = #l.dims + 1
  for i, other in ipairs(l.dims) do
    if d.outer and not other.outer or d.outer == other.outer and following[other.name] then
      at = i
      break
    end
  end
  table.insert(l.dims, at, d)
end

local function dim_named(l, name)
  for _, d in ipairs(l.dims) do if d.name == name then return d end end
end

local function describe(d)
  return d.outer and "outer" or d.size and '"' .. d.size .. '"' or "inner"
end

local function names_after(part, k)
  local following = {}
  for i = k + 1, #part.layer.dims do
    local name = part.layer.dims[i].name
    following[part.rename[name] or name] = true
  end
  return following
end

local function join_dims(l, part)
  for k, d in ipairs(part.layer.dims) do
    local name = part.rename[d.name] or d.name
    local size = renamed_size(part, d.size)
    local have = dim_named(l, name)
    local clash = have and (have.outer ~= d.outer or have.size ~= size)
    if clash and size and not part.rename[d.name] then -- a derived dim may have any name
      name = part.layer.name .. "_" .. name
      have, clash = dim_named(l, name), false
    end
    part.dims[d.name] = name
    if clash and not (part.rename[d.name] and have.outer == d.outer) then
      report(l, "dim %s is %s in %s, but %s before it: give it another name, { %s = \"NAME\" }",
        d.name, describe(d), part.layer.name, describe(have), d.name)
    elseif not have then
      insert_dim(l, { name = name, size = size, outer = d.outer }, names_after(part, k))
    end
  end
end

-- ---- parameters ----

local function moved_param(l, part, p, name)
  local q = {}
  for k, v in next, p do q[k] = v end
  q.name, q.dims = name, {}
  if part.layer.kernel then q.grad = false end
  local function moved(d) return l.number_of[part.dims[part.layer.dims[d].name]] end
  for i, d in ipairs(p.dims or {}) do q.dims[i] = moved(d) end
  if p.drawn then
    q.drawn = {}
    for k, v in next, p.drawn do q.drawn[k] = v end
    q.drawn.low_dim = p.drawn.low_dim and moved(p.drawn.low_dim)
    q.drawn.high_dim = p.drawn.high_dim and moved(p.drawn.high_dim)
  end
  return q
end

local function same_shape(a, b)
  local same = a.role == b.role and a.type == b.type and a.value == b.value
    and #(a.dims or {}) == #(b.dims or {})
  for i, d in ipairs(a.dims or {}) do same = same and d == b.dims[i] end
  return same
end

local function find_param(l, name)
  for _, list in ipairs { l.params, l.options } do
    for _, p in ipairs(list) do if p.name == name then return p end end
  end
end

-- Takes over a parameter or option of a part, under its own name, a given one, or a new one.
local function take(l, part, p, kind, taken)
  local wish = part.rename[p.name] or p.name
  local moved = moved_param(l, part, p, wish)
  local have = l.shares and find_param(l, wish)
  if have and same_shape(have, moved) then
    have.grad = have.grad or moved.grad
    have.optional = have.optional and moved.optional
    return wish
  end
  local name = own_name(taken, part.layer, wish)
  if taken[name] or part.rename[p.name] and taken[wish] then
    report(l, "the name '%s' of %s's %s is taken: give it another, { %s = \"NAME\" }", name,
      part.layer.name, p.name, p.name)
  end
  moved.name, taken[name] = name, true
  table.insert(l[kind], moved)
  return name
end

-- ---- calling a part ----

local active -- own names of dims of the part that runs -> names in the graph

local function call(part, f, ...)
  local before, inside = active, {}
  for own, name in next, part.dims do inside[own] = before and before[name] or name end
  active = inside
  core.alias(inside)
  local result = f(...)
  active = before
  core.alias(before)
  return result
end

local function view(part, p, fed)
  local fields = {}
  for own, name in next, part.params do fields[own] = p[name] end
  for own, name in next, part.options do fields[own] = p[name] end
  for own, v in next, fed do fields[own] = v end
  return names.guard("p", fields, nothing)
end

local function returned(part, p)
  local out = call(part, part.layer.forward, p)
  if type(out) ~= "table" then
    core.report(core.defined(part.layer.forward), "forward must return a table: return { y = ... }")
    out = {}
  end
  local fields = {}
  for k, v in next, out do fields[k] = v end
  local save = fields.save or {}
  fields.save = nil
  return fields, save
end

-- ---- forward ----

-- What feeds an input has its dims: else the part would broadcast over one that it does not know.
local function check_dims(l, part, to, from, v)
  local p, dims, own = nil, {}, {}
  for _, q in ipairs(part.layer.params) do
    if q.name == to then p = q end
  end
  for i, d in ipairs(p.dims) do
    own[i] = part.layer.dims[d].name
    dims[i] = part.dims[own[i]]
  end
  local has = core.outside(v, dims)
  if not has then return true end
  report(l, "'%s' has dims %s, but %s's '%s' has [%s]: say which dim is which, { %s = \"%s\", "
    .. "%s = \"NAME\" }", from, has, part.layer.name, to, table.concat(own, ", "), to, from,
    own[#own] or "H")
  return false
end

local function fed_values(l, part, out)
  local fed = {}
  for to, from in next, part.feeds do
    if out[from] == nil then
      report(l, "no layer before %s has an output '%s' to feed its '%s'%s", part.layer.name,
        tostring(from), to, names.hint(tostring(from), names.keys(out)))
      fed[to] = nothing
    elseif not check_dims(l, part, to, from, out[from]) then
      fed[to] = nothing
    else
      fed[to] = core.seam(from, out[from], (l.outputs[from] or {}).type)
    end
  end
  return fed
end

-- Names of a part's results, in the order of its declaration.
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

local function add_output(l, part, own, name)
  local o = part.layer.outputs[own] or { grad = true }
  if not l.outputs[name] then table.insert(l.order, name) end
  l.outputs[name] = { type = o.type, optional = true,
                      grad = not part.layer.kernel and o.grad ~= false }
end

local function forward_of(l, parts)
  return function(p)
    active = nil
    local out, save, taken, last = {}, {}, {}, nil
    for _, list in ipairs { l.params, l.options } do
      for _, x in ipairs(list) do taken[x.name] = true end
    end
    for _, part in ipairs(parts) do
      if part.fed_first then part.feeds = { [part.fed_first] = last } end
      part.outputs, part.saved = {}, {}
      local part_out, part_save = returned(part, view(part, p, fed_values(l, part, out)))
      last = nil
      for _, own in ipairs(in_order(part_out, part.layer.order)) do
        local name = part.rename[own] or own_name(taken, part.layer, own)
        part.outputs[own], out[name], taken[name] = name, part_out[own], true
        last = last or name
        add_output(l, part, own, name)
      end
      for _, own in ipairs(names.keys(part_save)) do
        local name = part.rename[own] or own_name(taken, part.layer, own)
        part.saved[own], save[name], taken[name] = name, part_save[own], true
      end
    end
    out.save = save
    return out
  end
end

-- ---- backward ----

local function gradients(part, p, d, s)
  local layer = part.layer
  local dd, ss = names.guard("d", d, nothing), names.guard("s", s, nothing)
  local g
  if layer.backward == declare.derived then
    g = call(part, derived, layer, p, dd, ss)
  else
    g = call(part, layer.backward, p, dd, ss)
  end
  if type(g) == "table" then return g end
  if layer.backward == declare.derived then return {} end
  core.report(core.defined(layer.backward), "backward must return a table of gradients")
  return {}
end

local function add_to(t, name, v)
  if t[name] == nil then t[name] = v else t[name] = t[name] + v end
end

-- What flows on from a part: to parameters of the whole, and to the outputs that fed it.
local function spread(l, part, g, all, total)
  for _, q in ipairs(part.layer.params) do
    local own, from = q.name, part.feeds[q.name]
    local v = g[own]
    if v == nil then
      if q.grad and not q.optional then
        core.report(type(part.layer.backward) == "function" and core.defined(part.layer.backward)
          or l.where, format("backward gives no gradient of '%s'", own))
      end
    elseif not from then
      add_to(all, part.params[own], v)
    elseif not l.outputs[from] then -- told in forward
    elseif l.outputs[from].grad then
      add_to(total, from, v)
    else
      report(l, "output '%s' has no gradient, so it cannot feed %s.%s, which has one", from,
        part.layer.name, own)
    end
  end
  for own, v in next, g do -- names that the part does not have: build tells them
    if not part.params[own] and not part.feeds[own] and own ~= "recomputed" then all[own] = v end
  end
end

local function backward_of(l, parts)
  return function(p, d, s)
    active = nil
    local all, total = {}, {}
    for name, o in next, l.outputs do
      if o.grad and rawget(d, name) ~= nil then total[name] = d[name] end
    end
    for i = #parts, 1, -1 do
      local part = parts[i]
      if not part.layer.kernel then
        local fed, part_d, part_s = {}, {}, {}
        for to, from in next, part.feeds do fed[to] = rawget(s, from) or nothing end
        for own, name in next, part.outputs or {} do
          part_d[own], part_s[own] = total[name], s[name]
        end
        for own, name in next, part.saved or {} do part_s[own] = s[name] end
        spread(l, part, gradients(part, view(part, p, fed), part_d, part_s), all, total)
      end
    end
    return all
  end
end

-- ---- the declaration ----

local function first_input(layer)
  for _, p in ipairs(layer.params) do
    if p.role == "input" then return p.name end
  end
end

local function has_param(layer, name)
  for _, list in ipairs { layer.params, layer.options } do
    for _, p in ipairs(list) do if p.name == name then return p end end
  end
end

local function has_dim(layer, name)
  for _, d in ipairs(layer.dims) do if d.name == name then return true end end
end

-- The layers and maps of a call: layer, [map], layer, [map] ...
local function read_parts(what, ...)
  local parts = {}
  for i = 1, select("#", ...) do
    local x = select(i, ...)
    if declare.is_layer(x) then
      if x.body then
        error(format("%s: %s has kernels of its own and cannot be composed", what, x.name), 0)
      end
      parts[#parts + 1] = { layer = x, rename = {}, feeds = {}, params = {}, options = {},
                            dims = {} }
    elseif type(x) == "table" and #parts > 0 and not parts[#parts].map
      and getmetatable(x) == nil then
      parts[#parts].map = x
    else
      error(format("%s: argument %d is not a layer", what, i), 0)
    end
  end
  if #parts < 2 then error(what .. ": two layers at least are wanted", 0) end
  return parts
end

-- A map's entries: feeds for inputs (fuse), new names for dims and, beside, for everything.
local function read_map(what, part, feeds)
  local layer, known = part.layer, {}
  for _, key in ipairs(names.keys(part.map or {})) do
    local to = part.map[key]
    local p = has_param(layer, key)
    if not names.is_name(to) then
      error(format("%s: { %s = ... } wants a name, not a %s", what, key, type(to)), 0)
    elseif feeds and p and p.role == "input" then
      part.feeds[key] = to
    elseif p and feeds or not p and not has_dim(layer, key) and feeds then
      for _, q in ipairs(layer.params) do
        if q.role == "input" then known[#known + 1] = q.name end
      end
      error(format("%s: %s has no input '%s'", what, layer.name, key) .. names.hint(key, known), 0)
    else
      part.rename[key] = to
    end
  end
end

local function compose(what, parts, shares)
  local l = setmetatable({ where = core.here(), params = {}, options = {}, inplace = {}, dims = {},
    outputs = {}, order = {}, number_of = {}, shares = shares, kernel = true }, declare.LAYER)
  l.places = setmetatable({}, { __index = function() return l.where end })
  local taken, doc = {}, {}
  for _, part in ipairs(parts) do
    for _, o in ipairs(part.layer.options) do
      part.options[o.name] = take(l, part, o, "options", taken)
    end
    join_dims(l, part)
    l.kernel = l.kernel and part.layer.kernel
    l.derived = l.derived or part.layer.derived
    doc[#doc + 1] = part.layer.doc or part.layer.name
  end
  for i, d in ipairs(l.dims) do l.number_of[d.name] = i end
  for _, part in ipairs(parts) do
    for _, p in ipairs(part.layer.params) do
      if not part.feeds[p.name] and part.fed_first ~= p.name then
        part.params[p.name] = take(l, part, p, "params", taken)
      end
    end
  end
  for result, with in next, parts[1].layer.inplace do
    l.inplace[result] = parts[1].params[with] or with
  end
  l.doc = table.concat(doc, "; ")
  l.forward = forward_of(l, parts)
  if not l.kernel then l.backward = backward_of(l, parts) end
  return l
end

local function fuse(...)
  local parts = read_parts("gs.fuse", ...)
  for i, part in ipairs(parts) do
    if i == 1 and part.map then error("gs.fuse: nothing feeds the first layer: its map", 0) end
    read_map("gs.fuse", part, i > 1)
    if i > 1 and next(part.feeds) == nil then
      part.fed_first = first_input(part.layer)
      if not part.fed_first then error("gs.fuse: " .. part.layer.name .. " has no input", 0) end
    end
    local before = parts[i - 1] and parts[i - 1].layer
    if before and before.kernel and not part.layer.kernel then
      error(format("gs.fuse: %s is a kernel, without backward, and cannot feed %s, which has one",
        before.name, part.layer.name), 0)
    end
  end
  return compose("fuse", parts, false)
end

local function beside(...)
  local parts = read_parts("gs.beside", ...)
  for _, part in ipairs(parts) do read_map("gs.beside", part, false) end
  return compose("beside", parts, true)
end

return { fuse = fuse, beside = beside }
