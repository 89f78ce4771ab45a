-- attention: gs.attention, a layer of which the author says the score of a pair and its derivative,
-- and which keys a query sees. What is built of that here is its mathematics, forward and backward,
-- which checks hold against the adjoint and against the kernels; the same closed forms over leaves
-- of their own go to gen/emit/attention, which puts them into the templates attention_*.cu.
--
-- q, y [T, K, G, D], k, v [S, K, D]: G query heads share each of K heads of keys. Document b has
-- the queries cu_q[b] .. cu_q[b+1]-1 and the keys cu_k[b] .. cu_k[b+1]-1; rows past the last
-- document are nobody's: y and gradients are 0. A position counts from the document's first key,
-- and a document's last query stands at its last key.
local core = ...
local f = core.functions
local names = core.part "names"
local declare = core.part "declare"
local format = string.format

local OWN = { score = true, dscore = true, keys = true, sink_logit = true }
local DIMS = { "T", "S", "B1", "K", "G", "D" }
local LOG2E = 1.4426950408889634
local HIDDEN = -0x1p100 -- a score that is not seen: exact in f32, its exponential is 0

-- ---- what the author says ----

-- The parameters that every attention has, before the author's own.
local function common_params()
  local function offsets(dim)
    return declare.input { "B1", type = "i32", offsets = dim }
  end
  return {
    q = declare.input { "T", "K", "G", "D" },
    k = declare.input { "S", "K", "D" },
    v = declare.input { "S", "K", "D" },
    cu_q = offsets "T", cu_k = offsets "S",
    scale = declare.scalar { 1, range = { 0.05, 2 } }, -- above zero
  }
end

local function check_own(name, where, spec)
  for _, key in ipairs { "score", "dscore", "keys" } do
    if type(spec[key]) ~= "function" then
      core.report(where, format("gs.attention \"%s\": %s is missing: %s", name, key,
        key == "score" and "score = function(s, i, p) return s end"
        or key == "dscore" and "dscore = function(dz, s, i, p) return dz end"
        or "keys = function(i, p) return 0, i.q end"))
      return false
    end
  end
  if spec.sink_logit ~= nil and type(spec.sink_logit) ~= "function" then
    core.report(where, format("gs.attention \"%s\": sink_logit wants a function: sink_logit = "
      .. "function(p) return p.sinks end", name))
    return false
  end
  return true
end

local function two(a, b)
  if b == nil then
    core.report(nil, "keys must return two values, the first and the last key that is seen")
    return core.nothing, core.nothing
  end
  return a, b
end

-- ---- the mathematics ----

-- Where query t stands: its document, or inside = false past the last one; p with what is given by
-- document at that document.
local function place_queries(p, of_document)
  local t = f.index "T"
  local documents = f.size "B1" - 1
  local document = f.integer(f.max(f.real(f.where(f.le(p.cu_q, t), f.index "B1", 0)), "B1"))
  local inside = f.lt(document, documents)
  local function at(x, i) return f.at(x, "B1", i, inside) end
  local q0, k0 = at(p.cu_q, document), at(p.cu_k, document)
  local nq, nk = at(p.cu_q, document + 1) - q0, at(p.cu_k, document + 1) - k0
  local here = {}
  for name, x in next, p do here[name] = of_document[name] and at(x, document) or x end
  here = names.guard("p", here, core.nothing)
  return { inside = inside, p = here, k0 = k0, nq = nq, nk = nk, q = t - q0 + nk - nq }
end

-- Scores of all pairs and which are seen, as forward and backward both have them.
local function scores(l, p)
  local c = place_queries(p, l.of_document)
  local i = { q = c.q, k = f.index "S" - c.k0, nq = c.nq, nk = c.nk,
              head = f.index "K" * f.size "G" + f.index "G" }
  local first, last = two(l.keys({ q = i.q, nq = i.nq, nk = i.nk }, c.p))
  first, last = f.max(first, 0), f.min(last, c.nk - 1)
  c.i = i
  c.sees = f.and_(c.inside, f.le(first, last)) -- a key at all
  c.seen = f.and_(c.inside, f.and_(f.ge(i.k, first), f.le(i.k, last)))
  c.s = p.scale * f.sum(p.q * p.k, "D")
  c.z = l.score(c.s, i, c.p)
  c.hidden_z = f.where(c.seen, c.z, f.where(c.sees, HIDDEN, 0))
  c.sink = l.sink_logit and l.sink_logit(c.p) or nil
  return c
end

-- A logarithm as the kernels have it, in powers of two: rounded once more.
local function in_twos(x) return f.round(x * LOG2E, "f32") / LOG2E end

local function weights(c, lse)
  return f.where(c.seen, f.exp(c.hidden_z - in_twos(lse)), 0)
end

-- The author's closed forms over leaves of their own, for the kernels.
local function tell_programs(l, p)
  local i = { q = core.leaf("qi", true), k = core.leaf("ki", true), nq = core.leaf("n_q", true),
              nk = core.leaf("n_k", true), head = core.leaf("head", true) }
  local s, dz = core.leaf("s", false), core.leaf("dz", false)
  local z = l.score(s, i, p)
  core.program("score", z, "K", "G", "B1")
  core.program("slope", l.dscore(dz, s, i, p, core.leaf("z", false)), "K", "G", "B1")
  local first, last = two(l.keys({ q = i.q, nq = i.nq, nk = i.nk }, p))
  core.program("first", f.max(first, 0), "B1")
  core.program("last", f.min(last, i.nk - 1), "B1")
  local sink = l.sink_logit and l.sink_logit(p)
  if sink then core.program("sink", sink, "K", "G") end
end

-- The name of the parameter that a sink's logit is.
local function name_of(p, sink)
  for _, name in ipairs(names.keys(p)) do
    if rawequal(p[name], sink) then return name end
  end
  core.report(nil, "sink_logit must return a parameter itself: its gradient goes there")
  return "sinks"
end

-- A weight as the kernels round it: its exponential, before that is divided by their sum, so up to
-- twice as far as the weight would be.
local function rounded(w, t)
  return f.round(f.round(3 * w, t) / 3, t)
end

local function forward(l)
  return function(p)
    local c = scores(l, p)
    local lse = f.logsumexp(c.hidden_z, "S")
    if c.sink then
      local both = f.join({ f.where(c.sees, lse, HIDDEN), c.sink }, "with_sink=2")
      lse = f.logsumexp(both, "with_sink")
    end
    local w = weights(c, c.sink and lse or f.where(c.sees, lse, 0))
    if not c.sink then lse = f.where(c.sees, lse, -math.huge) end
    tell_programs(l, p)
    return {
      y = f.sum(rounded(w, p.v.type) * p.v, "S"),
      save = { lse = f.where(c.inside, lse, 0) },
    }
  end
end

local function backward(l)
  return function(p, d, s)
    local c = scores(l, p)
    local w = weights(c, c.sink and s.lse or f.where(c.sees, s.lse, 0))
    local delta = f.sum(d.y * s.y, "D")
    local dz = w * (f.sum(d.y * p.v, "D") - delta)
    local z = f.round(c.z, "f32") -- as kernels have it: what was added is not taken away unseen
    local ds = f.where(c.seen, l.dscore(dz, c.s, c.i, c.p, z), 0)
    ds = f.round(ds, p.k.type)
    local grads = {
      q = p.scale * f.sum(ds * p.k, "S"),
      k = p.scale * f.sum(ds * p.q, { "T", "G" }),
      v = f.sum(f.round(w, p.v.type) * d.y, { "T", "G" }),
    }
    if c.sink then
      local share = f.exp(in_twos(c.sink) - in_twos(s.lse))
      local lost = f.where(c.inside, share * delta, 0)
      grads[name_of(p, c.sink)] = -f.sum(lost, "T")
    end
    return grads
  end
end

-- ---- the declaration ----

-- What the author wrote, apart: the closed forms in l, parameters and the rest for gs.layer.
local function divide(spec, common, where)
  local l, whole = { of_document = {} }, {}
  for key, v in next, spec do
    if OWN[key] then l[key] = v else whole[key] = v end
    local dims = type(v) == "table" and rawget(v, "dims")
    if type(dims) == "table" and dims[1] == "B1" then l.of_document[key] = true end
  end
  for _, key in ipairs(names.keys(common)) do
    if whole[key] ~= nil then
      core.report(where, format("'%s' is what every attention has: use another name", key))
    end
    whole[key] = common[key]
  end
  return l, whole
end

local attention = {}

-- gs.attention "name" { parameters, score, dscore, keys [, sink_logit] }
function attention.attention(name)
  local where, common = core.here(), common_params()
  local layer = declare.layer(name)
  return core.keep(function(spec)
    if type(spec) ~= "table" then
      error("an attention is a table: gs.attention \"name\" { score = ... }", 0)
    end
    local l, whole = divide(spec, common, where)
    whole.dims, whole.outer = DIMS, { "T", "S", "B1" }
    whole.body = declare.template "attention"
    if check_own(name, where, spec) then
      whole.forward, whole.backward = forward(l), backward(l)
    else
      local nothing = core.nothing -- told already: what is made of it is silent
      whole.forward = function() return { y = nothing } end
      whole.backward = function() return { q = nothing, k = nothing, v = nothing } end
    end
    return layer(whole)
  end)
end

return attention
